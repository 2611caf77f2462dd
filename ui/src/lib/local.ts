// Language models that run here: how they are named in the settings, and how one fits the memory.

import type { InstalledModel, Local, Settings } from "./bindings";

/** What the setting begins with when a model on this computer writes the answers. */
export const LOCAL = "local:";

const GIB = 2 ** 30;

/** Limits that are offered, in bytes. */
export const BUDGETS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64].map((it) => it * GIB);
export const CONTEXTS = [2048, 4096, 8192, 16384, 32768];

/** Share of a memory that a model's weights may fill: the rest is for keys and values, and for everything else in it. */
const SHARE = 0.75;

/** Whether a model is in memory as a whole, is read from disk while it answers, or does neither as things are set. */
export type Fit = "fits" | "streamed" | "tooLarge" | "unknown";

export function fit(bytes: number, budget: number | null, machine: number | null): Fit {
  if (budget !== null) return bytes <= budget * SHARE ? "fits" : "streamed";
  if (machine === null || bytes === 0) return "unknown";
  return bytes <= machine * SHARE ? "fits" : "tooLarge";
}

/** The model in this process that answers, by its name in the store. */
export function localName(llm: string): string | null {
  return llm.startsWith(LOCAL) ? llm.slice(LOCAL.length) : null;
}

/** Whether nobody's model guesses: the passages do, or nobody at all. */
export const isOwn = (draft: string) => draft === "lookup" || draft === "none";

/** Models that could guess what another writes: a guesser pays only if it is smaller. Of which family they are is known when they are opened. */
export function drafters(writer: InstalledModel, models: InstalledModel[]): InstalledModel[] {
  return models.filter((it) => it.writes && it.problem === null && it.name !== writer.name && it.bytes < writer.bytes);
}

/**
 * The settings that let a model answer; one that this computer can not hold gets a limit within which it can. Who guessed
 * for another may be of another family, so the passages guess again.
 */
export function writer(model: InstalledModel, before: Local, machine: number | null): Pick<Settings, "llm" | "local"> {
  const llm = LOCAL + model.name;
  const local = isOwn(before.draft) ? before : { ...before, draft: "lookup" };
  if (machine === null || fit(model.bytes, local.memoryBudget, machine) !== "tooLarge") return { llm, local };
  return { llm, local: { ...local, memoryBudget: BUDGETS.filter((it) => it <= machine / 2).at(-1) ?? BUDGETS[0] ?? GIB } };
}
