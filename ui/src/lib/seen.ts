// Lines of a page that was read as a picture, as runs of text with their places.

import type { SeenLine } from "./bindings";
import { ranges, type Terms } from "./marks";
import { passageRuns, type Box, type Run } from "./pdf";

/** A box to draw over a page: of the passage, or of a word that was asked for. */
export interface MarkedBox {
  box: Box;
  word: boolean;
}

/** Below this share readings are wrong in words that matter, as the command line has it, too. */
const UNSURE = 0.9;

/** Whether a reading that was as sure as this has to be looked at. */
export const isUnsure = (sure: number): boolean => sure < UNSURE;

/** The lines of one page. */
export function seenRuns(lines: readonly SeenLine[], page: number): Run[] {
  return lines
    .filter((it) => it.page === page)
    .map(({ text, left, top, right, bottom }) => ({ text, box: { left, top, width: right - left, height: bottom - top } }));
}

/** What is marked of the runs of a page: those of the passage, and the words in them. */
export function markedBoxes(runs: readonly Run[], passage: string, terms: Terms | null): MarkedBox[] {
  const inside = passageRuns(
    runs.map((it) => it.text),
    passage,
  );
  return runs.flatMap((run, index) => (inside.has(index) ? [{ box: run.box, word: false }, ...wordBoxes(run, terms)] : []));
}

/** The query's words in a run, placed as if all its letters were equally wide. */
function wordBoxes(run: Run, terms: Terms | null): MarkedBox[] {
  if (!terms) return [];
  return ranges(run.text, terms).map(([start, end]) => ({
    word: true,
    box: {
      ...run.box,
      left: run.box.left + (run.box.width * start) / run.text.length,
      width: (run.box.width * (end - start)) / run.text.length,
    },
  }));
}
