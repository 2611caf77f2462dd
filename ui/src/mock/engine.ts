// A small search engine for the browser tests: it really ranks the sample library's passages, and plays a reranker
// whose scores settle layer by layer, so that the panels show something true to life.

import type { CurvePoint, Hit, LayerTrace, MemorySample, Notice, Outcome, PipelineTrace, PruneMode, ReplayCandidate, ReplayResult, SearchFilter, Span } from "../lib/bindings";
import { mark, terms } from "../lib/marks";
import { passages, type MockPassage } from "./files";

export const LAYERS = 12;
export const TOP_K = 10;
const CANDIDATES = 24;

/** Numbers that look random and are the same in every run. */
export function random(seed: string): () => number {
  let state = 2166136261;
  for (const char of seed) state = Math.imul(state ^ (char.codePointAt(0) ?? 0), 16777619);
  return () => {
    state = Math.imul(state ^ (state >>> 15), 2246822507) + 0x9e3779b9;
    const mixed = Math.imul(state ^ (state >>> 13), 3266489909);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 4294967296;
  };
}

const words = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

/** Words that mean the same here: what a vector index would know. */
const ALIKE: Record<string, string[]> = {
  rent: ["costs", "lease", "month", "deposit"], cost: ["costs", "price", "rent"], boat: ["vessel", "narrow", "hull", "warbler"],
  engine: ["lister", "oil", "valve"], bread: ["loaf", "rye", "dough", "sauerteig", "食パン"], winter: ["mooring", "frost", "november"],
  oven: ["h4", "door", "seals", "deck"], water: ["bilge", "pump"], thin: ["thinnest", "plate", "counter"], starter: ["fritzi", "sauerteig", "ansatz"],
  seals: ["cord", "door"], mooring: ["berth", "marina", "tolley"], notice: ["lease", "quarter"], flour: ["rye", "wheat", "mill"],
};

function score(passage: MockPassage, query: string[], soft: boolean): number {
  const text = words(`${passage.file.title} ${passage.heading} ${passage.text}`);
  let sum = 0;
  for (const word of query) {
    const stem = word.slice(0, Math.max(3, word.length - 2));
    const count = text.filter((it) => it.startsWith(stem)).length;
    if (count > 0) sum += (2 * count) / (count + 1.2) + Math.min(1, stem.length / 8);
    if (soft) for (const near of ALIKE[word] ?? []) if (text.includes(near)) sum += 0.7;
  }
  return sum / (1 + text.length / 400);
}

export interface Found {
  passage: MockPassage;
  bm25: number | null;
  terms: number | null;
  vector: number | null;
  fused: number;
  truth: number;
}

function passes(passage: MockPassage, filter: SearchFilter): boolean {
  const { path, kind, modified } = passage.file.ref;
  return (
    (filter.folders.length === 0 || filter.folders.some((it) => path.startsWith(`${it}/`))) &&
    (filter.kinds.length === 0 || filter.kinds.includes(kind)) &&
    (filter.tags.length === 0 || filter.tags.some((it) => passage.text.toLowerCase().includes(`#${it.toLowerCase()}`))) &&
    (filter.modifiedFrom === null || modified >= filter.modifiedFrom) &&
    (filter.modifiedUntil === null || modified < filter.modifiedUntil)
  );
}

