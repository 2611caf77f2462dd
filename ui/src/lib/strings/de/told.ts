// Was die Suchmaschine mitteilt: Hinweise, was nicht stimmt, und was sich dagegen tun lässt.

import type { NoJudge, NotElsewhere, RewriteFault } from "../../bindings";
import type { told as english } from "../en/told";
import { say, troubles, whole, type Sentences } from "../notices";
import { translator } from "../translate";
import { wording } from "../wording";
import { messages } from "./messages";

const { n, choose, plural, languages: read, typed, numbers } = wording("de");

const advice: typeof english.advice = {
  addFolder: () => "Fügen Sie in der Bibliothek einen Ordner hinzu.",
  addFolderAgain: () => "Fügen Sie ihn in der Bibliothek wieder hinzu.",
  listFolders: () => "Die Bibliothek zeigt, welche Ordner es gibt.",
  updateIndex: () => "Wählen Sie in der Bibliothek „Erneut prüfen“.",
  updateIndexNowAndThen: () => "Wählen Sie von Zeit zu Zeit in der Bibliothek „Erneut prüfen“.",
  repairIndexes: () => "Wählen Sie in der Bibliothek im Menü eines Ordners „Indizes neu aufbauen“.",
  upgradeCatalog: () => "Starten Sie Riddle neu: Es bringt den Katalog auf den neuesten Stand.",
  replaceCatalog: () => "Verschieben Sie diese Datei und starten Sie Riddle neu; Ihre eigenen Dateien bleiben unberührt und werden neu gelesen.",
  updateProgram: () => "Installieren Sie die neueste Version von Riddle.",
  findModel: ({ name }) => `Sehen Sie unter Einstellungen, Modelle nach, welche es gibt, oder laden Sie dort ${name} herunter.`,
  giveModel: () => "Wählen Sie den Ordner eines Modells, oder ein Modell in den Einstellungen.",
  nameModel: () => "Schreiben Sie den Namen wie die Liste in den Einstellungen, oder als ORGANISATION/NAME.",
  listModels: () => "Wählen Sie unter Einstellungen, Modelle ein anderes.",
  pullModel: ({ name }) => `Laden Sie ${name} unter Einstellungen, Modelle herunter.`,
  pullModelAgain: ({ name }) => `Laden Sie ${name} unter Einstellungen, Modelle noch einmal herunter.`,
  restoreModel: ({ name }) => `Löschen Sie ${name} unter Einstellungen, Modelle: Riddle legt seine eigene Kopie wieder an.`,
  importModelAgain: ({ name }) => `Importieren Sie ${name} unter Einstellungen, Modelle noch einmal aus dem ursprünglichen Ordner.`,
  goOnline: () => "Schalten Sie „Kein Netzwerk“ in den Einstellungen aus, oder kopieren Sie den Ordner des Modells von einem anderen Computer und importieren ihn.",
  chooseFile: ({ choices }) => `Laden Sie es in Einstellungen, Modelle nach seinem bloßen Namen herunter, und wählen Sie dort eine von diesen: ${choices}`,
  acceptLicense: ({ page }) => `Öffnen Sie ${page} im Browser und stimmen Sie dort der Lizenz zu. Geben Sie dann ein Zugriffstoken dieses Kontos in Einstellungen, Modelle an.`,
  giveHubToken: () => "Geben Sie in Einstellungen, Modelle ein Zugriffstoken an, falls es nur für manche ist.",
  giveHubAddress: () => "Schreiben Sie sie, wie https://huggingface.co geschrieben ist.",
  chooseModelFile: () => "Legen Sie die gewünschte Datei in einen Ordner und importieren Sie diesen unter Einstellungen, Modelle.",
  giveModelFile: () => "Importieren Sie den Ordner unter Einstellungen, Modelle.",
  joinParts: () => "Laden Sie das Modell als eine einzige Datei herunter.",
  shardModel: () => "Stellen Sie die Frist unter Ablauf noch einmal ein: Ihre Dateien werden dann neu angelegt.",
  convertModel: () => "Löschen Sie das Modell unter Einstellungen, Modelle, und laden oder importieren Sie es noch einmal.",
  calibrateModel: () => "Entscheiden Sie in der Pipeline stattdessen nach Schwellenwert.",
  calibrateOrThreshold: ({ model }) => `Entscheiden Sie in der Pipeline stattdessen nach Schwellenwert: Noch niemand hat ${model} kalibriert.`,
  calibrateFor: ({ topK }) => `Entscheiden Sie in der Pipeline stattdessen nach Schwellenwert, oder lassen Sie eine andere Zahl von Treffern anzeigen als ${n(topK)}.`,
  askForLess: () => "Verlangen Sie in der Pipeline eine geringere Präzision, oder dass nichts früh ausscheidet.",
  choosePruning: () => "Legen Sie in der Pipeline fest, wie viel früh ausscheiden darf, oder dass nichts es tut.",
  chooseMode: () => "Legen Sie in der Pipeline fest, was Pruning ändern darf.",
  allowServer: () => "Geben Sie seine Adresse unter Einstellungen, Modelle noch einmal ein: Dort werden Sie gefragt, ob sie ihm gesendet werden dürfen.",
  giveServerKey: () => "Geben Sie unter Einstellungen, Modelle noch einmal seine Adresse ein, mit dem richtigen Schlüssel.",
  allowEndpoint: () => "Fragen Sie noch einmal: Sie sehen dann, was gesendet würde, und werden gefragt.",
  chooseWriter: () => "Wählen Sie unter Einstellungen, Antworten, wer sie schreibt.",
  giveEndpoint: () => "Nennen Sie unter Einstellungen, Antworten den Server und sein Modell.",
  giveKey: () => "Geben Sie unter Einstellungen, Antworten den richtigen Schlüssel ein.",
  givePassphrase: () => "Geben Sie die Passphrase Ihrer Bibliothek ein, oder lassen Sie den Schlüsselbund des Systems den Schlüssel aufbewahren.",
  giveKeyElsewhere: () => "Entsperren Sie den Schlüsselbund dieses Systems, oder installieren Sie einen.",
  giveContext: () => "Wenn die Frage und ihre Textstellen zu lang für das Modell sind, verringern Sie seinen Kontext unter Einstellungen, Antworten.",
  installOnnxRuntime: () => "Installieren Sie ONNX Runtime, oder wählen Sie unter Einstellungen, Modelle das Modell, das Riddle mitbringt.",
  giveLibraryAddress: () => "Schreiben Sie sie als milvus://RECHNER:PORT/NAME, oder mit milvuss:// für eine verschlüsselte Verbindung.",
  addLibrary: () => "Fügen Sie sie unter Einstellungen, Geteilte Bibliotheken hinzu.",
  checkLibraryServer: () => "Sehen Sie nach, ob ihr Server läuft und die Adresse stimmt.",
  giveLibraryKey: () => "Geben Sie Benutzer und Passwort, oder ein Token, unter Einstellungen, Geteilte Bibliotheken an.",
  nameOriginals: () => "Sagen Sie unter Einstellungen, Geteilte Bibliotheken, Inhalt, welcher Objektspeicher ihre Dateien aufbewahrt.",
  giveOriginalsKey: () => "Geben Sie den Schlüssel des Objektspeichers als ZUGANG:GEHEIMNIS an, unter Einstellungen, Geteilte Bibliotheken, Inhalt.",
  encryptLibrary: () => "Vergessen Sie die Bibliothek unter Einstellungen, Geteilte Bibliotheken, und fügen Sie sie mit milvuss:// in der Adresse wieder hinzu: Das verschlüsselt die Verbindung.",
  writeLibraryAnew: () => "Der Computer, der sie schreibt, schreibt sie unter Einstellungen, Geteilte Bibliotheken neu.",
  pushLibrary: () => "Schreiben Sie sie zuerst, unter Einstellungen, Geteilte Bibliotheken auf dem Computer, der die Dateien hat.",
  takeLibraryOver: () => "Sie zu übernehmen entfernt, was sie geschrieben haben.",
  waitForLibrary: () => "Schreiben Sie noch einmal hinein, wenn das gewünscht ist.",
  mapLibraryFolder: () => "Wenn dieser Computer sie erreicht, sagen Sie unter Einstellungen, Geteilte Bibliotheken, wo.",
  choosePort: () => "Ein anderes Programm verwendet ihn wohl. Beenden Sie es, oder starten Sie Riddle neu.",
  chooseSocket: () => "Starten Sie Riddle neu, oder starten Sie den Server auf der Befehlszeile mit einer anderen Datei.",
  allowOtherMachines: () => "Aus der App heraus bleibt der Zugang auf diesen Rechner beschränkt.",
  useLibraryEmbedder: ({ embedder }) => `Wählen Sie unter Einstellungen, Modelle das Modell, mit dem sie geschrieben wurde: ${embedder}`,
};

