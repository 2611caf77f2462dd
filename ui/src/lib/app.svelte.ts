// What every view shares: where we are, the settings, the state of the library, and what is said in passing.

import { tick } from "svelte";

import { Channel, commands, type AppEvent, type Failure, type Gate, type LibraryState, type Settings, type SettingsState, type Start } from "./bindings";
import { writer } from "./local";
import { failed, language, t, troubled } from "./strings";

export const VIEWS = ["search", "ask", "pipeline", "performance", "library", "settings"] as const;
export type View = (typeof VIEWS)[number];

export interface Toast {
  id: number;
  text: string;
  tone: "info" | "good" | "bad";
  action?: { label: string; run: () => void };
}

/** What a failed command says to people. */
export function sentence(error: unknown): string {
  if (typeof error === "object" && error !== null && "code" in error) return failed(error as Failure);
  if (typeof error === "object" && error !== null && "message" in error) return String((error as Error).message);
  return typeof error === "string" ? error : t.common.unknownProblem;
}

export function failure(error: unknown): Failure {
  if (typeof error === "object" && error !== null && "code" in error) return error as Failure;
  return { code: "other", message: sentence(error), advice: null };
}

const EMPTY_LIBRARY: LibraryState = {
  folders: [],
  shared: [],
  counts: [],
  kinds: [],
  lately: { days: 7, files: 0 },
  queue: { files: [], prose: 0, tables: 0, tooLarge: 0 },
  passages: 0, meaning: null,
  meaningLimits: { cpu: 100, onBattery: false },
  scans: { which: "all", installed: false, read: 0, waiting: 0, secondsLeft: 0, leftOut: 0, leftOutSeconds: 0 },
  readsBrowsing: false,
  phase: "starting",
  progress: null,
  indexBytes: { catalog: 0, keyword: 0, vector: 0, terms: 0 },
  asOf: null,
  notices: [],
  error: null,
};

class App {
  view = $state<View>("search");
  start = $state.raw<Start | null>(null);
  /** Why the app could not start. */
  problem = $state("");
  firstRun = $state(false);
  /** What has to be done before the library opens. */
  gate = $state.raw<Gate | null>(null);
  settings = $state.raw<SettingsState | null>(null);
  library = $state.raw<LibraryState>(EMPTY_LIBRARY);
  /** Parts of the program that broke down and were unloaded. */
  unloaded = $state.raw<{ part: string; message: string } | null>(null);
  toasts = $state.raw<Toast[]>([]);
  dragging = $state(false);
  keysShown = $state(false);
  /** Rises when installed models change: who shows them asks again. */
  modelsTurn = $state(0);
  /** Rises when searches see more than before. */
  indexTurn = $state(0);
  /** Rises when the search box is to take the focus. */
  summons = $state(0);
  /** The passage that a link names, while it is shown. */
  linked = $state<number | null>(null);
  /** What somebody has typed elsewhere, until the search box has it. */
  typed = $state.raw<{ text: string } | null>(null);
  /** A filter that another view wants the ledger to open with. */
  ledgerStates = $state.raw<string[] | null>(null);
  systemDark = $state(false);

  private nextToast = 1;
  private saving: Promise<void> = Promise.resolve();

  dark = $derived.by(() => {
    const theme = this.settings?.settings.theme ?? "system";
    return theme === "system" ? this.systemDark : theme === "dark";
  });

  /** The first thing the app does; `data-ready` tells the tests that it is done. */
  async boot() {
    const media = window.matchMedia("(prefers-color-scheme: dark)");
    this.systemDark = media.matches;
    media.addEventListener("change", () => (this.systemDark = media.matches));
    await this.enter();
    // Only what is drawn can be used.
    await tick();
    document.documentElement.dataset["ready"] = "";
    void commands.ready().catch(() => undefined);
  }

