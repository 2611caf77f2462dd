// The order of the rows while it is still being found out. Rows change places when the reranker decides, but
// never the one that a person is pointing at or has chosen.

/**
 * `wanted` in its order, except that `pinned` stays at `place`. What is not in `wanted` any more is gone, pinned or
 * not.
 */
export function arrange(wanted: readonly number[], pinned: number | null, place: number): number[] {
  const at = pinned === null ? -1 : wanted.indexOf(pinned);
  if (pinned === null || at < 0) return [...wanted];
  const others = wanted.filter((it) => it !== pinned);
  others.splice(Math.max(0, Math.min(place, others.length)), 0, pinned);
  return others;
}

/**
 * The order in the middle of a reranking: who is accepted, in the order of acceptance; who is still in the
 * race, as fused; who is dropped.
 */
export function provisional(fused: readonly number[], accepted: readonly number[], dropped: ReadonlySet<number>): number[] {
  const known = new Set(fused);
  const won = accepted.filter((it) => known.has(it));
  const sure = new Set(won);
  return [
    ...won,
    ...fused.filter((it) => !sure.has(it) && !dropped.has(it)),
    ...fused.filter((it) => !sure.has(it) && dropped.has(it)),
  ];
}