const engine = translator(messages, (value) => numbers().tick(value));

// Die Suchmaschine spricht Englisch; was von ihr keiner kennt, bleibt ein Zitat.
const quoted = (message: string) => {
  const said = engine(message);
  return said === message ? `Die Meldung lautet: „${message.trim()}“.` : whole(said);
};

const trouble = troubles(advice, quoted);

const rewriteFaults: Sentences<RewriteFault> = {
  slow: ({ seconds }) => `Das Modell brauchte länger als ${plural(seconds, { one: "Sekunde", other: "Sekunden" })}.`,
  failed: ({ why }) => trouble(why),
  nothing: () => "Das Modell hat nichts geschrieben.",
  tooMuch: () => "Das Modell hat mehr als eine Frage geschrieben.",
  noQuestion: () => "Das Modell hat keine Frage geschrieben.",
  somethingElse: () => "Das Modell hat über etwas anderes geschrieben.",
};

const notElsewheres: Sentences<NotElsewhere> = {
  failed: ({ why }) => trouble(why),
  heldBack: ({ count }) => `${plural(count, { one: "Textstelle liegt", other: "Textstellen liegen" })} in Ordnern, die diesen Rechner nie verlassen; deshalb wurde ihm keine gesendet.`,
};

const noJudges: Sentences<NoJudge> = {
  notChosen: () => "Es ist kein Reranker gewählt.",
  otherModel: ({ known, chosen }) => `Was seine Werte bedeuten, ist von ${known} bekannt, und gewählt ist ${chosen}.`,
  language: ({ model, languages, language }) => `${model} wurde mit diesen Sprachen trainiert: ${read(languages)}; das hier ist in einer anderen: ${read([language])}.`,
  failed: ({ why }) => trouble(why),
};

