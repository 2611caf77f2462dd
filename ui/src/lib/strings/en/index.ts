// Every word that the app shows, in English. What is here every other language must have, and nothing else.

import { figures } from "./figures";
import { finding } from "./finding";
import { frame } from "./frame";
import { keeping } from "./keeping";
import { told } from "./told";

export const en = { ...frame, ...finding, ...figures, ...keeping, ...told };

export type Strings = typeof en;
