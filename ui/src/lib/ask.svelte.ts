// Questions and answers: the thread on screen, the answer that is being written, and the history.

import { app, failure } from "./app.svelte";
import { Channel, commands, type Answer, type AskEvent, type Citation, type Failure, type Hit, type Outgoing, type Sentence, type ThreadSummary, type Verdict } from "./bindings";

/** A question with its answer, as far as it is there. */
export interface Turn {
  id: number;
  question: string;
  /** Sentences that have been checked while the answer is being written. */
  checked: Sentence[];
  /** What has been written since the last of them. */
  written: string;
  passages: Hit[];
  searchedFor: string;
  answer: Answer | null;
  problem: Failure | null;
}

/** A question that waits until the person has seen what would be sent, and has allowed it. */
export interface Consent {
  text: string;
  outgoing: Outgoing;
}

/** What the preview beside the answer shows. */
export interface Cited {
  chunk: number;
  quote: string;
  n: number;
  turn: number;
}

/** One piece of an answer: words, or a citation's number. */
export type Piece = { kind: "words"; text: string } | { kind: "cite"; n: number };

/** Cuts `[n]` out of what is being written, where `n` is one of `known`; an unfinished `[1` at the end waits. */
export function pieces(text: string, known: number): Piece[] {
  const result: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(/\s?\[(\d{1,3})\]/g)) {
    const n = Number(match[1]);
    if (n < 1 || n > known) continue;
    if (match.index > from) result.push({ kind: "words", text: text.slice(from, match.index) });
    result.push({ kind: "cite", n });
    from = match.index + match[0].length;
  }
  const rest = text.slice(from).replace(/\s?\[\d{0,3}$/, "");
  if (rest) result.push({ kind: "words", text: rest });
  return result;
}

/** Answers of earlier versions have no verdict, and a similarity below this was called weak. */
const WEAK = 0.6;

/** Whether a sentence is true to what it cites. */
export function verdict(sentence: Sentence): Verdict {
  return sentence.verdict ?? (sentence.support < WEAK ? "weak" : "supported");
}

class Ask {
  turns = $state.raw<Turn[]>([]);
  thread = $state<number | null>(null);
  history = $state.raw<ThreadSummary[]>([]);
  historyText = $state("");
  cited = $state.raw<Cited | null>(null);
  draft = $state("");
  consent = $state.raw<Consent | null>(null);
  private id = 0;

  running = $derived(this.turns.find((it) => it.answer === null && it.problem === null) ?? null);

  async loadHistory() {
    const found = await app.try(() => commands.history({ text: this.historyText.trim(), limit: 200 }));
    if (found) this.history = found;
  }

  async openThread(thread: number) {
    const answers = await app.try(() => commands.historyThread(thread));
    if (!answers) return;
    this.stop();
    this.thread = thread;
    this.cited = null;
    this.turns = answers.map((answer) => ({
      id: ++this.id,
      question: answer.question,
      checked: [],
      written: "",
      passages: [],
      searchedFor: answer.searchedFor ?? answer.question,
      answer,
      problem: null,
    }));
  }

  begin() {
    this.stop();
    this.turns = [];
    this.thread = null;
    this.cited = null;
  }

  async forget(thread: number | null) {
    await app.try(() => commands.historyDelete(thread));
    if (thread === null || thread === this.thread) this.begin();
    await this.loadHistory();
  }

  /** Whether the next question would go to another computer that nobody has allowed yet. */
  private get unasked(): boolean {
    const state = app.settings;
    if (!state || state.settings.llm !== "remote" || state.settings.offline) return false;
    return !state.endpoint.local && state.endpoint.problem === null && state.settings.remote.model !== "" && !state.settings.remote.allowed;
  }

  /** Shows what would be sent; nothing is. */
  private async look(text: string) {
    const filter = { folders: [], kinds: [], tags: [], modifiedFrom: null, modifiedUntil: null, libraries: [] };
    const outgoing = await app.try(() => commands.askPreview({ id: 0, text, thread: this.thread, filter, fresh: false }));
    if (outgoing) this.consent = { text, outgoing };
  }

  /** Allows the endpoint from now on, and asks. */
  async allow() {
    const text = this.consent?.text;
    const remote = app.settings?.settings.remote;
    this.consent = null;
    if (!text || !remote) return;
    await app.change({ remote: { ...remote, allowed: true } });
    this.send(text);
  }

  /** Has the model write the answer, although there was one already. */
  again(turn: Turn) {
    this.turns = this.turns.filter((it) => it.id !== turn.id);
    this.send(turn.question, true);
  }

  send(text = this.draft.trim(), fresh = false) {
    if (!text || this.running) return;
    if (this.unasked) {
      void this.look(text);
      return;
    }
    this.draft = "";
    const id = ++this.id;
    this.turns = [...this.turns, { id, question: text, checked: [], written: "", passages: [], searchedFor: text, answer: null, problem: null }];
    const events = new Channel<AskEvent>();
    events.onmessage = (event) => this.hear(id, event);
    const filter = { folders: [], kinds: [], tags: [], modifiedFrom: null, modifiedUntil: null, libraries: [] };
    commands.ask({ id, text, thread: this.thread, filter, fresh }, events).catch((error: unknown) => {
      this.hear(id, { event: "failed", question: id, failure: failure(error) });
    });
  }

  private hear(id: number, event: AskEvent) {
    const patch = (change: Partial<Turn>) => {
      this.turns = this.turns.map((it) => (it.id === id ? { ...it, ...change } : it));
    };
    switch (event.event) {
      case "rewritten":
        patch({ searchedFor: event.text });
        break;
      case "evidence":
        patch({ passages: event.passages, searchedFor: event.searchedFor });
        break;
      case "piece":
        patch({ written: (this.turns.find((it) => it.id === id)?.written ?? "") + event.text });
        break;
      case "checked":
        patch({ checked: [...(this.turns.find((it) => it.id === id)?.checked ?? []), event.sentence], written: "" });
        break;
      case "done":
        patch({ answer: event.answer });
        if (this.turns.some((it) => it.id === id)) this.thread = event.answer.thread || this.thread;
        void this.loadHistory();
        break;
      case "failed":
        patch({ problem: event.failure });
        break;
    }
  }

  stop() {
    const running = this.running;
    if (running) void commands.stopAnswer(running.id).catch(() => undefined);
  }

  retry(turn: Turn) {
    this.turns = this.turns.filter((it) => it.id !== turn.id);
    this.send(turn.question);
  }

  cite(turn: Turn, citation: Citation) {
    this.cited = { chunk: citation.chunk, quote: citation.quote || turn.question, n: citation.n, turn: turn.id };
  }

  /** A citation of an answer that is still being written is one of its passages. */
  citePassage(turn: Turn, n: number) {
    const hit = turn.passages[n - 1];
    if (hit) this.cited = { chunk: hit.chunk, quote: turn.question, n, turn: turn.id };
  }
}

export const ask = new Ask();
