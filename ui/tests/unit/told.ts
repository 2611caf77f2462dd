// One of every kind that the engine tells: a kind that is missing here, or is none any more, does not compile.

import type { Advice, NoJudge, NotElsewhere, Notice, RewriteFault, SettingFault, Trouble } from "../../src/lib/bindings";
import type { Tagged } from "../../src/lib/strings/notices";

type EveryKind<T extends Tagged> = { [K in T["kind"]]: Extract<T, { kind: K }>[] };

const trouble: Trouble = { message: "613 is damaged", advice: { kind: "pullModel", name: "617" } };
const language = { model: "613", languages: ["en", "fr"], language: "de" };

export const ADVICE: EveryKind<Advice> = {
  addFolder: [{ kind: "addFolder" }],
  addFolderAgain: [{ kind: "addFolderAgain" }],
  listFolders: [{ kind: "listFolders" }],
  updateIndex: [{ kind: "updateIndex" }],
  updateIndexNowAndThen: [{ kind: "updateIndexNowAndThen" }],
  repairIndexes: [{ kind: "repairIndexes" }],
  upgradeCatalog: [{ kind: "upgradeCatalog" }],
  replaceCatalog: [{ kind: "replaceCatalog" }],
  updateProgram: [{ kind: "updateProgram" }],
  findModel: [{ kind: "findModel", name: "613" }],
  giveModel: [{ kind: "giveModel" }],
  nameModel: [{ kind: "nameModel" }],
  listModels: [{ kind: "listModels" }],
  pullModel: [{ kind: "pullModel", name: "613" }],
  pullModelAgain: [{ kind: "pullModelAgain", name: "613" }],
  restoreModel: [{ kind: "restoreModel", name: "613" }],
  importModelAgain: [{ kind: "importModelAgain", name: "613" }],
  goOnline: [{ kind: "goOnline" }],
  chooseFile: [{ kind: "chooseFile", choices: "613, 617" }],
  acceptLicense: [{ kind: "acceptLicense", page: "613" }],
  giveHubToken: [{ kind: "giveHubToken" }],
  giveHubAddress: [{ kind: "giveHubAddress" }],
  chooseModelFile: [{ kind: "chooseModelFile" }],
  giveModelFile: [{ kind: "giveModelFile" }],
  joinParts: [{ kind: "joinParts" }],
  convertModel: [{ kind: "convertModel" }],
  calibrateModel: [{ kind: "calibrateModel", model: "613" }],
  calibrateOrThreshold: [{ kind: "calibrateOrThreshold", model: "613" }],
  calibrateFor: [{ kind: "calibrateFor", model: "613", topK: 617 }],
  shardModel: [{ kind: "shardModel" }],
  askForLess: [{ kind: "askForLess" }],
  choosePruning: [{ kind: "choosePruning" }],
  chooseMode: [{ kind: "chooseMode" }],
  allowServer: [{ kind: "allowServer" }],
  giveServerKey: [{ kind: "giveServerKey" }],
  allowEndpoint: [{ kind: "allowEndpoint" }],
  chooseWriter: [{ kind: "chooseWriter" }],
  giveEndpoint: [{ kind: "giveEndpoint" }],
  giveKey: [{ kind: "giveKey" }],
  givePassphrase: [{ kind: "givePassphrase" }],
  giveKeyElsewhere: [{ kind: "giveKeyElsewhere" }],
  giveContext: [{ kind: "giveContext" }],
  installOnnxRuntime: [{ kind: "installOnnxRuntime" }],
  giveLibraryAddress: [{ kind: "giveLibraryAddress" }],
  addLibrary: [{ kind: "addLibrary" }],
  checkLibraryServer: [{ kind: "checkLibraryServer" }],
  giveLibraryKey: [{ kind: "giveLibraryKey" }],
  encryptLibrary: [{ kind: "encryptLibrary" }],
  pushLibrary: [{ kind: "pushLibrary" }],
  writeLibraryAnew: [{ kind: "writeLibraryAnew" }],
  takeLibraryOver: [{ kind: "takeLibraryOver" }],
  waitForLibrary: [{ kind: "waitForLibrary" }],
  choosePort: [{ kind: "choosePort" }],
  chooseSocket: [{ kind: "chooseSocket" }],
  allowOtherMachines: [{ kind: "allowOtherMachines" }],
  useLibraryEmbedder: [{ kind: "useLibraryEmbedder", embedder: "613" }],
  nameOriginals: [{ kind: "nameOriginals" }],
  giveOriginalsKey: [{ kind: "giveOriginalsKey" }],
  mapLibraryFolder: [{ kind: "mapLibraryFolder" }],
};

