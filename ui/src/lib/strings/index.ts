// Every word that the app shows. `en.ts` says which there are; another language is another object of that type, and a
// line in `LANGUAGES`.

import { en, type Strings } from "./en";
import type { Failure, FailureCode, Notice, Trouble } from "../bindings";
import { language, LANGUAGES } from "./language.svelte";
import { say, troubles } from "./notices";

export { language, LANGUAGES, type Language } from "./language.svelte";
export { say, whole } from "./notices";
export type { Strings } from "./en";

const sections = Object.keys(en) as (keyof Strings)[];

/** The words of the language on screen. To be read while drawing, not kept: they are others in another language. */
export const t = Object.defineProperties(
  {},
  Object.fromEntries(sections.map((it) => [it, { get: () => LANGUAGES[language.current].strings[it], enumerable: true }])),
) as Strings;

/** A notice in the language on screen. */
export const noticed = (it: Notice): string => say(t.notices, it);

/** How a notice is shown: what only says how a query was understood is no warning. */
export const toneOf = (it: Notice): "info" | "warn" => (it.kind === "leftOut" || it.kind === "notAsQuoted" ? "info" : "warn");

/** What is wrong and what can be done, in the language on screen. */
export const troubled = (it: Trouble): string => troubles(t.advice, t.quoted)(it);

/** What a failed command says: what is wrong by its code or in the engine's words, and what can be done. */
export function failed({ code, message, advice }: Failure): string {
  const own = (t.failures as Partial<Record<FailureCode, string>>)[code];
  if (own === undefined) return troubled({ message, advice });
  return advice ? `${own} ${say(t.advice, advice)}` : own;
}