export function find(text: string, filter: SearchFilter): Found[] {
  const query = words(text);
  const noise = random(text);
  const { left } = marks(text);
  const all = passages().filter((it) => passes(it, filter) && !left.some((word) => has(it, word)));
  const hard = all.map((it) => ({ it, score: score(it, query, false) })).filter((it) => it.score > 0).sort((a, b) => b.score - a.score).slice(0, 14);
  const soft = all.map((it) => ({ it, score: score(it, query, true) + noise() * 0.35 })).sort((a, b) => b.score - a.score).slice(0, 20).filter((it) => it.score > 0.36 || hard.length > 0);
  // The words of the query, and those that belong to them.
  const weighed = all.map((it) => ({ it, score: score(it, query, false) + 0.4 * score(it, query, true) })).filter((it) => it.score > 0.2).sort((a, b) => b.score - a.score).slice(0, 16);
  const fused = new Map<MockPassage, { bm25: number | null; vector: number | null; terms: number | null; sum: number }>();
  for (const [leg, list] of Object.entries({ bm25: hard, vector: soft, terms: weighed } as const)) {
    for (const [index, { it }] of list.entries()) {
      const own = fused.get(it) ?? { bm25: null, vector: null, terms: null, sum: 0 };
      own[leg as "bm25" | "vector" | "terms"] = index + 1;
      own.sum += 1 / (61 + index);
      fused.set(it, own);
    }
  }
  const list = [...fused.entries()].sort((a, b) => b[1].sum - a[1].sum).slice(0, CANDIDATES);
  const most = Math.max(0.01, ...list.map(([it]) => score(it, query, true)));
  return list.map(([passage, own], index) => {
    // What a reader of both would think: the words, the meaning, and a little that nobody saw coming.
    const truth = Math.max(0.003, Math.min(0.985, (score(passage, query, true) / most) ** 2.1 * 0.93 + (noise() - 0.45) * 0.17));
    return { passage, bm25: own.bm25, vector: own.vector, terms: own.terms, fused: index + 1, truth };
  });
}

