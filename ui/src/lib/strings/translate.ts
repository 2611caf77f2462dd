// The libraries speak English, and say one thing inside another: "rent.xlsx: protected by a password". A message is told
// apart by the sentences it can be made of, and what stands in their places is translated in turn.

import { MESSAGES, type Message } from "./messages";

interface Pattern {
  message: Message;
  matches: RegExp;
  /** What stands between its places: a text without one of them is another message. */
  literals: string[];
  /** How many characters are its own. */
  words: number;
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Those with the most words of their own first: they say most of what a message is. */
const patterns: Pattern[] = MESSAGES.map((message) => {
  const seen = new Set<string>();
  const parts = message.split(/(\{\d+\})/);
  const source = parts.map((part, index) => {
    if (index % 2 === 0) return escaped(part);
    const again = seen.has(part);
    seen.add(part);
    // A place may be empty: "another process{1} is …".
    return again ? `\\k<p${part.slice(1, -1)}>` : `(?<p${part.slice(1, -1)}>.*?)`;
  });
  const literals = parts.filter((part, index) => index % 2 === 0 && part !== "");
  return { message, literals, matches: new RegExp(`^${source.join("")}$`, "su"), words: literals.join("").length };
}).sort((a, b) => b.words - a.words);

/** More than a file in an archive in an archive can be inside of another. */
const DEEPEST = 6;

/** Nobody writes a longer one; a file's own words may be in it, and are not worth the time. */
const LONGEST = 2000;

/** How many sentences are kept: a list of files says few different ones. */
const KEPT = 500;

/** Puts messages into a language; what is not known of one stays as it is. */
export function translator(table: Record<Message, string>, number: (value: number) => string): (message: string) => string {
  const known = new Map<string, string>();

  function part(text: string, depth: number): string {
    if (/^\d{1,15}(\.\d{1,3})?$/.test(text)) return number(Number(text));
    return depth < DEEPEST ? whole(text, depth) : text;
  }

  /** What the whole of a text is one of; `undefined`: of none. */
  function sentence(text: string, depth: number): string | undefined {
    for (const { message, literals, matches } of patterns) {
      const places = literals.every((it) => text.includes(it)) ? matches.exec(text) : null;
      if (places) return table[message].replace(/\{(\d+)\}/g, (_, index: string) => part(places.groups?.[`p${index}`] ?? "", depth + 1));
    }
    return undefined;
  }

  function whole(text: string, depth: number): string {
    const all = sentence(text, depth);
    if (all !== undefined) return all;
    // A name, and what is said of it.
    for (let at = text.indexOf(": "); at >= 0; at = text.indexOf(": ", at + 1)) {
      const said = sentence(text.slice(at + 2), depth + 1);
      if (said !== undefined) return `${text.slice(0, at)}: ${said}`;
    }
    return text;
  }

  return (message) => {
    const before = known.get(message);
    if (before !== undefined) return before;
    const said = message.length > LONGEST ? message : whole(message, 0);
    if (known.size >= KEPT) known.clear();
    known.set(message, said);
    return said;
  };
}
