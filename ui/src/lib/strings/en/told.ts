// What the engine tells: notices, what is wrong, and what can be done about it, in the app's own words.

import type { Advice, FailureCode, NoAnswer, NoJudge, NotElsewhere, Notice, RewriteFault, SettingFault } from "../../bindings";
import { say, troubles, whole, type Sentences } from "../notices";
import { wording } from "../wording";

const { n, plural, languages: read, typed } = wording("en");

const advice: Sentences<Advice> = {
  addFolder: () => "Add a folder in Library.",
  addFolderAgain: () => "Add it again in Library.",
  listFolders: () => "Library shows which folders there are.",
  updateIndex: () => "Choose “Look again” in Library.",
  updateIndexNowAndThen: () => "Choose “Look again” in Library from time to time.",
  repairIndexes: () => "Choose “Build the indexes anew” in the menu of a folder in Library.",
  upgradeCatalog: () => "Start Riddle again: it brings the catalog up to date.",
  replaceCatalog: () => "Move that file away and start Riddle again; your own files are not touched, and are read anew.",
  updateProgram: () => "Install the newest version of Riddle.",
  findModel: ({ name }) => `Look in Settings, Models, which ones there are, or download ${name} there.`,
  giveModel: () => "Choose a model's folder, or a model in Settings.",
  nameModel: () => "Write the name as the list in Settings does, or as ORGANISATION/NAME.",
  listModels: () => "Choose another one in Settings, Models.",
  pullModel: ({ name }) => `Download ${name} in Settings, Models.`,
  pullModelAgain: ({ name }) => `Download ${name} again in Settings, Models.`,
  restoreModel: ({ name }) => `Delete ${name} in Settings, Models: Riddle puts its own copy there anew.`,
  importModelAgain: ({ name }) => `Import ${name} again in Settings, Models, from its original folder.`,
  goOnline: () => "Switch “No network” off in Settings, or copy the model's folder from another computer and import it.",
  chooseFile: ({ choices }) => `Download it by its name alone in Settings, Models, and choose one of these there: ${choices}`,
  acceptLicense: ({ page }) => `Open ${page} in a browser and accept the licence there. Then give an access token of that account in Settings, Models.`,
  giveHubToken: () => "Give an access token in Settings, Models, if it is for some people only.",
  giveHubAddress: () => "Write it as https://huggingface.co is written.",
  chooseModelFile: () => "Put the one that you want into a folder, and import that in Settings, Models.",
  giveModelFile: () => "Import the folder in Settings, Models.",
  joinParts: () => "Download the model as a single file.",
  shardModel: () => "Set the deadline again in Pipeline: its files are then made anew.",
  convertModel: () => "Delete the model in Settings, Models, and download or import it again.",
  calibrateModel: () => "Decide by threshold instead, in Pipeline.",
  calibrateOrThreshold: ({ model }) => `Decide by threshold instead, in Pipeline: nobody has calibrated ${model} yet.`,
  calibrateFor: ({ topK }) => `Decide by threshold instead, in Pipeline, or show another number of results than ${n(topK)}.`,
  askForLess: () => "Ask for a lower precision in Pipeline, or for nothing to be pruned.",
  choosePruning: () => "Say in Pipeline how much may be pruned, or that nothing is.",
  chooseMode: () => "Say in Pipeline what pruning may change.",
  allowEndpoint: () => "Ask again: you are shown what would be sent, and asked.",
  allowServer: () => "Enter its address again in Settings, Models: you are asked there whether it may be sent them.",
  giveServerKey: () => "Enter its address again in Settings, Models, with the right key.",
  chooseWriter: () => "Choose in Settings, Answers, who writes them.",
  giveEndpoint: () => "Name the server and its model in Settings, Answers.",
  giveKey: () => "Enter the right key in Settings, Answers.",
  givePassphrase: () => "Enter the passphrase of your library, or let the system's keyring keep its key.",
  giveKeyElsewhere: () => "Unlock the system's secret store, or install one.",
  giveContext: () => "If the question and its passages are too long for the model, lower its context in Settings, Answers.",
  installOnnxRuntime: () => "Install ONNX Runtime, or choose the embedder that comes with Riddle in Settings, Models.",
  giveLibraryAddress: () => "Write it as milvus://HOST:PORT/NAME, or with milvuss:// for an encrypted connection.",
  addLibrary: () => "Add it in Settings, Shared libraries.",
  checkLibraryServer: () => "See whether its server runs, and whether the address is right.",
  giveLibraryKey: () => "Give user and password, or a token, in Settings, Shared libraries.",
  nameOriginals: () => "Say which object store keeps its files, in Settings, Shared libraries, Inside.",
  giveOriginalsKey: () => "Give the key of the object store as ACCESS:SECRET, in Settings, Shared libraries, Inside.",
  encryptLibrary: () => "Forget the library in Settings, Shared libraries, and add it again with milvuss:// in its address: that encrypts the connection.",
  writeLibraryAnew: () => "The computer that writes it does so anew, in Settings, Shared libraries.",
  pushLibrary: () => "Write it first, in Settings, Shared libraries, on the computer that has the files.",
  takeLibraryOver: () => "Taking it over removes what they wrote.",
  waitForLibrary: () => "Write to it again, if that is wanted.",
  mapLibraryFolder: () => "If this computer can reach it, say where in Settings, Shared libraries.",
  choosePort: () => "Another program seems to use it. Close that, or start Riddle again.",
  chooseSocket: () => "Start Riddle again, or start the server on the command line with another file.",
  allowOtherMachines: () => "From the app, only programs on this computer can ask.",
  useLibraryEmbedder: ({ embedder }) => `Choose the embedder that it was written with in Settings, Models: ${embedder}`,
};

