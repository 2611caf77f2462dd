// File names are written by anybody. What would change how a name looks without being seen, is shown.

/** Controls, direction marks and overrides, invisible joiners and the like: U+202E turns "gpj.exe" round. */
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufeff\ufff9-\ufffc\u{e0000}-\u{e0fff}]/gu;

/** One piece of a name: text as it is, or a character that is named instead of obeyed. */
export interface NamePart {
  text: string;
  unseen: boolean;
}

/** Splits a name into what can be shown and what must be spelled out, as `U+202E`. */
export function nameParts(name: string): NamePart[] {
  // Nearly every name: a list asks for three per row and key.
  if (name.search(UNSEEN) < 0) return [{ text: name, unseen: false }];
  const parts: NamePart[] = [];
  let from = 0;
  for (const match of name.matchAll(UNSEEN)) {
    if (match.index > from) parts.push({ text: name.slice(from, match.index), unseen: false });
    const code = match[0].codePointAt(0) ?? 0;
    parts.push({ text: `U+${code.toString(16).toUpperCase().padStart(4, "0")}`, unseen: true });
    from = match.index + match[0].length;
  }
  if (from < name.length || parts.length === 0) parts.push({ text: name.slice(from), unseen: false });
  return parts;
}

/** The same as one string, for labels and tooltips. */
export function plainName(name: string): string {
  return nameParts(name)
    .map((it) => (it.unseen ? `⟨${it.text}⟩` : it.text))
    .join("");
}

/** The last part of a path, with either separator. */
export function fileName(path: string): string {
  return path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1) || path;
}

/** All but the last part of a path. */
export function folderOf(path: string): string {
  const at = Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\"));
  return at > 0 ? path.slice(0, at) : "";
}

/** A path below one of `roots`, told from the root's own name on. */
export function shortFolder(path: string, roots: readonly string[]): string {
  const folder = folderOf(path);
  const root = roots
    .filter((it) => folder === it || folder.startsWith(it.endsWith("/") ? it : `${it}/`))
    .sort((a, b) => b.length - a.length)[0];
  if (root === undefined) return folder;
  const rest = folder.slice(root.length).replace(/^\//, "");
  return [fileName(root), ...(rest ? rest.split("/") : [])].join(" / ");
}
