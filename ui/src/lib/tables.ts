// Tables: letters of columns, which columns are numbers, and tables in what was read of a document.

/** A row as it is drawn. */
export interface GridRow {
  /** As the sheet counts; null: nobody knows. */
  number: number | null;
  /** One for each column, or one for the whole row. */
  cells: readonly string[];
  whole: boolean;
  /** It belongs to the passage. */
  current: boolean;
}

/** The letters of a spreadsheet's column: 1 is A, 28 is AB. */
export function columnLetters(column: number): string {
  let letters = "";
  for (let rest = column; rest > 0; rest = Math.floor((rest - 1) / 26)) letters = String.fromCharCode(65 + ((rest - 1) % 26)) + letters;
  return letters;
}

/** A number as people write it: `1,234.50`, `−3`, `€ 12`, `17 %`, `(12.00)`. */
export function isNumber(text: string): boolean {
  const bare = text.trim().replace(/^\((.*)\)$/u, "$1").replace(/^[€$£¥\s+−-]+|[€$£¥%\s]+$/gu, "");
  return /^\d(?:[\d.,'’\s\u00a0\u202f]*\d)?(?:[eE][+-]?\d+)?$/u.test(bare);
}

/** Whether most of a column's cells are numbers: they stand at the right then. */
export function numberColumns(rows: readonly GridRow[], width: number): boolean[] {
  return Array.from({ length: width }, (_, at) => {
    const cells = rows.filter((it) => !it.whole).map((it) => it.cells[at]?.trim() ?? "").filter(Boolean);
    return cells.length > 0 && cells.filter(isNumber).length * 2 > cells.length;
  });
}

/** A piece of a passage: running text, or a table. */
export type Part = { kind: "text"; text: string } | { kind: "table"; columns: string[]; rows: GridRow[] };

const BETWEEN = " | ";

/** Most columns of a table in a text: what has more is shown as it was read. */
const MOST_COLUMNS = 100;

/**
 * Cuts a passage at the tables in it: paragraphs of two lines and more which all have as many cells. Reading a document
 * writes them so, an empty cell as an empty place; only behind the last line of all blanks are missing.
 */
export function parts(text: string): Part[] {
  const found: Part[] = [];
  for (const paragraph of text.split("\n\n")) {
    const table = tableOf(paragraph);
    const last = found.at(-1);
    if (table) found.push(table);
    else if (last?.kind === "text") last.text += `\n\n${paragraph}`;
    else found.push({ kind: "text", text: paragraph });
  }
  return found;
}

function tableOf(paragraph: string): Part | null {
  const lines = paragraph.split("\n").map((line) => line.split(BETWEEN));
  const width = lines[0]?.length ?? 0;
  if (lines.length < 2 || width < 2 || width > MOST_COLUMNS) return null;
  const even = lines.every((cells, at) => cells.length === width || (at === lines.length - 1 && cells.length < width && cells.length > 1));
  if (!even) return null;
  const cells = lines.map((line) => Array.from({ length: width }, (_, at) => line[at]?.replace(/[\s|]+$/u, "").trim() ?? ""));
  const [first, ...rest] = cells;
  const named = first?.every((it) => it !== "" && !isNumber(it)) ?? false;
  const row = (it: string[]): GridRow => ({ number: null, cells: it, whole: false, current: false });
  return { kind: "table", columns: named && first ? first : [], rows: (named ? rest : cells).map(row) };
}
