// The pipeline panel: the trace of the last query, and what other settings would have made of it.

import { app, sentence } from "./app.svelte";
import { commands, type CalibrationInfo, type Comparison, type CurvePoint, type PipelineTrace, type PruneMode, type Rerank, type ReplayResult } from "./bindings";
import { t } from "./strings";

class Pipeline {
  trace = $state.raw<PipelineTrace | null>(null);
  loaded = $state(false);
  /** Settings as the sliders say; kept by `apply`. */
  draft = $state.raw<Rerank>({ mode: "off", pruning: { kind: "standard" }, window: null, microBatchTokens: null, rowShare: null, memoryBudget: null, deadlineMs: null, preloadBytes: null });
  threshold = $state(0.4);
  replayed = $state.raw<ReplayResult | null>(null);
  replaying = $state(false);
  curve = $state.raw<CurvePoint[]>([]);
  comparison = $state.raw<Comparison | null>(null);
  comparing = $state(false);
  calibration = $state.raw<CalibrationInfo | null>(null);
  problem = $state("");
  chosen = $state<number | null>(null);
  /** When the trace was recorded that has been drawn already. */
  seen = 0;

  private wanted = 0;

  kept = $derived(app.settings?.settings.rerank ?? this.draft);
  dirty = $derived(JSON.stringify(this.draft) !== JSON.stringify(this.kept));
  reranked = $derived(this.trace !== null && this.trace.model !== null && this.trace.layers.length > 0);

  async load() {
    try {
      this.trace = await commands.pipeline();
      this.problem = "";
    } catch (error) {
      this.problem = sentence(error);
    }
    this.loaded = true;
    this.comparison = null;
    this.replayed = null;
    this.curve = [];
    this.chosen = null;
    if (!this.reranked) return;
    void commands.calibration().then((it) => (this.calibration = it)).catch(() => undefined);
    if (this.draft.mode !== "off") void this.replay();
    void this.loadCurve();
  }

  /** Sliders begin where the settings are. */
  adopt() {
    const rerank = app.settings?.settings.rerank;
    if (!rerank) return;
    this.draft = rerank;
    if (rerank.pruning.kind === "threshold") this.threshold = rerank.pruning.threshold;
  }

  private async loadCurve() {
    try {
      this.curve = await commands.pipelineCurve(this.draft.mode === "off" ? "set" : this.draft.mode);
    } catch {
      this.curve = [];
    }
  }

  set(patch: Partial<Rerank>) {
    this.draft = { ...this.draft, ...patch };
  }

  /** `standard` is no mode: it leaves the choice to the program. */
  setMode(choice: PruneMode | "standard") {
    const mode = choice === "standard" ? "off" : choice;
    const open = this.draft.pruning.kind === "standard" || this.draft.pruning.kind === "full";
    if (choice === "standard") this.set({ mode, pruning: { kind: "standard" } });
    else if (mode === "off") this.set({ mode, pruning: { kind: "full" } });
    else this.set({ mode, pruning: open ? { kind: "threshold", threshold: this.threshold } : this.draft.pruning });
    void this.loadCurve();
    void this.replay();
  }

  setThreshold(threshold: number) {
    this.threshold = threshold;
    const mode = this.draft.mode === "off" ? "set" : this.draft.mode;
    this.set({ mode, pruning: { kind: "threshold", threshold } });
    void this.replay();
  }

  setPrecision(precision: number) {
    this.set({ pruning: { kind: "precision", precision } });
    this.replayed = null;
  }

  /** Replays at the threshold of the slider. While one is under way the newest wish waits for it. */
  async replay() {
    this.wanted += 1;
    if (this.replaying || !this.reranked) return;
    this.replaying = true;
    let done = 0;
    while (done !== this.wanted) {
      done = this.wanted;
      const { mode, pruning } = this.draft;
      const threshold = mode === "off" || pruning.kind !== "threshold" ? null : pruning.threshold;
      try {
        this.replayed = await commands.pipelineReplay({ threshold, mode });
        this.problem = "";
      } catch (error) {
        this.problem = sentence(error);
        break;
      }
    }
    this.replaying = false;
  }

  async apply() {
    await app.change({ rerank: this.draft });
    app.say(t.pipeline.applied, "good");
  }

  async compare() {
    this.comparing = true;
    this.comparison = (await app.try(() => commands.pipelineCompare())) ?? null;
    this.comparing = false;
  }
}

export const pipeline = new Pipeline();
