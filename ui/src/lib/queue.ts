// What waits in the library, in the order in which it is done, and why each waits.

import type { KindCount, LibraryState, Waiting } from "./bindings";

/** Files are read, then prose and tables get what meaning finds them by, then scans are read. */
export type WaitKind = "files" | "prose" | "tables" | "scans" | "tooLarge";

export type WaitWhy =
  | { kind: "paused" | "now" | "afterFiles" | "afterProse" | "last" | "noReader" | "limit" }
  | { kind: "held"; by: Waiting }
  /** As much as the processor may be taken beside a person's work. */
  | { kind: "share"; share: number };

export interface Wait {
  kind: WaitKind;
  count: number;
  /** Until it is done, with what comes before it; null: nobody knows. */
  seconds: number | null;
  why: WaitWhy;
  /** What kinds of files these are; empty for all else. */
  kinds: KindCount[];
}

/** What waits; empty when all is done. */
export function waits(library: LibraryState): Wait[] {
  const { queue, meaning, scans, phase, progress } = library;
  const paused = phase === "paused";
  const list: Wait[] = [];
  let sofar: number | null = paused ? null : 0;
  const add = (kind: WaitKind, count: number, seconds: number | null, why: WaitWhy, kinds: KindCount[] = []) => {
    if (count === 0) return;
    sofar = sofar === null || seconds === null ? null : sofar + seconds;
    list.push({ kind, count, seconds: sofar, why: paused ? { kind: "paused" } : why, kinds });
  };
  const files = queue.files.reduce((sum, it) => sum + it.count, 0);
  add("files", files, phase === "reading" ? (progress?.secondsLeft ?? null) : null, { kind: "now" }, queue.files);
  const left = meaning?.secondsLeft ?? null;
  const share = (part: number) => (left === null ? null : (left * part) / (queue.prose + queue.tables));
  add("prose", queue.prose, share(queue.prose), made(library, files));
  add("tables", queue.tables, share(queue.tables), queue.prose > 0 ? { kind: "afterProse" } : made(library, files));
  const alone = list.length === 0;
  add("scans", scans.waiting, scans.installed ? scans.secondsLeft : null, !scans.installed ? { kind: "noReader" } : alone ? { kind: "now" } : { kind: "last" });
  // What is too large waits for nothing but another limit: it is told beside the rest, not alone.
  if (list.length > 0 && queue.tooLarge > 0) list.push({ kind: "tooLarge", count: queue.tooLarge, seconds: null, why: { kind: "limit" }, kinds: [] });
  return list;
}

/** Why passages wait for what meaning finds them by. */
function made({ meaning, meaningLimits }: LibraryState, files: number): WaitWhy {
  if (files > 0) return { kind: "afterFiles" };
  if (meaning?.waiting) return { kind: "held", by: meaning.waiting };
  return meaningLimits.cpu < 100 ? { kind: "share", share: meaningLimits.cpu / 100 } : { kind: "now" };
}