export const told: typeof english = {
  engine,
  quoted,
  advice,
  notices: {
    nothingIndexedYet: () => "Noch ist nichts indiziert. Fügen Sie in der Bibliothek einen Ordner hinzu.",
    keywordsNotSearched: ({ why }) => `Nach Wörtern wird nicht gesucht. ${trouble(why)}`,
    meaningNotSearched: ({ why }) => `Die Suche nach Bedeutung ist aus. ${trouble(why)}`,
    noEmbedder: ({ name }) => `Die Suche nach Bedeutung ist aus: Ihr Modell ist nicht installiert. Nur Dateien mit denselben Wörtern werden gefunden. Laden Sie ${name} unter Einstellungen, Modelle herunter.`,
    embedderChanging: ({ embedder }) => `Die Suche nach Bedeutung ist aus, bis das neue Modell alles gelesen hat. Die vorhandenen Bedeutungen stammen von ${embedder}.`,
    vectorsWait: ({ waiting, why }) => `${plural(waiting, { one: "Textstelle wartet", other: "Textstellen warten" })} auf den Server, der einbettet, und ${choose(waiting, { one: "wird", other: "werden" })} nur nach Wörtern gefunden. ${trouble(why)}`,
    embedderMissing: ({ embedder }) => `Die Suche nach Bedeutung ist aus: Das Modell, von dem die Bedeutungen stammen, ${embedder}, ist nicht installiert. Laden Sie es unter Einstellungen, Modelle herunter.`,
    notAsQuoted: ({ phrases }) => phrases.length === 1
      ? `${typed(phrases)} wurde nicht so gefunden, wie es in Anführungszeichen steht. Gesucht wurde stattdessen nach den Wörtern darin.`
      : `${typed(phrases)} wurden nicht zusammen so gefunden, wie sie in Anführungszeichen stehen. Gesucht wurde stattdessen nach den Wörtern darin.`,
    leftOut: ({ words }) => `Ohne ${typed(words)}: Ein Minus vor einem Wort lässt weg, worin es vorkommt.`,
    keywordsDecide: ({ model, languages, language }) => `Hier entscheiden die Wörter: ${model} liest diese Sprachen: ${read(languages)}; das hier ist in einer anderen: ${read([language])}. In den Einstellungen, Modelle, gibt es Embedder, die viele lesen.`,
    notReranked: ({ why }) => `Ohne Reranking. ${trouble(why)}`,
    notRankedElsewhere: ({ server, why }) => `${server} hat nicht sortiert. ${say(notElsewheres, why)}`,
    settingsNotElsewhere: ({ server }) => `${server} kennt weder frühes Ausscheiden noch Grenzen für den Speicher: Das sind Einstellungen für Modelle auf diesem Rechner.`,
    nobodyPruned: ({ why }) => `Niemand scheidet früh aus. ${trouble(why)}`,
    notRerankedInLanguage: ({ model, languages, language }) => `Ohne Reranking: ${model} wurde mit diesen Sprachen trainiert: ${read(languages)}; das hier ist in einer anderen: ${read([language])}.`,
    notRewritten: ({ why, withWordsBefore }) => `Ihre Frage wurde gesucht, wie sie dasteht${withWordsBefore ? ", mit Wörtern der Frage davor" : ""}. ${say(rewriteFaults, why)}`,
    checkedWithoutReranker: ({ why }) => `Die Sätze sind allein an ihren Wörtern und ihrer Bedeutung geprüft. ${say(noJudges, why)}`,
    repeats: () => "Das Modell sagte immer wieder dasselbe und wurde angehalten.",
    passagesLeftOut: ({ count }) => `${plural(count, { one: "Textstelle", other: "Textstellen" })} ${choose(count, { one: "passte", other: "passten" })} nicht in den Kontext des Modells.`,
    passageCut: ({ number }) => `Textstelle ${n(number)} wurde gekürzt, damit sie in den Kontext des Modells passt.`,
    answerBreaksOff: ({ why }) => `Die Antwort bricht ab. ${trouble(why)}`,
    answerCutOff: () => "Die Antwort wurde an ihrer größten Länge abgeschnitten.",
    answerTooLong: ({ tokens }) => `Die Antwort bricht ab: Sie hat die Grenze von ${plural(tokens, { one: "Token", other: "Tokens" })} erreicht.`,
    folderNotWatched: ({ folder, why }) => `Nach ${folder} wird nur alle zehn Minuten gesehen: ${engine(why)}`,
    folderPolled: ({ folder, why }) => `${folder} wird nicht überwacht, sondern von Zeit zu Zeit angesehen: ${engine(why)}`,
    folderMoved: ({ from, to }) => `${from} ist jetzt ${to}. Was davon gelesen wurde, bleibt.`,
    libraryNotSearched: ({ name, why }) => `Die Bibliothek ${name} wird nicht durchsucht. ${trouble(why)}`,
    folderUnreachable: ({ folder, why }) => `${folder} kann jetzt nicht gelesen werden; nichts davon wird vergessen: ${engine(why)}`,
    told: ({ text }) => text,
  },
  failures: {
    nothingIndexed: "Noch ist nichts indiziert.",
    offline: "Das Netzwerk ist ausgeschaltet.",
    busy: "Ein anderes Programm oder eine andere Anfrage ist gerade dabei. Versuchen Sie es gleich noch einmal.",
    cancelled: "Es wurde angehalten.",
  },
  noAnswers: {
    nothing: "Nichts in Ihren Dateien beantwortet das.",
    nothingThatMayLeave: "Nichts, was diesen Computer verlassen darf, beantwortet das. Was in Ordnern gefunden wurde, die ihn nie verlassen, wurde nicht gesendet; Zitate oder ein Modell auf diesem Computer können es verwenden.",
    allHeldBack: "Alles, was dazu gefunden wurde, liegt in Ordnern, die diesen Computer nie verlassen; das Modell wurde daher nicht gefragt. Zitate oder ein Modell auf diesem Computer können es verwenden.",
    stopped: "Vor dem ersten Wort angehalten.",
    modelWroteNothing: "Das Modell hat nichts geschrieben.",
    modelFoundNothing: "Das Modell hat in den Textstellen keine Antwort gefunden.",
  },
  settingFaults: {
    noShortcuts: () => "Tastenkürzel funktionieren in dieser Sitzung nicht.",
    wayland: ({ command }) => `Dieser Desktop lässt kein Programm eine Taste belegen. Legen Sie ${command} in seinen eigenen Tastatureinstellungen auf eine Taste.`,
    noStartList: () => "Dieses System führt keine Liste von Programmen, die es startet.",
    system: ({ message }) => message,
  },
};
