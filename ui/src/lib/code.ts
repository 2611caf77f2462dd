// Colours for source code: comments, strings, numbers and the words of the language. A scanner for the
// shape that most languages share, not a parser; what it does not know stays plain text.

export type Tone = "plain" | "key" | "str" | "num" | "com";

export interface Token {
  text: string;
  tone: Tone;
}

const KEYWORDS = new Set(
  (
    "abstract and as assert async await auto bool break case catch char class const continue crate def default defer del do " +
    "double elif else end enum except export extends extern false final finally float fn for from func function global go " +
    "goto if impl implements import in include instanceof int interface is lambda let local long loop match mod module move " +
    "mut namespace new nil none nonlocal not null or package pass private protected pub public raise readonly ref return " +
    "self short signed sizeof static struct super switch then this throw trait true try type typedef typeof undefined union " +
    "unsafe unsigned until use using var virtual void where while with yield u8 u16 u32 u64 i8 i16 i32 i64 usize isize f32 f64 " +
    "str String Self None True False Some Ok Err"
  ).split(" "),
);

interface Rules {
  line: string[];
  block: [string, string][];
  strings: string[];
}

const C_LIKE: Rules = { line: ["//"], block: [["/*", "*/"]], strings: ['"', "'", "`"] };
const HASH: Rules = { line: ["#"], block: [['"""', '"""'], ["'''", "'''"]], strings: ['"', "'"] };
const BY_EXTENSION: Record<string, Rules> = {
  py: HASH, rb: HASH, sh: HASH, bash: HASH, toml: HASH, yaml: HASH, yml: HASH, r: HASH, pl: HASH, conf: HASH, ini: HASH,
  makefile: HASH, dockerfile: HASH,
  sql: { line: ["--"], block: [["/*", "*/"]], strings: ["'", '"'] },
  lua: { line: ["--"], block: [["--[[", "]]"]], strings: ['"', "'"] },
  hs: { line: ["--"], block: [["{-", "-}"]], strings: ['"'] },
  lisp: { line: [";"], block: [], strings: ['"'] },
  tex: { line: ["%"], block: [], strings: [] },
  rs: { line: ["//"], block: [["/*", "*/"]], strings: ['"'] },
};

function rulesFor(name: string): Rules {
  const key = (name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : name).toLowerCase();
  return BY_EXTENSION[key] ?? C_LIKE;
}

/** The lines of `source`, each in coloured pieces; `name` tells the language by its extension. */
export function highlight(source: string, name: string): Token[][] {
  const rules = rulesFor(name);
  const lines: Token[][] = [[]];
  const push = (text: string, tone: Tone) => {
    for (const [index, piece] of text.split("\n").entries()) {
      if (index > 0) lines.push([]);
      if (piece) lines.at(-1)?.push({ text: piece, tone });
    }
  };
  let at = 0;
  let plain = 0;
  const flush = (until: number) => {
    if (until > plain) push(source.slice(plain, until), "plain");
  };
  while (at < source.length) {
    const [end, tone] = next(source, at, rules);
    if (tone === "plain") at = end;
    else {
      flush(at);
      push(source.slice(at, end), tone);
      at = plain = end;
    }
  }
  flush(at);
  return lines;
}

const WORD = /[\p{L}_$][\p{L}\p{N}_$]*/uy;
const NUMBER = /\d[\w.]*/y;

/** What begins at `at`: where it ends, and what it is. */
function next(source: string, at: number, rules: Rules): [number, Tone] {
  for (const [open, close] of rules.block) {
    if (source.startsWith(open, at)) {
      const end = source.indexOf(close, at + open.length);
      return [end < 0 ? source.length : end + close.length, rules === HASH ? "str" : "com"];
    }
  }
  if (rules.line.some((it) => source.startsWith(it, at))) {
    const end = source.indexOf("\n", at);
    return [end < 0 ? source.length : end, "com"];
  }
  const char = source.charAt(at);
  if (rules.strings.includes(char)) return [stringEnd(source, at, char), "str"];
  WORD.lastIndex = at;
  const word = WORD.exec(source)?.[0];
  if (word) return [at + word.length, KEYWORDS.has(word) ? "key" : "plain"];
  NUMBER.lastIndex = at;
  const number = NUMBER.exec(source)?.[0];
  if (number) return [at + number.length, "num"];
  return [at + 1, "plain"];
}

/** One past the closing quote; a string that is not closed ends with its line, but for back ticks. */
function stringEnd(source: string, at: number, quote: string): number {
  for (let end = at + 1; end < source.length; end += 1) {
    const char = source.charAt(end);
    if (char === "\\") end += 1;
    else if (char === quote) return end + 1;
    else if (char === "\n" && quote !== "`") return end;
  }
  return source.length;
}
