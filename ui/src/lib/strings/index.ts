// Every word that the app shows. `en.ts` says which there are; another language is another object of that type, and a
// line in `LANGUAGES`.

import { en, type Strings } from "./en";
import { language, LANGUAGES } from "./language.svelte";

export { language, LANGUAGES, type Language } from "./language.svelte";
export { say } from "./notices";
export type { Strings } from "./en";

const sections = Object.keys(en) as (keyof Strings)[];

/** The words of the language on screen. To be read while drawing, not kept: they are others in another language. */
export const t = Object.defineProperties(
  {},
  Object.fromEntries(sections.map((it) => [it, { get: () => LANGUAGES[language.current].strings[it], enumerable: true }])),
) as Strings;