/** The engine speaks English, and so does this. */
const engine = (message: string) => message;

/** Its words are a sentence among others. */
const quoted = (message: string) => whole(message);

const trouble = troubles(advice, quoted);

const rewriteFaults: Sentences<RewriteFault> = {
  slow: ({ seconds }) => `The model took longer than ${plural(seconds, { one: "second", other: "seconds" })}.`,
  failed: ({ why }) => trouble(why),
  nothing: () => "The model wrote nothing.",
  tooMuch: () => "The model wrote more than a question.",
  noQuestion: () => "The model wrote no question.",
  somethingElse: () => "The model wrote about something else.",
};

const noJudges: Sentences<NoJudge> = {
  notChosen: () => "No reranker is chosen.",
  otherModel: ({ known, chosen }) => `What its scores mean is known of ${known}, and ${chosen} is chosen.`,
  language: ({ model, languages, language }) => `${model} was trained on ${read(languages)}, and this is in another language: ${read([language])}.`,
  failed: ({ why }) => trouble(why),
};

const notElsewheres: Sentences<NotElsewhere> = {
  failed: ({ why }) => trouble(why),
  heldBack: ({ count }) => `${plural(count, { one: "passage lies", other: "passages lie" })} in folders that never leave this computer, so it was sent none.`,
};

