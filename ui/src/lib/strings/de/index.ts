// Deutsch. Sie; Riddle handelt selbst. Feste Wörter: library Bibliothek, passage Textstelle, result Treffer, source Quelle,
// reranker Reranker, candidate Kandidat, layer Schicht, full forward voller Durchlauf, dropped ausgeschieden, dispersion
// Streuung, budget Speicherbudget, endpoint Server, key Schlüssel, history Verlauf, tray Infobereich.

import type { Strings } from "../en";
import { figures } from "./figures";
import { finding } from "./finding";
import { frame } from "./frame";
import { keeping } from "./keeping";
import { told } from "./told";

export const de: Strings = { ...frame, ...finding, ...figures, ...keeping, ...told };
