// Was die Bibliotheken auf Englisch sagen: Fehler, und was im Verzeichnis der Dateien steht. Fehlt ein Satz, wird die
// Oberfläche nicht gebaut; `{1}`, `{2}` … stehen für dasselbe wie links.

import type { Message } from "../messages";

export const messages: Record<Message, string> = {
  "1 more page can be read as a picture": "noch 1 Seite kann als Bild gelesen werden",
  "1 more picture in it can be read": "noch 1 Bild darin kann gelesen werden",
  "1 page read as a picture, {1} % sure": "1 Seite als Bild gelesen, zu {1} % sicher",
  "1 picture in it read, {1} % sure": "1 Bild darin gelesen, zu {1} % sicher",
  "ONNX Runtime was not found ({1})": "ONNX Runtime wurde nicht gefunden ({1})",
  "a copy that Outlook keeps for itself: the same mails are read from a PST file":
    "eine Kopie, die Outlook für sich behält: dieselben Mails werden aus einer PST-Datei gelesen",
  "a damaged Outlook file: copy it again while Outlook is closed, or repair it with Outlook's Inbox Repair Tool":
    "eine beschädigte Outlook-Datei: kopieren Sie sie noch einmal, während Outlook geschlossen ist, oder reparieren Sie sie mit Outlooks Tool zum Reparieren des Posteingangs",
  "a home is encrypted by a passphrase or a keyring":
    "eine Bibliothek wird mit einer Passphrase oder einem Schlüsselbund verschlüsselt",
  "a long table: rows beyond the first {1} passages are found by words alone":
    "eine lange Tabelle: Zeilen jenseits der ersten {1} Textstellen werden nur nach Wörtern gefunden",
  "a matrix of {1} × {2} is too large to be packed": "eine Matrix von {1} × {2} ist zu groß zum Packen",
  "a memory budget of {1} MiB can not hold this embedder: it needs at least {2} MiB":
    "ein Speicherbudget von {1} MiB reicht für diesen Embedder nicht: er braucht mindestens {2} MiB",
  "a memory budget of {1} MiB can not hold this request: it needs at least {2} MiB (fewer candidates or shorter pairs need less)":
    "ein Speicherbudget von {1} MiB reicht für diese Anfrage nicht: sie braucht mindestens {2} MiB (weniger Kandidaten oder kürzere Paare brauchen weniger)",
  "a notebook without cells": "ein Notizbuch ohne Zellen",
  "a packed matrix of {1} × {2} takes {3} bytes, not {4}: convert the model again":
    "eine gepackte Matrix von {1} × {2} hat {3} Bytes, nicht {4}: konvertieren Sie das Modell noch einmal",
  "a picture in a format that is not read": "ein Bild in einem Format, das nicht gelesen wird",
  "a picture in it is not found again": "ein Bild darin ist nicht wiederzufinden",
  "a picture whose letters can not be read: others than clear Latin, Chinese and Japanese ones need Tesseract":
    "ein Bild, dessen Buchstaben nicht zu lesen sind: andere als deutliche lateinische, chinesische und japanische brauchen Tesseract",
  "a picture without text": "ein Bild ohne Text",
  "a picture: what it shows is not read": "ein Bild: was es zeigt, wird nicht gelesen",
  "a result for text {1} of {2}": "ein Ergebnis für Text {1} von {2}",
  "a table without end: rows beyond the first {1} passages are not kept":
    "eine Tabelle ohne Ende: Zeilen jenseits der ersten {1} Textstellen werden nicht behalten",
  "a vector of {1} numbers for {2}, which makes vectors of {3}: choose the embedder again":
    "ein Vektor von {1} Zahlen für {2}, das Vektoren von {3} macht: wählen Sie den Embedder noch einmal",
  "access is refused: accept the model's terms on its page and give a token, or ask who runs the firewall":
    "der Zugriff wird verweigert: stimmen Sie den Bedingungen des Modells auf seiner Seite zu und geben Sie ein Token an, oder fragen Sie, wer die Firewall betreibt",
  "an empty page": "eine leere Seite",
  "another process is changing the models in {1}: wait until it has finished":
    "ein anderer Prozess ändert gerade die Modelle in {1}: warten Sie, bis er fertig ist",
  "another process of Riddle{1} is indexing {2}: wait for it, or stop it":
    "ein anderer Riddle-Prozess{1} indiziert gerade {2}: warten Sie auf ihn, oder halten Sie ihn an",
  "another program has this home open (the app, a server, a search): close it first":
    "ein anderes Programm hat diese Bibliothek geöffnet (die App, ein Server, eine Suche): schließen Sie es zuerst",
  "browsing history: it is read when you allow it in the settings":
    "Chronik eines Browsers: sie wird gelesen, wenn Sie es in den Einstellungen erlauben",
  "can not be read: {1}": "kann nicht gelesen werden: {1}",
  "can not index {1}: {2}": "{1} kann nicht indiziert werden: {2}",
  "can not start the thread that reads layers or hidden states: {1}":
    "der Thread, der Schichten oder Zwischenstände liest, kann nicht gestartet werden: {1}",
  "can not start {1} compute threads: {2}": "{1} Rechenthreads können nicht gestartet werden: {2}",
  "can not watch {1}: {2}": "{1} kann nicht überwacht werden: {2}",
  "damaged: what follows is not read": "beschädigt: was folgt, wird nicht gelesen",
  "damaged: {1}": "beschädigt: {1}",
  "empty file": "leere Datei",
  "entry {1}: {2}": "Eintrag {1}: {2}",
  "files lie too deep inside of each other": "Dateien liegen zu tief ineinander",
  "folder number {1} is no longer in the library": "Ordner Nummer {1} ist nicht mehr in der Bibliothek",
  "from row {1} of {2} on nothing is read: {3} MiB of cells are kept of one file":
    "ab Zeile {1} von {2} wird nichts gelesen: von einer Datei werden {3} MiB an Zellen behalten",
  "from row {1} of {2} on nothing is read: {3} rows are kept of a sheet":
    "ab Zeile {1} von {2} wird nichts gelesen: von einem Blatt werden {3} Zeilen behalten",
  "from row {1} on nothing is read: {2} MiB of cells are kept of one file":
    "ab Zeile {1} wird nichts gelesen: von einer Datei werden {2} MiB an Zellen behalten",
  "from sheet {1} on nothing is read: {2} MiB of cells are kept of one file":
    "ab Blatt {1} wird nichts gelesen: von einer Datei werden {2} MiB an Zellen behalten",
  "handwriting on {1} pages that OneNote has not recognized is not read":
    "Handschrift auf {1} Seiten, die OneNote nicht erkannt hat, wird nicht gelesen",
  "hidden sheets are not read ({1})": "ausgeblendete Blätter werden nicht gelesen ({1})",
  "internal error: {1}: this is a bug, please report it": "innerer Fehler: {1}: das ist ein Programmfehler, bitte melden Sie ihn",
  "invalid memory access": "unzulässiger Speicherzugriff",
  "it aborted": "es hat selbst abgebrochen",
  "it begins with https:// and a host": "sie beginnt mit https:// und einem Rechner",
  "it ends before a ? or #": "sie endet vor einem ? oder #",
  "it holds too many files": "es enthält zu viele Dateien",
  "it holds too much": "es enthält zu viel",
  "it is damaged": "es ist beschädigt",
  "it is not encrypted: only this very computer may be asked over http://":
    "sie ist nicht verschlüsselt: über http:// darf nur dieser Rechner selbst gefragt werden",
  "it is packed by {1}": "es ist mit {1} gepackt",
  "it takes too long": "es dauert zu lange",
  "it was killed, perhaps for lack of memory": "es wurde beendet, vielleicht aus Mangel an Speicher",
  "its fonts do not say which letters they draw: to be read as a scan":
    "seine Schriften sagen nicht, welche Buchstaben sie zeichnen: wie ein Scan zu lesen",
  "its own parser failed: read as plain text, at most 256 KiB of it":
    "sein eigener Parser ist gescheitert: als reiner Text gelesen, höchstens 256 KiB davon",
  "its vocabulary has a piece with the id {1}: no model has that many":
    "das Vokabular hat ein Stück mit der Nummer {1}: so viele hat kein Modell",
  "its vocabulary needs more than {1} nodes: no vocabulary in use needs half of them":
    "das Vokabular braucht mehr als {1} Knoten: kein gebräuchliches braucht auch nur die Hälfte",
  "larger than the limit of {1} MiB": "größer als die Grenze von {1} MiB",
  "layer {1}, expert {2} ({3}) of {4}: {5}": "Schicht {1}, Experte {2} ({3}) von {4}: {5}",
  "layer {1}, tensor {2} ({3}) of {4}: {5}": "Schicht {1}, Tensor {2} ({3}) von {4}: {5}",
  "layer {1}: {2}": "Schicht {1}: {2}",
  "message {1}: {2}": "Nachricht {1}: {2}",
  "more than {1} parts in one mail": "mehr als {1} Teile in einer Mail",
  "most letters can not be read: others than clear Latin, Chinese and Japanese ones need Tesseract":
    "die meisten Buchstaben sind nicht zu lesen: andere als deutliche lateinische, chinesische und japanische brauchen Tesseract",
  "no answer within {1} s: it was stopped": "keine Antwort in {1} s: es wurde angehalten",
  "no longer a regular file": "keine gewöhnliche Datei mehr",
  "no model named {1} is installed": "es ist kein Modell namens {1} installiert",
  "no parser for .{1} files": "kein Parser für .{1}-Dateien",
  "no parser for this format": "kein Parser für dieses Format",
  "no secret store can be used here ({1})": "hier kann kein Schlüsselbund verwendet werden ({1})",
  "no shared library named {1} is known": "es ist keine geteilte Bibliothek namens {1} bekannt",
  "no text in it": "kein Text darin",
  "no text in its files": "kein Text in seinen Dateien",
  "no text layer beside its form and notes: probably a scan": "keine Textebene neben Formular und Anmerkungen: vermutlich ein Scan",
  "no text layer: probably a scan": "keine Textebene: vermutlich ein Scan",
  "no thread can be started: {1}": "es kann kein Thread gestartet werden: {1}",
  "no thread could be started for the network: {1}": "für das Netzwerk konnte kein Thread gestartet werden: {1}",
  "no thread to parse it on: {1}": "kein Thread, auf dem es gelesen werden könnte: {1}",
  "not UTF-8: read as {1}": "nicht UTF-8: gelesen als {1}",
  "not UTF-8: read as {1}, some bytes are not valid in it": "nicht UTF-8: gelesen als {1}, einige Bytes passen nicht dazu",
  "not a 7z archive": "kein 7z-Archiv",
  "not a book for Kindle or Mobipocket": "kein Buch für Kindle oder Mobipocket",
  "not a book: {1}": "kein Buch: {1}",
  "not a notebook: {1}": "kein Notizbuch: {1}",
  "not a tape archive": "kein Tar-Archiv",
  "not a web archive": "kein Webarchiv",
  "not all of it is read: {1}": "nicht alles davon ist gelesen: {1}",
  "not an Outlook file, whatever its name says: rename it if it is something else":
    "keine Outlook-Datei, was auch immer ihr Name sagt: benennen Sie sie um, wenn sie etwas anderes ist",
  "not bookmarks: {1}": "keine Lesezeichen: {1}",
  "not the history of a browser that is known": "keine Chronik eines bekannten Browsers",
  "nothing is indexed in {1}": "in {1} ist nichts indiziert",
  "only the first {1} entries are read": "nur die ersten {1} Einträge werden gelesen",
  "only the first {1} pages are read": "nur die ersten {1} Seiten werden gelesen",
  "only the first {1} people are read": "nur die ersten {1} Personen werden gelesen",
  "only the first {1} pictures in it are read": "nur die ersten {1} Bilder darin werden gelesen",
  "only the first {1} rows are read": "nur die ersten {1} Zeilen werden gelesen",
  "only the newest {1} pages are read": "nur die neuesten {1} Seiten werden gelesen",
  "packed by Huffman codes, which are not read": "mit Huffman-Codes gepackt, die nicht gelesen werden",
  "page {1}: {2}": "Seite {1}: {2}",
  "pairs of {1} tokens hold no text beside what the model's template needs: allow at least {2}":
    "Paare von {1} Tokens fassen keinen Text neben dem, was die Vorlage des Modells braucht: erlauben Sie mindestens {2}",
  "parsing needed more than {1} MiB of memory": "das Lesen brauchte mehr als {1} MiB Speicher",
  "parsing took longer than {1} seconds": "das Lesen dauerte länger als {1} Sekunden",
  "pictures: what they show is not read": "Bilder: was sie zeigen, wird nicht gelesen",
  "protected against copying": "gegen Kopieren geschützt",
  "protected by a password": "mit einem Passwort geschützt",
  "rows of {1} inputs are no whole blocks of {2}: get the file again, or in another format":
    "Zeilen von {1} Eingaben sind keine ganzen Blöcke von {2}: laden Sie die Datei noch einmal, oder in einem anderen Format",
  "sheet {1}: {2}": "Blatt {1}: {2}",
  "signal {1}": "Signal {1}",
  "some bytes are not valid {1}": "einige Bytes passen nicht zu {1}",
  "somebody has removed what this computer writes to the library at {1}: this run has stopped":
    "jemand hat entfernt, was dieser Computer in die Bibliothek unter {1} schreibt: dieser Lauf wurde angehalten",
  "stopped": "angehalten",
  "stopped before it was done": "vor dem Ende angehalten",
  "stopped while weights were read": "angehalten, während Gewichte gelesen wurden",
  "stopped; what was fetched is kept, and the next pull continues there":
    "angehalten; was geladen ist, bleibt, und beim nächsten Mal geht es dort weiter",
  "tensor {1} has {2} rows, row {3} was asked for: the tokenizer does not belong to these weights":
    "Tensor {1} hat {2} Zeilen, verlangt wurde Zeile {3}: der Tokenizer gehört nicht zu diesen Gewichten",
  "tensor {1} holds values that {2} can not: choose another format, BF16 holds all that F32 does":
    "Tensor {1} enthält Werte, die {2} nicht fasst: wählen Sie ein anderes Format, BF16 fasst alles, was F32 fasst",
  "the answer ends in the middle": "die Antwort endet mittendrin",
  "the answer has more than {1} bytes": "die Antwort hat mehr als {1} Bytes",
  "the answer has no {1}": "der Antwort fehlt {1}",
  "the answer is no JSON, it begins with {1}": "die Antwort ist kein JSON, sie beginnt mit {1}",
  "the bytes of a packed matrix of {1} × {2} are not aligned to four: this is a bug":
    "die Bytes einer gepackten Matrix von {1} × {2} liegen nicht auf einem Vielfachen von vier: das ist ein Programmfehler",
  "the catalog does not know the embedder {1}": "der Katalog kennt den Embedder {1} nicht",
  "the catalog is busy with another program's change: try again in a moment":
    "ein anderes Programm ändert gerade den Katalog: versuchen Sie es gleich noch einmal",
  "the catalog: {1}": "der Katalog: {1}",
  "the computation failed ({1}): this is a bug, and the embedder can be used again":
    "die Berechnung ist gescheitert ({1}): das ist ein Programmfehler, und der Embedder kann wieder verwendet werden",
  "the computation failed ({1}): this is a bug, and the engine can be used again":
    "die Berechnung ist gescheitert ({1}): das ist ein Programmfehler, und der Reranker kann wieder verwendet werden",
  "the connection to {1} failed: {2}": "die Verbindung zu {1} ist abgebrochen: {2}",
  "the disk is full: free some space and try again, nothing that was indexed is lost":
    "der Datenträger ist voll: schaffen Sie Platz und versuchen Sie es noch einmal; von dem, was indiziert ist, geht nichts verloren",
  "the embedding is not a number: the model's weights are damaged, fetch it again":
    "das Embedding ist keine Zahl: die Gewichte des Modells sind beschädigt, laden Sie es noch einmal",
  "the film is gone: it no longer lies beside its subtitles": "der Film ist weg: er liegt nicht mehr neben seinen Untertiteln",
  "the key can not be made: {1}": "der Schlüssel kann nicht erzeugt werden: {1}",
  "the key in the keyring is not the key of this home": "der Schlüssel im Schlüsselbund ist nicht der dieser Bibliothek",
  "the key is not sent to {1}, which is not encrypted: use https, or leave the key away":
    "der Schlüssel wird nicht an {1} gesendet, weil die Verbindung nicht verschlüsselt ist: verwenden Sie https, oder lassen Sie den Schlüssel weg",
  "the key of this home is in the keyring alone: give it a passphrase first":
    "der Schlüssel dieser Bibliothek ist nur im Schlüsselbund: geben Sie ihr zuerst eine Passphrase",
  "the key of this home is in the system's keyring of the computer that encrypted it, and has no passphrase":
    "der Schlüssel dieser Bibliothek ist im Schlüsselbund des Computers, der sie verschlüsselt hat, und hat keine Passphrase",
  "the key of this home is in this computer's keyring alone: give it a passphrase first":
    "der Schlüssel dieser Bibliothek ist nur im Schlüsselbund dieses Computers: geben Sie ihr zuerst eine Passphrase",
  "the keyring does not give the key of this library":
    "der Schlüsselbund gibt den Schlüssel dieser Bibliothek nicht heraus",
  "the keyword index: {1}": "der Wortindex: {1}",
  "the library at {1} does not say who may read what: an older version has written it":
    "die Bibliothek unter {1} sagt nicht, wer was lesen darf: eine ältere Version hat sie geschrieben",
  "the library at {1} is written from {2}, too":
    "in die Bibliothek unter {1} schreibt auch {2}",
  "the library at {1} was begun by an older version, in another form":
    "die Bibliothek unter {1} wurde von einer älteren Version begonnen, in einer anderen Form",
  "the library at {1} was written by a newer version (its form is {2}, this program knows {3})":
    "die Bibliothek unter {1} wurde von einer neueren Version geschrieben (ihre Form ist {2}, dieses Programm kennt {3})",
  "the library at {1} was written with the embedder {2}, and {3} is used here":
    "die Bibliothek unter {1} wurde mit dem Embedder {2} geschrieben, und hier wird {3} verwendet",
  "the model in {1} can not be used: {2}": "das Modell in {1} kann nicht verwendet werden: {2}",
  "the model needs at least {1} MB of memory to run, the budget is {2} MB: give it more, or choose a smaller model":
    "das Modell braucht mindestens {1} MB Speicher, das Budget ist {2} MB: geben Sie ihm mehr, oder wählen Sie ein kleineres",
  "the model was unloaded after an internal error: {1}; ask again":
    "das Modell wurde nach einem inneren Fehler entladen: {1}; fragen Sie noch einmal",
  "the model {1} could not be fetched. From the hub: {2}. From the package index: {3}":
    "das Modell {1} konnte nicht geladen werden. Vom Hub: {2}. Vom Paketverzeichnis: {3}",
  "the model {1} is not in {2}": "das Modell {1} ist nicht in {2}",
  "the model {1} would have to be fetched, and the network is switched off":
    "das Modell {1} müsste geladen werden, und das Netzwerk ist ausgeschaltet",
  "the model's chat template can not be used: {1}": "die Chat-Vorlage des Modells kann nicht verwendet werden: {1}",
  "the newest visits can be missing: a browser that is open keeps them beside this file":
    "die neuesten Besuche können fehlen: ein offener Browser hält sie neben dieser Datei",
  "the page can not be drawn": "die Seite kann nicht gezeichnet werden",
  "the parser crashed ({1})": "der Parser ist abgestürzt ({1})",
  "the parser crashed: the document is nested too deeply": "der Parser ist abgestürzt: das Dokument ist zu tief verschachtelt",
  "the parser gave up: {1}": "der Parser hat aufgegeben: {1}",
  "the parser is of another version: install Riddle again":
    "der Parser ist von einer anderen Version: installieren Sie Riddle noch einmal",
  "the parser {1} can not be started: {2}": "der Parser {1} kann nicht gestartet werden: {2}",
  "the parser's answer makes no sense: {1}": "die Antwort des Parsers ergibt keinen Sinn: {1}",
  "the parser's process is gone": "der Prozess des Parsers ist weg",
  "the passphrase is empty": "die Passphrase ist leer",
  "the password for {1} is not sent: the connection is not encrypted":
    "das Passwort für {1} wird nicht gesendet: die Verbindung ist nicht verschlüsselt",
  "the picture has {1} × {2} points, more than are read": "das Bild hat {1} × {2} Punkte, mehr als gelesen werden",
  "the picture is damaged: {1}": "das Bild ist beschädigt: {1}",
  "the proxy wants a user name and a password": "der Proxy will einen Benutzernamen und ein Passwort",
  "the query has a vector of {1} numbers, the index holds vectors of {2}: the embedder was changed":
    "die Anfrage hat einen Vektor von {1} Zahlen, der Index enthält Vektoren von {2}: der Embedder wurde geändert",
  "the query is empty: say what the candidates should be ranked by":
    "die Anfrage ist leer: sagen Sie, wonach die Kandidaten geordnet werden sollen",
  "the question takes {1} tokens, the model's context has room for {2}: ask in fewer words, or allow a longer context":
    "die Frage hat {1} Tokens, im Kontext des Modells ist Platz für {2}: fragen Sie mit weniger Wörtern, oder erlauben Sie einen längeren Kontext",
  "the run was stopped after layer {1}": "der Lauf wurde nach Schicht {1} angehalten",
  "the scores after layer {1} are not numbers: the model's weights are damaged, fetch it again":
    "die Werte nach Schicht {1} sind keine Zahlen: die Gewichte des Modells sind beschädigt, laden Sie es noch einmal",
  "the search index {1} is damaged ({2})": "der Suchindex {1} ist beschädigt ({2})",
  "the search index {1} must be built again ({2})": "der Suchindex {1} muss neu angelegt werden ({2})",
  "the second engine is not there": "der zweite PDF-Leser ist nicht da",
  "the secret store did not do it: {1}": "der Schlüsselbund hat es nicht getan: {1}",
  "the temporary file for hidden states can not be used ({1}): free some disk space, choose another folder for it, or allow more memory":
    "die vorläufige Datei für Zwischenstände kann nicht verwendet werden ({1}): schaffen Sie Platz, wählen Sie einen anderen Ordner dafür, oder erlauben Sie mehr Speicher",
  "the text can not be tokenized: {1}": "der Text kann nicht in Tokens zerlegt werden: {1}",
  "the thread that reads the model's layers has stopped: open the model again":
    "der Thread, der die Schichten des Modells liest, hat angehalten: öffnen Sie das Modell noch einmal",
  "the token is not accepted, or there is no such model":
    "das Token wird nicht angenommen, oder es gibt kein solches Modell",
  "the trace can not be replayed: {1}; record a whole run with mode off and scores after every layer":
    "die Aufzeichnung kann nicht nachgespielt werden: {1}; zeichnen Sie einen ganzen Lauf ohne Pruning und mit den Werten nach jeder Schicht auf",
  "the vectors: {1}": "die Vektoren: {1}",
  "there is no library at {1} yet": "unter {1} gibt es noch keine Bibliothek",
  "there is no model {1} in {2}: give a model's folder, or fetch it with Riddle first":
    "in {2} gibt es kein Modell {1}: geben Sie den Ordner eines Modells an, oder laden Sie es zuerst mit Riddle",
  "this is not a key: {1}": "das ist kein Schlüssel: {1}",
  "this is not the passphrase of this home: try again":
    "das ist nicht die Passphrase dieser Bibliothek: versuchen Sie es noch einmal",
  "this library is served already, at {1}: stop that first": "diese Bibliothek wird bereits unter {1} angeboten: halten Sie das zuerst an",
  "two results for text {1}": "zwei Ergebnisse für Text {1}",
  "unpacking it takes too much memory": "es zu entpacken braucht zu viel Speicher",
  "what answers at {1} is not Milvus ({2})": "was unter {1} antwortet, ist nicht Milvus ({2})",
  "what draws pages is not there": "was Seiten zeichnet, ist nicht da",
  "what follows is not read: {1}": "was folgt, wird nicht gelesen: {1}",
  "what it says of text {1} is no number": "was es über Text {1} sagt, ist keine Zahl",
  "what reads pictures is not there": "was Bilder liest, ist nicht da",
  "{1} MiB are too little memory for this model's weights with a window of {2} layers: allow {3} MiB, or a smaller window":
    "{1} MiB sind zu wenig Speicher für die Gewichte dieses Modells mit einem Fenster von {2} Schichten: erlauben Sie {3} MiB, oder ein kleineres Fenster",
  "{1} answered {2}{3}{4}": "{1} antwortet mit {2}{3}{4}",
  "{1} can be reached from other machines": "{1} ist von anderen Rechnern aus erreichbar",
  "{1} can not be listened at: {2}": "unter {1} kann nicht gelauscht werden: {2}",
  "{1} can not be listened on: {2}": "an {1} kann nicht gelauscht werden: {2}",
  "{1} can not be opened: {2}": "{1} kann nicht geöffnet werden: {2}",
  "{1} can not be reached ({2})": "{1} ist nicht erreichbar ({2})",
  "{1} can not be reached ({2}): is the server running, and is the address right?":
    "{1} ist nicht erreichbar ({2}): läuft der Server, und stimmt die Adresse?",
  "{1} can not be read as a folder here: {2}":
    "{1} lässt sich hier nicht als Ordner lesen: {2}",
  "{1} can not be the place that models come from: {2}": "von {1} können keine Modelle kommen: {2}",
  "{1} can not guess for {2}: {3}, choose a small model of the same family":
    "{1} kann für {2} nicht raten: {3}, wählen Sie ein kleines Modell derselben Familie",
  "{1} chunks have no vector by {2} yet": "{1} Textstellen haben noch keinen Vektor von {2}",
  "{1} could not {2}: {3}": "{1} konnte nicht {2}: {3}",
  "{1} does not answer as OpenAI-compatible servers do: {2}": "{1} antwortet nicht so, wie OpenAI-kompatible Server es tun: {2}",
  "{1} does not answer as servers of its kind do: {2}": "{1} antwortet nicht so, wie Server dieser Art es tun: {2}",
  "{1} does not let this user in ({2})": "{1} lässt diesen Benutzer nicht ein ({2})",
  "{1} files in it hold no text that is read": "{1} Dateien darin enthalten keinen Text, der gelesen wird",
  "{1} from {2} is damaged: its checksum is {3} instead of {4}; nothing was installed, try again or use another source":
    "{1} von {2} ist beschädigt: die Prüfsumme ist {3} statt {4}; nichts wurde installiert, versuchen Sie es noch einmal oder nehmen Sie eine andere Quelle",
  "{1} gives its files only to people who have accepted its license there, and asks for their token":
    "{1} gibt seine Dateien nur Leuten, die dort der Lizenz zugestimmt haben, und fragt nach deren Token",
  "{1} gives its files only to people who have accepted its license there, which the token's owner has not":
    "{1} gibt seine Dateien nur Leuten, die dort der Lizenz zugestimmt haben, und der Besitzer des Tokens hat es nicht",
  "{1} has failed {2} times in a row and is not asked for another {3} s":
    "{1} ist {2}-mal hintereinander gescheitert und wird noch {3} s lang nicht gefragt",
  "{1} has given an answer that makes no sense: {2}": "{1} hat eine Antwort gegeben, die keinen Sinn ergibt: {2}",
  "{1} has its weights only as {2}, a format that can run programs when it is loaded: ask its author for safetensors, GGUF or ONNX":
    "von {1} gibt es die Gewichte nur als {2}, ein Format, das beim Laden Programme ausführen kann: bitten Sie den Autor um safetensors, GGUF oder ONNX",
  "{1} has no model named {2} on this machine": "{1} hat auf diesem Rechner kein Modell namens {2}",
  "{1} has not answered within {2} s": "{1} hat in {2} s nicht geantwortet",
  "{1} has said nothing for {2} s: it may be loading a model or be overloaded, ask again later":
    "{1} hat seit {2} s nichts gesagt: vielleicht lädt es ein Modell oder ist überlastet, fragen Sie später noch einmal",
  "{1} has several versions": "von {1} gibt es mehrere Ausführungen",
  "{1} has {2} bytes free and {3} are needed: free some space, or put the models on another disk":
    "{1} hat {2} Bytes frei, gebraucht werden {3}: schaffen Sie Platz, oder legen Sie die Modelle auf einen anderen Datenträger",
  "{1} has {2} bytes, and the limit is {3}: raise the limit if this is meant":
    "{1} hat {2} Bytes, und die Grenze ist {3}: erhöhen Sie die Grenze, wenn das so gemeint ist",
  "{1} holds documents from memory: there is no folder to scan":
    "{1} enthält Dokumente aus dem Speicher: es gibt keinen Ordner, der durchgesehen werden könnte",
  "{1} is a language model in GGUF: it runs as it is and is not converted":
    "{1} ist ein Sprachmodell in GGUF: es läuft, wie es ist, und wird nicht konvertiert",
  "{1} is a server, and this needs a model on this machine": "{1} ist ein Server, und hier wird ein Modell auf diesem Rechner gebraucht",
  "{1} is in several files, which are not read together here":
    "{1} besteht aus mehreren Dateien, die hier nicht zusammen gelesen werden",
  "{1} is no address of a shared library: {2}": "{1} ist keine Adresse einer geteilten Bibliothek: {2}",
  "{1} is no folder of the library: give its whole path there":
    "{1} ist kein Ordner der Bibliothek: geben Sie den ganzen Pfad dort an",
  "{1} is no model's folder, which holds config.json, tokenizer.json and weights":
    "{1} ist kein Ordner eines Modells; in so einem liegen config.json, tokenizer.json und Gewichte",
  "{1} is no stored prefix that can be used: {2}": "{1} ist kein gespeicherter Anfang eines Prompts, der verwendet werden kann: {2}",
  "{1} is not a model Riddle can use: {2}": "{1} ist kein Modell, das Riddle verwenden kann: {2}",
  "{1} is not a model name: {2}": "{1} ist kein Name eines Modells: {2}",
  "{1} is not asked: the network is switched off": "{1} wird nicht gefragt: das Netzwerk ist ausgeschaltet",
  "{1} is not encrypted": "{1} ist nicht verschlüsselt",
  "{1} is not indexed": "{1} ist nicht indiziert",
  "{1} is not the address of an endpoint: {2}": "{1} ist nicht die Adresse eines Servers: {2}",
  "{1} is part of the program and can not be removed: choose another one, or none, to use it no longer":
    "{1} gehört zum Programm und kann nicht gelöscht werden: wählen Sie ein anderes oder keines, um es nicht mehr zu verwenden",
  "{1} lacks a part, {2}: let the program that keeps it fetch it again":
    "zu {1} fehlt ein Teil, {2}: lassen Sie es das Programm, dem es gehört, noch einmal laden",
  "{1} lies inside {2}, which is indexed already": "{1} liegt in {2}, und das ist schon indiziert",
  "{1} makes vectors of {2} numbers, and can not make ones of {3}":
    "{1} bildet Vektoren aus {2} Zahlen und kann keine aus {3} bilden",
  "{1} more pages can be read as pictures": "noch {1} Seiten können als Bilder gelesen werden",
  "{1} more pictures in it can be read": "noch {1} Bilder darin können gelesen werden",
  "{1} must be {2}": "{1} muss {2} sein",
  "{1} names none, or more than one, of the computers that write the library at {2}: {3}":
    "{1} nennt keinen oder mehr als einen der Computer, die in die Bibliothek unter {2} schreiben: {3}",
  "{1} of {2} is not mapped":
    "wo {1} von {2} hier ist, war nicht gesagt",
  "{1} of {2} results": "{1} von {2} Ergebnissen",
  "{1} pages: {2}": "{1} Seiten: {2}",
  "{1} pages read as pictures, {2} % sure": "{1} Seiten als Bilder gelesen, zu {2} % sicher",
  "{1} pictures in it read, {2} % sure": "{1} Bilder darin gelesen, zu {2} % sicher",
  "{1} requests are waiting already: try again in {2} s": "{1} Anfragen warten schon: versuchen Sie es in {2} s noch einmal",
  "{1} was not done within {2} s": "{1} war nach {2} s nicht fertig",
  "{1}: can not be read past the page cache here ({2}): leave direct IO off":
    "{1}: kann hier nicht am Cache des Systems vorbei gelesen werden ({2}): lassen Sie das direkte Lesen aus",
  "{1}: it has {2} tokens, and the shape no more than {3}: take the words of a model with fewer":
    "{1}: es hat {2} Token, und die Form höchstens {3}: nehmen Sie die Wörter eines Modells mit weniger",
  "{1}: its header claims {2} bytes, {3} are allowed: this is not a file of weights, or it is damaged":
    "{1}: der Kopf der Datei spricht von {2} Bytes, erlaubt sind {3}: das ist keine Datei mit Gewichten, oder sie ist beschädigt",
  "{1}: its header counts {2} tensors, {3} are allowed: the file is damaged, fetch or copy it again":
    "{1}: der Kopf der Datei zählt {2} Tensoren, erlaubt sind {3}: die Datei ist beschädigt, laden oder kopieren Sie sie noch einmal",
  "{1}: larger than {2} MiB unpacked": "{1}: entpackt größer als {2} MiB",
  "{1}: model_type {2} is not supported: \"bert\", \"xlm-roberta\", \"mpnet\", \"modernbert\", \"new\" (GTE), \"deberta-v2\", \"qwen2\", \"qwen3\", \"gemma3_text\" (embedders) and \"minicpm\" (layerwise rerankers) are":
    "{1}: model_type {2} wird nicht unterstützt: „bert“, „xlm-roberta“, „mpnet“, „modernbert“, „new“ (GTE), „deberta-v2“, „qwen2“, „qwen3“, „gemma3_text“ (Embedder) und „minicpm“ (Reranker mit Werten je Schicht) werden es",
  "{1}: no catalog here": "{1}: hier ist kein Katalog",
  "{1}: no model.safetensors, no model.safetensors.index.json and no model.riddle here: is this a model directory? (.bin and .pt checkpoints are not read, convert them to safetensors)":
    "{1}: hier sind weder model.safetensors noch model.safetensors.index.json noch model.riddle: ist das der Ordner eines Modells? (Dateien mit .bin und .pt werden nicht gelesen, konvertieren Sie sie zu safetensors)",
  "{1}: no shards that this program can read ({2})": "{1}: keine Teile, die dieses Programm lesen kann ({2})",
  "{1}: no tensor {2}: the weights do not belong to this configuration":
    "{1}: kein Tensor {2}: die Gewichte gehören nicht zu dieser Konfiguration",
  "{1}: not a GGUF file that is read ({2}): fetch the model again, or convert it again with llama.cpp":
    "{1}: keine GGUF-Datei, die gelesen wird ({2}): laden Sie das Modell noch einmal, oder konvertieren Sie es noch einmal mit llama.cpp",
  "{1}: not a folder: index the folder that holds it": "{1}: kein Ordner: indizieren Sie den Ordner, in dem es liegt",
  "{1}: not a safetensors file ({2}): fetch or copy it again":
    "{1}: keine safetensors-Datei ({2}): laden oder kopieren Sie sie noch einmal",
  "{1}: not a store this program can read ({2})": "{1}: keine Datei, die dieses Programm lesen kann ({2})",
  "{1}: not an absolute path": "{1}: kein vollständiger Pfad",
  "{1}: tensor {2} has shape {3}, the configuration says {4}": "{1}: Tensor {2} hat die Form {3}, die Konfiguration sagt {4}",
  "{1}: tensor {2} has {3} bytes, which is not what shape {4} of {5} takes: the file is damaged, fetch or copy it again":
    "{1}: Tensor {2} hat {3} Bytes, und die Form {4} von {5} braucht eine andere Zahl: die Datei ist beschädigt, laden oder kopieren Sie sie noch einmal",
  "{1}: tensor {2} holds NaN or infinite values: the file is damaged, fetch or copy it again":
    "{1}: Tensor {2} enthält NaN oder unendliche Werte: die Datei ist beschädigt, laden oder kopieren Sie sie noch einmal",
  "{1}: tensor {2} is packed for computing and can not be read as numbers: use the published files":
    "{1}: Tensor {2} ist zum Rechnen gepackt und kann nicht als Zahlen gelesen werden: verwenden Sie die veröffentlichten Dateien",
  "{1}: tensor {2} is stored as {3}, which is not supported: choose a file in Q4_K_M, Q8_0 or F16 (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K are read)":
    "{1}: Tensor {2} liegt als {3} vor, das nicht unterstützt wird: wählen Sie eine Datei in Q4_K_M, Q8_0 oder F16 (gelesen werden F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 und Q2_K bis Q6_K)",
  "{1}: tensor {2} is stored as {3}: only F32, F16 and BF16 are supported":
    "{1}: Tensor {2} liegt als {3} vor: nur F32, F16 und BF16 werden unterstützt",
  "{1}: tensor {2} is there twice: the model directory mixes two models or is damaged, fetch it again":
    "{1}: Tensor {2} gibt es zweimal: der Ordner mischt zwei Modelle oder ist beschädigt, laden Sie das Modell noch einmal",
  "{1}: tensor {2} lies at bytes {3} to {4}, the tensor before it ends at {5}: the file is damaged, fetch or copy it again":
    "{1}: Tensor {2} liegt bei den Bytes {3} bis {4}, der davor endet bei {5}: die Datei ist beschädigt, laden oder kopieren Sie sie noch einmal",
  "{1}: tensor {2} takes {3} bytes as {4}, which is not what its shape asks for":
    "{1}: Tensor {2} hat {3} Bytes als {4}, und seine Form verlangt eine andere Zahl",
  "{1}: tensor {2} {3}: the file is damaged, fetch or copy it again":
    "{1}: Tensor {2} {3}: die Datei ist beschädigt, laden oder kopieren Sie sie noch einmal",
  "{1}: tensors {2} and {3} overlap: the file is damaged, fetch or copy it again":
    "{1}: die Tensoren {2} und {3} überschneiden sich: die Datei ist beschädigt, laden oder kopieren Sie sie noch einmal",
  "{1}: the catalog is damaged ({2})": "{1}: der Katalog ist beschädigt ({2})",
  "{1}: the catalog is encrypted": "{1}: der Katalog ist verschlüsselt",
  "{1}: the catalog was written by a newer version of Riddle": "{1}: den Katalog hat eine neuere Version von Riddle geschrieben",
  "{1}: the catalog was written by an older version of Riddle": "{1}: den Katalog hat eine ältere Version von Riddle geschrieben",
  "{1}: the file holds {2} bytes, its header promises {3}: it is truncated, fetch or copy it again":
    "{1}: die Datei hat {2} Bytes, ihr Kopf verspricht {3}: sie ist abgeschnitten, laden oder kopieren Sie sie noch einmal",
  "{1}: the folder is not there now (an unmounted disk, or renamed): what is indexed of it stays; mount it, or remove it from the library":
    "{1}: der Ordner ist jetzt nicht da (ein Datenträger, der nicht eingehängt ist, oder ein neuer Name): was davon indiziert ist, bleibt; hängen Sie ihn ein, oder entfernen Sie den Ordner aus der Bibliothek",
  "{1}: the model is in {2} parts, {3} are read together": "{1}: das Modell hat {2} Teile, zusammen gelesen werden {3}",
  "{1}: the person decides that in Riddle": "{1}: das entscheidet in Riddle die Person selbst",
  "{1}: the server answered {2}: {3}": "{1}: der Server hat mit {2} geantwortet: {3}",
  "{1}: these shards were made from other weights": "{1}: diese Teile wurden aus anderen Gewichten gemacht",
  "{1}: this is not the key of a home ({2}): put a copy of it in its place":
    "{1}: das ist nicht der Schlüssel einer Bibliothek ({2}): legen Sie eine Kopie davon an seine Stelle",
  "{1}: this is one of {2} parts of a model: give the first one, whose name ends with {3}":
    "{1}: das ist einer von {2} Teilen eines Modells: geben Sie den ersten an, dessen Name mit {3} endet",
  "{1}: this model can not score pairs, a cross-encoder is needed: {2}":
    "{1}: dieses Modell kann keine Paare bewerten, gebraucht wird ein Cross-Encoder: {2}",
  "{1}: this model gives terms no weights: {2}": "{1}: dieses Modell gibt Wörtern keine Gewichte: {2}",
  "{1}: this model has no shards: {2}": "{1}: dieses Modell hat keine Teile: {2}",
  "{1}: this part of a model does not fit to the others ({2}): fetch the model again":
    "{1}: dieser Teil eines Modells passt nicht zu den anderen ({2}): laden Sie das Modell noch einmal",
  "{1}: this part of a model in {2} files is missing: put it beside the others, or fetch the model again":
    "{1}: dieser Teil eines Modells in {2} Dateien fehlt: legen Sie ihn zu den anderen, oder laden Sie das Modell noch einmal",
  "{1}: this store was made from other weights than those beside it":
    "{1}: dies wurde aus anderen Gewichten gemacht als denen, die daneben liegen",
  "{1}: vectors of {2} numbers are wanted, and the model gives {3}: choose 1 to {3}":
    "{1}: verlangt werden Vektoren von {2} Zahlen, und das Modell gibt {3}: wählen Sie 1 bis {3}",
  "{1}: what lies at byte {2} does not match its checksum: the file is damaged":
    "{1}: was bei Byte {2} liegt, passt nicht zu seiner Prüfsumme: die Datei ist beschädigt",
  "{1}: what lies at byte {2} does not match its checksum: the shards are damaged":
    "{1}: was bei Byte {2} liegt, passt nicht zu seiner Prüfsumme: die Teile sind beschädigt",
  "{1}: {2} bytes follow the last tensor: the file is damaged, fetch or copy it again":
    "{1}: auf den letzten Tensor folgen {2} Bytes: die Datei ist beschädigt, laden oder kopieren Sie sie noch einmal",
  "{1}: {2}, at byte {3}: the file is damaged, fetch or copy it again":
    "{1}: {2}, bei Byte {3}: die Datei ist beschädigt, laden oder kopieren Sie sie noch einmal",
  "{1}: {2}: allow reading the folder, or remove it from the library":
    "{1}: {2}: erlauben Sie, den Ordner zu lesen, oder entfernen Sie ihn aus der Bibliothek",
  "{1}: {2}: fetch the model again": "{1}: {2}: laden Sie das Modell noch einmal",
  "{1}: {2}: nothing was changed": "{1}: {2}: nichts wurde geändert",
  "{1}: {2}: the file is damaged or not what its name says": "{1}: {2}: die Datei ist beschädigt oder nicht, was ihr Name sagt",
  "{1}: {2}: {3}: the file is damaged or made by a program with errors, fetch another":
    "{1}: {2}: {3}: die Datei ist beschädigt oder von einem fehlerhaften Programm gemacht, laden Sie eine andere",
  "{1}: {2}; check the connection and the proxy settings, then try again: what was fetched is kept":
    "{1}: {2}; prüfen Sie die Verbindung und die Einstellungen des Proxys und versuchen Sie es noch einmal: was geladen ist, bleibt",
  "{1}: {2}; choose another model, or fetch this one again": "{1}: {2}; wählen Sie ein anderes Modell, oder laden Sie dieses noch einmal",
  "{1}: {2}; fetch or import the model again": "{1}: {2}; laden oder importieren Sie das Modell noch einmal",
  "{1}: {2}; is this the right server, or did a network login page answer?":
    "{1}: {2}; ist das der richtige Server, oder hat die Anmeldeseite eines Netzwerks geantwortet?",
  "{1}={2} is not available here; this processor has: {3}": "{1}={2} ist hier nicht verfügbar; dieser Prozessor hat: {3}",
  "not a regular file": "keine gewöhnliche Datei",
  "its bytes are in the cloud": "ihre Bytes liegen in der Cloud",
  "larger than the limit of {1}": "größer als die Grenze von {1}",
  "rule {1} in {2}": "Regel {1} in {2}",
  "excluded patterns": "den eigenen Mustern",
  "built-in rule: folders named {1}": "eingebaute Regel: Ordner namens {1}",
  "hidden: the name begins with a dot": "versteckt: der Name beginnt mit einem Punkt",
  "more than {1} folders deep": "mehr als {1} Ordner tief",
  "behind a link": "hinter einer Verknüpfung",
  "not a path below the root": "kein Pfad unterhalb des Ordners",
  "the vector of text {1} has no direction": "der Vektor von Text {1} hat keine Richtung",
  "the vector of text {1} has {2} numbers": "der Vektor von Text {1} hat {2} Zahlen",
  "the vector of text {1} has {2} numbers and not {3}": "der Vektor von Text {1} hat {2} Zahlen und nicht {3}",
  "the vectors are packed as base64, and numbers were asked for": "die Vektoren sind als base64 gepackt, verlangt waren Zahlen",
  "a deadline is between 10 and 60000 ms": "eine Frist ist zwischen 10 und 60000 ms lang",
  "a language model's memory is 256 MiB or more": "der Speicher eines Sprachmodells hat 256 MiB oder mehr",
  "a library is being written": "eine Bibliothek wird gerade geschrieben",
  "a model's context is between 1024 and 1000000 tokens": "der Kontext eines Modells hat zwischen 1024 und 1000000 Tokens",
  "a newer request took its place": "eine neuere Anfrage hat seinen Platz eingenommen",
  "a part of the program broke down: {1}": "ein Teil des Programms ist zusammengebrochen: {1}",
  "a server has ranked, and tells of no layers": "ein Server hat sortiert und sagt nichts von Schichten",
  "a server ranks, embeds or answers": "ein Server sortiert, berechnet Vektoren oder antwortet",
  "a threshold is 0 or more, a precision or probability between 0 and 1":
    "ein Schwellenwert ist 0 oder mehr, eine Präzision oder Wahrscheinlichkeit zwischen 0 und 1",
  "a threshold is a number of 0 or more": "ein Schwellenwert ist eine Zahl von 0 an",
  "a user name or password has no place in it": "ein Benutzername oder Passwort gehört nicht hinein",
  "another process is indexing into the same home: end it, or wait for it":
    "ein anderer Prozess indiziert in denselben Datenordner: beenden Sie ihn, oder warten Sie auf ihn",
  "answers are prepared by a model of this machine: choose one that is installed":
    "Antworten bereitet ein Modell auf diesem Rechner vor: wählen Sie eines, das installiert ist",
  "answers are quoted (extractive), or written by an installed model (local:NAME) or an endpoint (remote)":
    "Antworten werden zitiert (extractive), oder geschrieben von einem installierten Modell (local:NAME) oder einem Server (remote)",
  "catalog: rows belong to nothing": "Katalog: Zeilen gehören zu nichts",
  "it has letters, digits, - and _, at most {1}": "er hat Buchstaben, Ziffern, - und _, höchstens {1}",
  "it is a file: give the folder it is in": "es ist eine Datei: geben Sie den Ordner an, in dem sie liegt",
  "it is that of {1}": "es ist der von {1}",
  "it lies inside riddle's own home": "es liegt in Riddles eigenem Datenordner",
  "mode off prunes nobody": "im Modus „off“ scheidet niemand aus",
  "mode {1} prunes": "der Modus {1} lässt Kandidaten ausscheiden",
  "guesses are made from the passages (lookup), by an installed model, or by nobody (none)":
    "vermutet wird aus den Textstellen (lookup), von einem installierten Modell oder gar nicht (none)",
  "models are being tried": "Modelle werden gerade ausprobiert",
  "no endpoint is known": "es ist kein Server bekannt",
  "no model is chosen": "es ist kein Modell gewählt",
  "no reranker is chosen": "es ist kein Reranker gewählt",
  "no rule can name this file: exclude its folder": "keine Regel kann diese Datei nennen: schließen Sie ihren Ordner aus",
  "nothing was searched yet: search first": "noch wurde nichts gesucht: suchen Sie zuerst",
  "only PDF files and pictures are handed over as they are": "nur PDF-Dateien und Bilder werden übergeben, wie sie sind",
  "results are between 5 and 100, candidates between 5 and 200": "Treffer sind zwischen 5 und 100, Kandidaten zwischen 5 und 200",
  "that word has a meaning of its own": "dieses Wort hat eine eigene Bedeutung",
  "the address of a server begins with http:// or https://": "die Adresse eines Servers beginnt mit http:// oder https://",
  "the context of a model on this computer is between 512 and 1000000 tokens":
    "der Kontext eines Modells auf diesem Rechner hat zwischen 512 und 1000000 Tokens",
  "the file has {1} MiB, more than can be shown here: open it instead":
    "die Datei hat {1} MiB, mehr, als hier gezeigt werden kann: öffnen Sie sie stattdessen",
  "the file is no longer in the ledger": "die Datei ist nicht mehr im Verzeichnis",
  "the file is on another computer, which has written it to {1}":
    "die Datei ist auf einem anderen Rechner, der sie in {1} geschrieben hat",
  "the keyword search failed: this is a bug": "die Suche nach Wörtern ist gescheitert: das ist ein Programmfehler",
  "the list of libraries can not be read: {1}": "die Liste der Bibliotheken kann nicht gelesen werden: {1}",
  "the network is switched off": "das Netzwerk ist ausgeschaltet",
  "the query is empty: type what you are looking for": "die Anfrage ist leer: schreiben Sie, was Sie suchen",
  "the rules can not be read: {1}": "die Regeln können nicht gelesen werden: {1}",
  "the search of a shared library failed: this is a bug":
    "die Suche in einer geteilten Bibliothek ist gescheitert: das ist ein Programmfehler",
  "the share of rows is between 0 and 1": "der Anteil der Zeilen liegt zwischen 0 und 1",
  "the text size is between 80 % and 200 %": "die Größe des Textes liegt zwischen 80 % und 200 %",
  "the tokens of {1} can not be read back: send the text": "die Tokens von {1} können nicht zurückgelesen werden: senden Sie den Text",
  "there is a program of this name already": "es gibt schon ein Programm dieses Namens",
  "there is no embedding model": "es gibt kein Modell für die Bedeutung",
  "there is no reranker any more": "es gibt keinen Reranker mehr",
  "there is no such folder: check the spelling": "es gibt keinen solchen Ordner: prüfen Sie die Schreibweise",
  "there is no such model or file there: check the name":
    "dort gibt es kein solches Modell oder keine solche Datei: prüfen Sie den Namen",
  "there is no such model, or it is private: check the name":
    "es gibt kein solches Modell, oder es ist privat: prüfen Sie den Namen",
  "there is no such model, or it wants a token": "es gibt kein solches Modell, oder es will ein Token",
  "there is nothing to compare: choose a reranker first": "es gibt nichts zu vergleichen: wählen Sie zuerst einen Reranker",
  "this folder is no longer in the library": "dieser Ordner ist nicht mehr in der Bibliothek",
  "this passage is gone: its file has changed or was removed; search again":
    "diese Textstelle ist nicht mehr da: ihre Datei wurde geändert oder gelöscht; suchen Sie noch einmal",
  "this passage is not among the candidates of the last search: search again":
    "diese Textstelle ist nicht unter den Kandidaten der letzten Suche: suchen Sie noch einmal",
  "this program is gone": "dieses Programm ist nicht mehr da",
  "this version can not use such a model": "diese Version kann so ein Modell nicht verwenden",
  "this was not expected": "das war nicht zu erwarten",
  "threshold {1} is not a number of 0 or more": "der Schwellenwert {1} ist keine Zahl von 0 an",
  "what is kept between searches is 1 GiB at most": "zwischen zwei Suchen wird höchstens 1 GiB behalten",
  "window and micro-batch are at least 1": "Fenster und Teilstapel sind mindestens 1",
  "{1} can not answer": "{1} kann nicht antworten",
  "{1} embeds, and what nobody has asked for is sent nowhere: answers are prepared where a model on this machine embeds":
    "{1} berechnet die Vektoren, und wonach niemand gefragt hat, wird nirgendwohin gesendet: Antworten werden vorbereitet, wo ein Modell auf diesem Rechner das tut",
  "{1} has no calibration that tells how to prune it": "{1} hat keine Kalibrierung, die sagt, wann Kandidaten ausscheiden können",
  "{1} in mode {2} top {3} on the {4} requests that {5} was calibrated with":
    "{1} im Modus {2}, die besten {3}, auf den {4} Anfragen, mit denen {5} kalibriert wurde",
  "{1} is being fetched": "{1} wird gerade geladen",
  "{1} is in use: choose another one first": "{1} wird verwendet: wählen Sie zuerst ein anderes",
  "{1} is no name for a library: {2}": "{1} ist kein Name für eine Bibliothek: {2}",
  "{1} is no similarity: it is between 0 and 1": "{1} ist keine Ähnlichkeit: sie liegt zwischen 0 und 1",
  "{1} leads out of its folder now: it is not opened": "{1} führt jetzt aus seinem Ordner hinaus: es wird nicht geöffnet",
  "{1} would be sent your questions and the passages found for them": "{1} bekäme Ihre Fragen und die dazu gefundenen Textstellen",
  "{1}: allow reading it, or choose another folder": "{1}: erlauben Sie, es zu lesen, oder wählen Sie einen anderen Ordner",
  "{1}: give a folder that is there": "{1}: geben Sie einen Ordner an, der da ist",
  "{1}: there is no such GGUF file": "{1}: so eine GGUF-Datei gibt es nicht",
  "{1}: these are no tokens of {2}; send its own, or the text":
    "{1}: das sind keine Tokens von {2}; senden Sie seine eigenen, oder den Text",
  "100 languages, 256 dimensions, computes nothing: the fastest, and finds less":
    "100 Sprachen, 256 Dimensionen, rechnet nichts: am schnellsten, findet weniger",
  "100 languages, 768 dimensions; its license has to be agreed to on the hub":
    "100 Sprachen, 768 Dimensionen; seiner Lizenz muss auf dem Hub zugestimmt werden",
  "100 languages and code, 1024 dimensions, slow": "100 Sprachen und Programmtext, 1024 Dimensionen, langsam",
  "200 languages and code, 384 dimensions": "200 Sprachen und Programmtext, 384 Dimensionen",
  "200 languages and code, 768 dimensions, slower": "200 Sprachen und Programmtext, 768 Dimensionen, langsamer",
  "70 languages, 768 dimensions": "70 Sprachen, 768 Dimensionen",
  "English and code, 384 dimensions": "Englisch und Programmtext, 384 Dimensionen",
  "English reranker for long texts, 7 layers": "Reranker für lange englische Texte, 7 Schichten",
  "English reranker for long texts, 10 layers": "Reranker für lange englische Texte, 10 Schichten",
  "English reranker for long texts, 19 layers": "Reranker für lange englische Texte, 19 Schichten",
  "English reranker that compares token by token, 12 layers":
    "englischer Reranker, der Token für Token vergleicht, 12 Schichten",
  "English, 512 dimensions, computes nothing: the fastest, and finds less":
    "Englisch, 512 Dimensionen, rechnet nichts: am schnellsten, findet weniger",
  "reranker of 100 languages, 12 layers; its license allows no commercial use":
    "Reranker für 100 Sprachen, 12 Schichten; die Lizenz erlaubt keine gewerbliche Nutzung",
  "reranker of 100 languages, 24 layers": "Reranker für 100 Sprachen, 24 Schichten",
  "reranker of 70 languages for long texts, 12 layers": "Reranker für lange Texte in 70 Sprachen, 12 Schichten",
  "100 languages, 384 dimensions": "100 Sprachen, 384 Dimensionen",
  "Chinese and English reranker, 12 layers": "Reranker für Chinesisch und Englisch, 12 Schichten",
  "English reranker for long texts, 22 layers": "Reranker für lange englische Texte, 22 Schichten",
  "English reranker, 12 layers": "englischer Reranker, 12 Schichten",
  "English reranker, 6 layers": "englischer Reranker, 6 Schichten",
  "English sentences, 384 dimensions; the default": "englische Sätze, 384 Dimensionen; der übliche",
  "English sentences, 768 dimensions": "englische Sätze, 768 Dimensionen",
  "English questions and what answers them, 768 dimensions":
    "englische Fragen und was sie beantwortet, 768 Dimensionen",
  "English, 384 dimensions": "Englisch, 384 Dimensionen",
  "English, 384 dimensions, small and fast": "Englisch, 384 Dimensionen, klein und schnell",
  "English, 768 dimensions": "Englisch, 768 Dimensionen",
  "English, tiny: shows how answers are written and checked, and is often wrong":
    "Englisch, winzig: zeigt, wie Antworten geschrieben und geprüft werden, und irrt sich oft",
  "a folder outside the store": "ein Ordner außerhalb des Speichers",
  "answers in English": "antwortet auf Englisch",
  "answers in many languages, for most computers": "antwortet in vielen Sprachen, für die meisten Rechner",
  "answers in many languages, quick and simple": "antwortet in vielen Sprachen, schnell und einfach",
  "better answers in many languages, slower": "bessere Antworten in vielen Sprachen, langsamer",
  "multilingual reranker that takes instructions, 28 layers": "mehrsprachiger Reranker, der Anweisungen annimmt, 28 Schichten",
  "multilingual reranker, 24 layers": "mehrsprachiger Reranker, 24 Schichten",
  "part of the program": "Teil des Programms",
  "reads scans and pictures of text (Latin letters, Chinese, Japanese)":
    "liest Scans und Bilder von Text (lateinische Buchstaben, Chinesisch, Japanisch)",
  "weighs terms of English text, also those that it does not hold; beside the default embedder":
    "gewichtet Wörter englischer Texte, auch solche, die nicht darin stehen; neben dem üblichen Embedder",
  "damaged, or not what its name says: {1}": "beschädigt oder nicht, was der Name sagt: {1}",
  "1 file in it holds no text that is read": "1 Datei darin enthält keinen Text, der gelesen wird",
  "an embedder at a server is known by the name of its model, which stands behind the address and a #":
    "einen Embedder auf einem Server erkennt man am Namen seines Modells, der hinter der Adresse und einem # steht",
  "nothing here has a vector yet, and a shared library needs them":
    "hier hat noch nichts einen Vektor, und eine geteilte Bibliothek braucht sie",
  "indexing broke down and is tried again": "das Indizieren ist zusammengebrochen und wird noch einmal versucht",
  "request {1}: {2}":
    "Anfrage {1}: {2}",
  "the list of servers that embed can not be read: {1}":
    "die Liste der Server, die Vektoren berechnen, kann nicht gelesen werden: {1}",
  "what answers at {1} as {2} is another model than the one of that name that made the vectors (cosine {3}): give it another name there":
    "was unter {1} als {2} antwortet, ist ein anderes Modell als das dieses Namens, von dem die Vektoren sind (Kosinus {3}): geben Sie ihm dort einen anderen Namen",
  "{1} has no shards yet, which a deadline needs; they would take about {2} MB":
    "{1} hat noch keine Teile, und eine Frist braucht sie; sie hätten etwa {2} MB",
  "{1} has no weight file {2}": "{1} hat keine Datei mit Gewichten {2}",
  "{1} would be sent every passage of your files, but those of folders that never leave this machine, and everything that you search for":
    "{1} bekäme jede Textstelle Ihrer Dateien, außer denen aus Ordnern, die diesen Rechner nie verlassen, und alles, was Sie suchen",
  "a key of an object store is ACCESS:SECRET": "ein Schlüssel für einen Objektspeicher ist ZUGANG:GEHEIMNIS",
  "the file here can not be read or written: {1}": "die Datei hier kann nicht gelesen oder geschrieben werden: {1}",
  "the object store {1} can not be reached ({2})": "der Objektspeicher {1} ist nicht erreichbar ({2})",
  "the object store {1} could not {2}: {3}": "der Objektspeicher {1} konnte nicht tun, was er sollte ({2}): {3}",
  "the object store {1} does not have it ({2})": "der Objektspeicher {1} hat es nicht ({2})",
  "the object store {1} does not let this key in ({2})": "der Objektspeicher {1} lässt diesen Schlüssel nicht ein ({2})",
  "{1} bytes are more than the {2} that are kept or fetched at once": "{1} Bytes sind mehr als die {2}, die auf einmal aufbewahrt oder geholt werden",
  "{1} does not end in a name that a file can have here": "{1} endet nicht mit einem Namen, den eine Datei hier haben kann",
  "{1} has no file {2}": "{1} hat keine Datei {2}",
  "{1} has no object store that keeps its files and is known here": "{1} hat keinen Objektspeicher, der die Dateien aufbewahrt und hier bekannt ist",
  "{1} is no address of an object store: {2}": "{1} ist keine Adresse eines Objektspeichers: {2}",
  "{1} is not asked with a key: the connection is not encrypted": "{1} wird nicht mit einem Schlüssel gefragt: Die Verbindung ist nicht verschlüsselt",
};