  /** Shows the library, or what stands before it. */
  async enter() {
    this.gate = null;
    try {
      const start = await commands.start();
      this.start = start;
      this.settings = start.settings;
      this.library = start.library;
      this.firstRun = start.firstRun;
      const channel = new Channel<AppEvent>();
      channel.onmessage = (event) => this.hear(event);
      void commands.events(channel);
    } catch (error) {
      // Behind a gate nothing else answers.
      const gate = await commands.gate().catch(() => null);
      if (gate && gate.kind !== "open") this.gate = gate;
      else this.problem = sentence(error);
    }
  }

  hear(event: AppEvent) {
    switch (event.event) {
      case "library":
        this.library = event.state;
        break;
      case "settings":
        this.settings = event.state;
        break;
      case "refreshed":
        this.indexTurn += 1;
        break;
      case "models":
        this.modelsTurn += 1;
        break;
      case "partUnloaded":
        this.unloaded = { part: event.part, message: event.message };
        break;
      case "summoned":
        this.summon();
        break;
      case "linked":
        this.linked = event.chunk;
        break;
      case "typed":
        this.linked = null;
        this.go("search");
        this.typed = { text: event.text };
        break;
      case "dragOver":
        this.dragging = true;
        break;
      case "dragLeft":
        this.dragging = false;
        break;
      case "dropped":
        this.dragging = false;
        void this.take(event.paths);
        break;
    }
  }

  go(view: View) {
    this.view = view;
    if (view === "search") this.summons += 1;
  }

  summon() {
    this.go("search");
  }

  /** Opens the ledger with these states chosen. */
  showFiles(states: string[]) {
    this.ledgerStates = states;
    this.view = "library";
  }

  say(text: string, tone: Toast["tone"] = "info", action?: Toast["action"]) {
    const id = this.nextToast++;
    this.toasts = [...this.toasts.slice(-2), { id, text, tone, ...(action ? { action } : {}) }];
    window.setTimeout(() => this.unsay(id), tone === "bad" || action ? 9000 : 4500);
  }

  unsay(id: number) {
    this.toasts = this.toasts.filter((it) => it.id !== id);
  }

  /** Runs a command and tells the person if it fails. */
  async try<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      this.say(sentence(error), "bad");
      return undefined;
    }
  }

  /** Changes settings: shown at once, kept one change after the other. */
  change(patch: Partial<Settings>) {
    if (!this.settings) return Promise.resolve();
    this.settings = { ...this.settings, settings: { ...this.settings.settings, ...patch } };
    const wanted = this.settings.settings;
    this.saving = this.saving.then(async () => {
      const state = await this.try(() => commands.settingsSet(wanted));
      if (state && this.settings?.settings === wanted) this.settings = state;
    });
    return this.saving;
  }

  /** Takes what was dropped onto the window: language models as such, all else as folders. */
  private async take(paths: string[]) {
    const isModel = (path: string) => /\.gguf$/i.test(path);
    const folders = paths.filter((it) => !isModel(it));
    if (folders.length > 0) void this.addFolders(folders);
    for (const path of paths.filter(isModel)) await this.importModel(path);
  }

  /** Copies a language model's file into the store, and offers to be answered by it. */
  private async importModel(path: string) {
    this.say(t.models.importing(path.replace(/^.*[\\/]/, "")));
    const name = await this.try(() => commands.modelImport(path));
    if (name === undefined) return;
    this.say(t.models.imported(name), "good", { label: t.models.answerWith, run: () => void this.answerWith(name) });
  }

  private async answerWith(name: string) {
    const models = await this.try(() => commands.models());
    const model = models?.installed.find((it) => it.name === name);
    if (!models || !model || !this.settings) return;
    await this.change(writer(model, this.settings.settings.local, models.memoryBytes));
    this.say(t.models.answersNow(name), "good");
  }

  /** Adds folders by path, or by dialog. */
  async addFolders(paths?: string[]) {
    const added = await this.try(() => (paths ? commands.libraryAdd(paths) : commands.libraryAddDialog()));
    for (const it of added ?? []) if (it.problem) this.say(troubled(it.problem), "bad");
    const good = (added ?? []).filter((it) => !it.problem);
    if (good.length > 0) this.say(t.library.added(good.length), "good");
    return good;
  }
}

export const app = new App();
language.follow(() => app.settings?.settings.language ?? "system");
