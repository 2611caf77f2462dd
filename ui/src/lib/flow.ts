// A recorded reranking as lines: one per candidate, its provisional score over the layers, ending where it was
// accepted or dropped. The GRATING paper's Figure 2, of the user's own query.

import type { LayerTrace } from "./bindings";

export interface FlowPoint {
  layer: number;
  score: number;
}

export type Outcome = "accepted" | "dropped" | "running";

export interface FlowLine {
  candidate: number;
  points: FlowPoint[];
  outcome: Outcome;
  /** Layer after which it was decided, or the last one it ran. */
  until: number;
}

/** The lines of a run, in the order of the candidates. */
export function flowLines(layers: readonly LayerTrace[]): FlowLine[] {
  const lines = new Map<number, FlowLine>();
  for (const event of layers) {
    for (const [place, candidate] of event.active.entries()) {
      const line: FlowLine = lines.get(candidate) ?? { candidate, points: [], outcome: "running", until: 0 };
      lines.set(candidate, line);
      line.until = event.layer;
      const score = event.scores[place];
      if (score !== undefined && Number.isFinite(score)) line.points.push({ layer: event.layer, score });
    }
    for (const candidate of event.accepted) decide(lines, candidate, "accepted", event.layer);
    for (const candidate of event.dropped) decide(lines, candidate, "dropped", event.layer);
  }
  return [...lines.values()].sort((a, b) => a.candidate - b.candidate);
}

function decide(lines: Map<number, FlowLine>, candidate: number, outcome: Outcome, layer: number) {
  const line = lines.get(candidate);
  if (line) {
    line.outcome = outcome;
    line.until = layer;
  }
}

/** What became of a candidate, in the run itself or in its replay under another threshold. */
export interface Fate {
  outcome: "kept" | "accepted" | "dropped";
  atLayer: number;
}

/** The same lines, decided as another policy would have: what each would have computed, and its end. */
export function decidedBy(lines: readonly FlowLine[], fates: readonly Fate[]): FlowLine[] {
  return lines.map((line) => {
    const fate = fates[line.candidate];
    if (!fate) return line;
    return { ...line, outcome: fate.outcome === "kept" ? "running" : fate.outcome, until: fate.atLayer };
  });
}

/** Relevances that all lie closer to 0 or to 1 than this are one line at the edge: their logits are not. */
const EDGE = 0.02;

/** The lines with logits in the place of relevances where these can not be told apart; and whether they are. */
export function spread(lines: readonly FlowLine[]): { lines: FlowLine[]; logits: boolean } {
  const last = lines.flatMap(({ points }) => points.slice(-1).map((it) => it.score));
  const share = lines.every(({ points }) => points.every(({ score }) => score >= 0 && score <= 1));
  const flat = share && last.length > 1 && (last.every((it) => it < EDGE) || last.every((it) => it > 1 - EDGE));
  if (!flat) return { lines: [...lines], logits: false };
  // What f32 rounds to 0 or 1 lies beyond this.
  const logit = (it: number) => Math.min(17, Math.max(-17, Math.log(it / (1 - it))));
  const moved = ({ points, ...line }: FlowLine) => ({ ...line, points: points.map(({ layer, score }) => ({ layer, score: logit(score) })) });
  return { lines: lines.map(moved), logits: true };
}

/** Lowest and highest score of all lines, with room around them. */
export function extent(lines: readonly FlowLine[]): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const { points } of lines) {
    for (const { score } of points) {
      low = Math.min(low, score);
      high = Math.max(high, score);
    }
  }
  if (low > high) return [0, 1];
  const room = Math.max((high - low) * 0.07, 0.01);
  return [low - room, high + room];
}

/** Round numbers within a range, about `wanted` of them. */
export function ticks(low: number, high: number, wanted: number): number[] {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((it) => it * power).find((it) => it >= rough) ?? rough;
  const found: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) {
    found.push(Math.abs(at) < step * 1e-6 ? 0 : Number(at.toPrecision(12)));
  }
  return found;
}

/** Which layers get a number under them, so that numbers do not touch. */
export function layerTicks(count: number, width: number): number[] {
  const step = [1, 2, 3, 4, 5, 6, 8, 10].find((it) => (count / it) * 26 <= width) ?? 12;
  return Array.from({ length: count }, (_, at) => at + 1).filter((it) => it % step === 0 || it === 1 || it === count);
}
