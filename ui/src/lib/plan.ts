// What would be downloaded: which versions a person chooses from, and how much each is.

import type { ModelPlan, ModelWeights } from "./bindings";

/** Those of one sort, the smallest first: whoever wants a language model does not choose a file of other formats. */
export function offered(plan: ModelPlan): ModelWeights[] {
  const kind = (plan.weights.find((it) => it.chosen) ?? plan.weights[0])?.writes;
  return plan.weights.filter((it) => it.writes === kind).sort((a, b) => a.bytes - b.bytes);
}

/** Bytes of everything with these weights; `null` while none are chosen. */
export function total(plan: ModelPlan, weights: ModelWeights | null): number | null {
  if (weights === null) return plan.bytes > 0 ? plan.bytes : null;
  return weights.chosen ? plan.bytes : plan.beside + weights.bytes;
}