/** Phrases of a query, and what a minus leaves out. The program looks closer at what was pasted. */
function marks(text: string): { phrases: string[]; left: string[] } {
  const all = [...text.matchAll(/(?:^|\s)(-?)(?:"([^"]+)"|“([^”]+)”|(\p{L}\S+))/gu)].map(([, minus, straight, curly, word]) => ({ minus: minus === "-", phrase: straight ?? curly, word }));
  const left = all.filter((it) => it.minus).map((it) => it.phrase ?? it.word ?? "");
  return { phrases: all.flatMap((it) => (!it.minus && it.phrase ? [it.phrase] : [])), left: left.length < all.length ? left : [] };
}

const has = (it: MockPassage, words: string) => it.text.toLowerCase().includes(words.toLowerCase());

/** How a query is understood: phrases that stand nowhere, and what a minus leaves out. */
export function understood(text: string): Notice[] {
  const { phrases, left } = marks(text);
  const stand = passages().some((it) => phrases.every((phrase) => has(it, phrase)));
  return [
    ...(phrases.length > 0 && !stand ? [{ kind: "notAsQuoted" as const, phrases }] : []),
    ...(left.length > 0 ? [{ kind: "leftOut" as const, words: left }] : []),
  ];
}

export function snippet(text: string, query: string): Span[] {
  const flat = text.replace(/\s+/g, " ").replace(/[#*`|]/g, "").trim();
  const look = terms(query);
  const first = mark(flat, look).findIndex((it) => it.hit);
  const before = mark(flat, look).slice(0, Math.max(0, first)).reduce((sum, it) => sum + it.text.length, 0);
  const from = before > 90 ? flat.indexOf(" ", before - 60) + 1 : 0;
  const piece = `${from > 0 ? "… " : ""}${flat.slice(from, from + 190)}${from + 190 < flat.length ? "…" : ""}`;
  return mark(piece, look).map((it) => ({ text: it.text, mark: it.hit }));
}

export function hit(found: Found, rank: number, query: string, atLayer: number | null, value: number): Hit {
  const { passage } = found;
  return {
    rank,
    chunk: passage.chunk,
    file: passage.file.ref,
    title: passage.file.title,
    heading: passage.heading,
    snippet: snippet(passage.text, query),
    location: passage.location,
    score: value,
    ranks: { bm25: found.bm25, vector: found.vector, terms: found.terms, fused: found.fused, decidedAtLayer: atLayer },
    alsoIn: [],
    versions: [],
    library: null,
    here: null,
    ocrConfidence: passage.ocrConfidence ?? null,
  };
}

/** Scores of all candidates after every layer: alike at first, apart in the end. */
export function scores(found: Found[], text: string): number[][] {
  const noise = random(`${text}/layers`);
  const drift = found.map(() => 0.42 + (noise() - 0.5) * 0.1);
  return Array.from({ length: LAYERS }, (_, layer) => {
    const sure = 1 / (1 + Math.exp(-(layer - 4.4) * 0.85));
    return found.map((it, index) => {
      const wobble = (noise() - 0.5) * 0.09 * (1 - sure);
      return Math.max(0.002, Math.min(0.996, (drift[index] ?? 0.4) * (1 - sure) + it.truth * sure + wobble));
    });
  });
}

interface Decided {
  layers: LayerTrace[];
  fates: ReplayCandidate[];
  share: number;
}

/** Two gaps decide: who is far above or below the others at the border of the result, once scores are spread enough. */
export function decide(all: number[][], threshold: number | null, mode: PruneMode, layerMs: number): Decided {
  const total = all[0]?.length ?? 0;
  const slots = Math.min(TOP_K, total);
  let active = Array.from({ length: total }, (_, index) => index);
  const fates: ReplayCandidate[] = active.map(() => ({ rank: null, outcome: "kept", atLayer: LAYERS }));
  const accepted: number[] = [];
  const layers: LayerTrace[] = [];
  let computed = 0;
  for (const [index, row] of all.entries()) {
    if (active.length === 0) break;
    const layer = index + 1;
    const own = active.map((it) => row[it] ?? 0);
    const mean = own.reduce((sum, it) => sum + it, 0) / own.length;
    const dispersion = Math.sqrt(own.reduce((sum, it) => sum + (it - mean) ** 2, 0) / own.length) / Math.max(mean, 1e-3);
    const won: number[] = [];
    const lost: number[] = [];
    const left = slots - accepted.length;
    const sorted = [...active].sort((a, b) => (row[b] ?? 0) - (row[a] ?? 0));
    if (layer === LAYERS || left <= 0 || left >= active.length) {
      won.push(...sorted.slice(0, Math.max(0, left)));
      lost.push(...sorted.slice(Math.max(0, left)));
    } else if (threshold !== null && mode !== "off" && dispersion > threshold && layer > 1) {
      const border = ((row[sorted[left - 1] ?? 0] ?? 0) + (row[sorted[left] ?? 0] ?? 0)) / 2;
      const margin = 0.015 + 0.15 * Math.max(0, 1 - layer / LAYERS);
      for (const it of sorted) {
        const distance = (row[it] ?? 0) - border;
        if (mode === "set" && distance > margin && won.length < left) won.push(it);
        else if (distance < -margin * 0.55 && active.length - lost.length > left) lost.push(it);
      }
    }
    computed += active.length;
    const share = active.length / total;
    const ms = layerMs * (0.22 + 0.78 * share) * (1 + 0.12 * Math.sin(layer * 2.1));
    layers.push({
      layer,
      ms,
      ioWaitMs: layer === 1 ? layerMs * 0.3 : Math.max(0.05, layerMs * (0.5 - 0.48 * share) * 0.5),
      bytesRead: 7_087_872,
      residentWeightBytes: 14_175_744,
      dispersion,
      active: [...active],
      scores: own,
      accepted: won,
      dropped: lost,
    });
    for (const it of won) fates[it] = { rank: null, outcome: "accepted", atLayer: layer };
    for (const it of lost) fates[it] = { rank: null, outcome: "dropped", atLayer: layer };
    accepted.push(...won);
    active = active.filter((it) => !won.includes(it) && !lost.includes(it));
    if (accepted.length >= slots) {
      for (const it of active) fates[it] = { rank: null, outcome: "dropped", atLayer: layer };
      layers.at(-1)?.dropped.push(...active);
      active = [];
    }
  }
  const final = all.at(-1) ?? [];
  const byScore = (a: number, b: number) => (final[b] ?? 0) - (final[a] ?? 0);
  const order = mode === "set" ? [...accepted] : [...accepted].sort(byScore);
  for (const [place, it] of order.entries()) fates[it] = { ...(fates[it] as ReplayCandidate), rank: place + 1 };
  return { layers, fates, share: total === 0 ? 0 : computed / (total * LAYERS) };
}

export function replay(all: number[][], threshold: number | null, mode: PruneMode): ReplayResult {
  const full = decide(all, null, "off", 14);
  const other = decide(all, threshold, mode, 14);
  const time = (it: Decided) => it.layers.reduce((sum, layer) => sum + layer.ms, 0);
  const winners = full.fates.flatMap((it, index) => (it.rank === null ? [] : [index]));
  const lost = winners.filter((it) => other.fates[it]?.rank === null);
  return {
    threshold,
    mode,
    topK: TOP_K,
    candidates: other.fates,
    layersRun: other.layers.length,
    active: other.layers.map((it) => it.active.length),
    computedShare: other.share,
    fullMs: time(full),
    savedMs: Math.max(0, time(full) - time(other)),
    kept: winners.length - lost.length,
    lost,
    sameOrder: lost.length === 0 && winners.every((it) => full.fates[it]?.rank === other.fates[it]?.rank),
  };
}

export function curve(all: number[][], mode: PruneMode): CurvePoint[] {
  return Array.from({ length: 31 }, (_, index) => {
    const threshold = index * 0.05;
    const it = replay(all, threshold, mode);
    return { threshold, computedShare: it.computedShare, kept: it.kept };
  });
}

export function trace(text: string, found: Found[], all: number[][], decided: Decided, model: string | null, asked: boolean, budget: number | null, threshold: number | null, mode: PruneMode): PipelineTrace {
  const rerankMs = decided.layers.reduce((sum, it) => sum + it.ms, 0);
  const memory: MemorySample[] = Array.from({ length: 40 }, (_, index) => {
    const part = index / 39;
    const breathing = Math.sin(index * 1.7) * 1.4e6;
    return { ms: part * rerankMs, rssBytes: 148e6 + 52e6 * Math.min(1, part * 6) + breathing + (part > 0.9 ? -14e6 * (part - 0.9) * 10 : 0), weightBytes: index === 0 ? 4e6 : 21e6 + (index % 3) * 2.4e6 };
  });
  const stages = [
    { stage: "embed", ms: 6.4 },
    { stage: "vector", ms: 0.9 },
    { stage: "bm25", ms: 1.3 },
    { stage: "weigh", ms: 1.1 },
    { stage: "terms", ms: 0.8 },
    { stage: "fuse", ms: 0.2 },
    ...(model ? [{ stage: "rerank", ms: rerankMs }] : []),
    ...(asked ? [{ stage: "generate", ms: 1.1 }, { stage: "check", ms: 18.6 }] : []),
  ];
  return {
    text,
    at: Math.floor(Date.now() / 1000),
    asked,
    stages,
    totalMs: 7.5 + (model ? rerankMs : 0) + (asked ? 19.7 : 0),
    candidates: found.map((it, index) => {
      const fate = decided.fates[index] ?? { rank: null, outcome: "kept" as Outcome, atLayer: LAYERS };
      return {
        chunk: it.passage.chunk,
        title: it.passage.file.title,
        file: it.passage.file.ref,
        location: it.passage.location,
        ranks: { bm25: it.bm25, vector: it.vector, terms: it.terms, fused: it.fused, decidedAtLayer: fate.atLayer },
        rank: fate.rank,
        outcome: fate.outcome,
        atLayer: fate.atLayer,
      };
    }),
    model,
    terms: true,
    topK: TOP_K,
    mode,
    threshold,
    promise: null,
    numLayers: model ? LAYERS : 0,
    layers: model ? decided.layers : [],
    plan: model ? { windowLayers: 2, microBatchTokens: 1024, embeddingRows: 3052, hiddenOnDisk: false, plannedBytes: 46_400_000 } : null,
    computedShare: model ? decided.share : null,
    memory: model ? memory : [],
    memoryBudget: model ? budget : null,
    replayable: all.length > 0,
    generation: null,
    deadline: null,
    embedding: null,
    remote: null,
  };
}
