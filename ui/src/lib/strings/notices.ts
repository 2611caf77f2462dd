// What the engine tells comes as a kind and its fields, and each language has a sentence for every kind:
//
//     type Notice = { kind: "filesSkipped"; files: number } | { kind: "diskFull" };
//     const notices: Sentences<Notice> = { filesSkipped: ({ files }) => `${files} files …`, diskFull: () => "…" };
//
// A kind without a sentence, or a sentence without its kind, does not compile.

import type { Advice, Trouble } from "../bindings";

/** One of several messages, told apart by `kind`. */
export interface Tagged {
  kind: string;
}

/** A sentence for every kind of `T`, made from its fields. */
export type Sentences<T extends Tagged> = { [K in T["kind"]]: (it: Extract<T, { kind: K }>) => string };

/** The sentence of a message. */
export function say<T extends Tagged>(sentences: Sentences<T>, it: T): string {
  const of: (it: never) => string = sentences[it.kind as T["kind"]];
  return of(it as never);
}

/** A message as a sentence: the engine's begin in lower case, and end without a point. */
export function whole(message: string): string {
  const text = message.trim();
  if (text === "") return "";
  // An address or a path is what it is.
  const first = /^\p{L}+(?=[\s,;]|$)/u.test(text) ? text.charAt(0).toLocaleUpperCase() + text.slice(1) : text;
  return /[.!?…]["”“]?$/.test(first) ? first : `${first}.`;
}

/** What is wrong, in the engine's words as a language quotes them, and what can be done, in those of the language. */
export function troubles(advice: Sentences<Advice>, quoted: (message: string) => string): (it: Trouble) => string {
  return ({ message, advice: what }) => [message && quoted(message), what ? say(advice, what) : ""].filter(Boolean).join(" ");
}