const notices: Sentences<Notice> = {
  nothingIndexedYet: () => "Nothing is indexed yet. Add a folder in Library.",
  keywordsNotSearched: ({ why }) => `Words are not searched. ${trouble(why)}`,
  meaningNotSearched: ({ why }) => `Search by meaning is off. ${trouble(why)}`,
  noEmbedder: ({ name }) => `Search by meaning is off: its model is not installed. Only files with the same words are found. Download ${name} in Settings, Models.`,
  embedderChanging: ({ embedder }) => `Search by meaning is off until the new model has read everything. The meanings that are there were made by ${embedder}.`,
  vectorsWait: ({ waiting, why }) => `${plural(waiting, { one: "passage waits", other: "passages wait" })} for the server that embeds: words alone find them. ${trouble(why)}`,
  embedderMissing: ({ embedder }) => `Search by meaning is off: the model that made the meanings, ${embedder}, is not installed. Download it in Settings, Models.`,
  notAsQuoted: ({ phrases }) => phrases.length === 1
    ? `${typed(phrases)} was not found as it is quoted. Its words were searched for instead.`
    : `${typed(phrases)} were not found together as they are quoted. Their words were searched for instead.`,
  leftOut: ({ words }) => `Without ${typed(words)}: a minus before a word leaves out what has it.`,
  keywordsDecide: ({ model, languages, language }) => `Words decide here: ${model} reads ${read(languages)}, and this is in another language: ${read([language])}. Settings, Models has embedders that read many.`,
  notReranked: ({ why }) => `Not reranked. ${trouble(why)}`,
  notRankedElsewhere: ({ server, why }) => `${server} has not reranked. ${say(notElsewheres, why)}`,
  settingsNotElsewhere: ({ server }) => `${server} knows neither pruning nor limits of memory: they are settings of models on this computer.`,
  nobodyPruned: ({ why }) => `Nobody is pruned. ${trouble(why)}`,
  notRerankedInLanguage: ({ model, languages, language }) => `Not reranked: ${model} was trained on ${read(languages)}, and this is in another language: ${read([language])}.`,
  notRewritten: ({ why, withWordsBefore }) => `Your question was searched for as typed${withWordsBefore ? ", with words of the one before" : ""}. ${say(rewriteFaults, why)}`,
  checkedWithoutReranker: ({ why }) => `The sentences are checked by their words and meaning alone. ${say(noJudges, why)}`,
  repeats: () => "The model said the same again and again, so it was stopped.",
  passagesLeftOut: ({ count }) => `${plural(count, { one: "passage", other: "passages" })} did not fit into the model's context.`,
  passageCut: ({ number }) => `Passage ${n(number)} was cut to fit into the model's context.`,
  answerBreaksOff: ({ why }) => `The answer breaks off. ${trouble(why)}`,
  answerCutOff: () => "The answer was cut off at its longest.",
  answerTooLong: ({ tokens }) => `The answer breaks off: it has reached the limit of ${plural(tokens, { one: "token", other: "tokens" })}.`,
  folderNotWatched: ({ folder, why }) => `${folder} is only looked at every ten minutes: ${why}`,
  folderPolled: ({ folder, why }) => `${folder} is looked at from time to time instead of watched: ${why}`,
  folderMoved: ({ from, to }) => `${from} is now ${to}. What was read of it stays.`,
  libraryNotSearched: ({ name, why }) => `The library ${name} is not searched. ${trouble(why)}`,
  folderUnreachable: ({ folder, why }) => `${folder} can not be read now, and nothing of it is forgotten: ${why}`,
  told: ({ text }) => text,
};

export const told = {
  engine,
  quoted,
  advice,
  notices,
  /** Failures that say what is wrong by their code alone; of the others the engine's own words are shown. */
  failures: {
    nothingIndexed: "Nothing is indexed yet.",
    offline: "The network is switched off.",
    busy: "Another program or request is at it. Try again in a moment.",
    cancelled: "It was stopped.",
  } satisfies Partial<Record<FailureCode, string>>,
  noAnswers: {
    nothing: "Nothing in your files answers this.",
    nothingThatMayLeave: "Nothing that may leave this computer answers this. What was found in folders that never do was not sent; quoting, or a model on this computer, can use it.",
    allHeldBack: "All that was found for this lies in folders that never leave this computer, so the model was not asked. Quoting, or a model on this computer, can use it.",
    stopped: "Stopped before the first word.",
    modelWroteNothing: "The model wrote nothing.",
    modelFoundNothing: "The model found no answer in the passages.",
  } satisfies Record<NoAnswer, string>,
  settingFaults: {
    noShortcuts: () => "Shortcuts do not work in this session.",
    wayland: ({ command }) => `This desktop lets no program take a key. Bind ${command} in its own keyboard settings.`,
    noStartList: () => "This system has no list of programs to start.",
    system: ({ message }) => message,
  } satisfies Sentences<SettingFault>,
};
