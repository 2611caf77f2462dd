// Which words of a text the query found. The indexes know more (they stem and fold in many languages);
// this is what the eye expects to see: the same words, in any form that begins alike.

/** A piece of a text; `hit` is a word of the query. */
export interface Piece {
  text: string;
  hit: boolean;
}

/** Words that say nothing about a passage; marking them would mark everything. */
const STOP = new Set(
  ("a an and are as at be by did do does for from had has have how i if in is it its me my of on or our that the " +
    "their then there these they this to was we were what when where which who why will with you your " +
    "der die das den dem des ein eine einer und oder ist sind wie wann wer was wo le la les un une des et ou est")
    .split(" "),
);

const WORD = /[\p{L}\p{M}\p{N}]+/gu;
/** Scripts that are written without spaces: there any two neighbouring characters are a word. */
const SPACELESS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u;

function fold(text: string): string {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}

/** The part of a word that its other forms share, near enough for marking. */
function stem(word: string): string {
  const folded = fold(word);
  if (folded.length <= 4) return folded;
  return folded.replace(/(?:ings?|edly|ed|ies|es|s|e|en|er|ern|em)$/u, "").padEnd(3, folded.slice(-1));
}

/** What to look for, made once per query. */
export interface Terms {
  stems: string[];
  pairs: string[];
  /** Sentences to find as they stand, whatever the white space; set instead of the rest. */
  phrases?: RegExp[];
}

/** Terms that mark the sentences of a quotation, whose pieces are joined by ` … `. */
export function phrases(quote: string): Terms {
  const found = quote
    .split(" … ")
    .map((it) => it.trim())
    .filter((it) => it.length > 2)
    .map((it) => {
      const parts = it.split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
      return new RegExp(parts.join("\\s+"), "giu");
    });
  return { stems: [], pairs: [], phrases: found };
}

export function terms(query: string): Terms {
  const stems: string[] = [];
  const pairs: string[] = [];
  for (const [word] of query.matchAll(WORD)) {
    if (SPACELESS.test(word)) {
      const chars = [...word];
      if (chars.length === 1) pairs.push(word);
      for (let at = 0; at + 1 < chars.length; at += 1) pairs.push(`${chars[at]}${chars[at + 1]}`);
    } else if (!STOP.has(fold(word))) stems.push(stem(word));
  }
  return { stems: [...new Set(stems)], pairs: [...new Set(pairs)] };
}

function matches(word: string, stems: readonly string[]): boolean {
  const own = stem(word);
  return stems.some(
    (it) => own === it || (it.length >= 4 && own.startsWith(it) && own.length - it.length <= (it.length >= 7 ? 6 : 1)) || (own.length >= 5 && it.startsWith(own)),
  );
}

/** Where the query's words are in `text`, as pairs of UTF-16 offsets, in order and apart. */
export function ranges(text: string, look: Terms): [number, number][] {
  const found: [number, number][] = [];
  const push = (start: number, end: number) => {
    const last = found.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else found.push([start, end]);
  };
  if (look.phrases) {
    const all = look.phrases.flatMap((it) => [...text.matchAll(it)].map((match) => [match.index, match.index + match[0].length] as const));
    for (const [start, end] of all.sort((a, b) => a[0] - b[0])) push(start, end);
    return found;
  }
  for (const match of text.matchAll(WORD)) {
    const word = match[0];
    if (SPACELESS.test(word)) {
      for (let at = 0; at < word.length; at += 1) {
        const pair = look.pairs.find((it) => word.startsWith(it, at));
        if (pair) push(match.index + at, match.index + at + pair.length);
      }
    } else if (look.stems.length > 0 && matches(word, look.stems)) push(match.index, match.index + word.length);
  }
  return found;
}

/** `text` cut at `found`. */
export function cut(text: string, found: readonly (readonly [number, number])[]): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  for (const [start, end] of found) {
    if (start < from || end > text.length) continue;
    if (start > from) pieces.push({ text: text.slice(from, start), hit: false });
    pieces.push({ text: text.slice(start, end), hit: true });
    from = end;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), hit: false });
  return pieces;
}

export function mark(text: string, look: Terms): Piece[] {
  return cut(text, ranges(text, look));
}