const FAULTS: EveryKind<RewriteFault> = {
  slow: [{ kind: "slow", seconds: 613 }],
  failed: [{ kind: "failed", why: trouble }],
  nothing: [{ kind: "nothing" }],
  tooMuch: [{ kind: "tooMuch" }],
  noQuestion: [{ kind: "noQuestion" }],
  somethingElse: [{ kind: "somethingElse" }],
};

const NOT_ELSEWHERE: EveryKind<NotElsewhere> = {
  failed: [{ kind: "failed", why: trouble }],
  heldBack: [1, 613].map((count) => ({ kind: "heldBack" as const, count })),
};

const NO_JUDGES: EveryKind<NoJudge> = {
  notChosen: [{ kind: "notChosen" }],
  otherModel: [{ kind: "otherModel", known: "613", chosen: "617" }],
  language: [{ kind: "language", ...language }],
  failed: [{ kind: "failed", why: trouble }],
};

export const NOTICES: EveryKind<Notice> = {
  nothingIndexedYet: [{ kind: "nothingIndexedYet" }],
  keywordsNotSearched: [{ kind: "keywordsNotSearched", why: trouble }],
  vectorsWait: [{ kind: "vectorsWait", waiting: 1, why: trouble }, { kind: "vectorsWait", waiting: 73, why: trouble }],
  meaningNotSearched: [{ kind: "meaningNotSearched", why: trouble }],
  noEmbedder: [{ kind: "noEmbedder", name: "613" }],
  embedderChanging: [{ kind: "embedderChanging", embedder: "613" }],
  embedderMissing: [{ kind: "embedderMissing", embedder: "613" }],
  notAsQuoted: [{ kind: "notAsQuoted", phrases: ["613"] }, { kind: "notAsQuoted", phrases: ["613", "617"] }],
  leftOut: [{ kind: "leftOut", words: ["613"] }, { kind: "leftOut", words: ["613", "617"] }],
  keywordsDecide: [{ kind: "keywordsDecide", ...language }],
  notReranked: [{ kind: "notReranked", why: trouble }],
  notRankedElsewhere: Object.values(NOT_ELSEWHERE).flat().map((why) => ({ kind: "notRankedElsewhere" as const, server: "617", why })),
  settingsNotElsewhere: [{ kind: "settingsNotElsewhere", server: "613" }],
  nobodyPruned: [{ kind: "nobodyPruned", why: trouble }],
  notRerankedInLanguage: [{ kind: "notRerankedInLanguage", ...language }],
  notRewritten: Object.values(FAULTS).flat().flatMap((why) => [true, false].map((withWordsBefore) => ({ kind: "notRewritten" as const, why, withWordsBefore }))),
  checkedWithoutReranker: Object.values(NO_JUDGES).flat().map((why) => ({ kind: "checkedWithoutReranker" as const, why })),
  repeats: [{ kind: "repeats" }],
  passagesLeftOut: [1, 613].map((count) => ({ kind: "passagesLeftOut" as const, count })),
  passageCut: [{ kind: "passageCut", number: 613 }],
  answerBreaksOff: [{ kind: "answerBreaksOff", why: trouble }],
  answerCutOff: [{ kind: "answerCutOff" }],
  answerTooLong: [{ kind: "answerTooLong", tokens: 613 }],
  folderNotWatched: [{ kind: "folderNotWatched", folder: "613", why: "617" }],
  folderPolled: [{ kind: "folderPolled", folder: "613", why: "617" }],
  folderMoved: [{ kind: "folderMoved", from: "613", to: "617" }],
  libraryNotSearched: [{ kind: "libraryNotSearched", name: "613", why: trouble }],
  folderUnreachable: [{ kind: "folderUnreachable", folder: "613", why: "617" }],
  told: [{ kind: "told", text: "613" }],
};

export const SETTING_FAULTS: EveryKind<SettingFault> = {
  noShortcuts: [{ kind: "noShortcuts" }],
  wayland: [{ kind: "wayland", command: "613" }],
  noStartList: [{ kind: "noStartList" }],
  system: [{ kind: "system", message: "613" }],
};

/** Arguments for the texts of these kinds, by the text's path in the catalog. */
export const TOLD_SAMPLES: Record<string, unknown[][]> = {
  quoted: [["613"]],
  ...Object.fromEntries(
  Object.entries({ advice: ADVICE, notices: NOTICES, settingFaults: SETTING_FAULTS }).flatMap(([section, kinds]) =>
    Object.entries(kinds as Record<string, unknown[]>).map(([kind, all]) => [`${section}.${kind}`, all.map((it) => [it])]),
  )),
};
