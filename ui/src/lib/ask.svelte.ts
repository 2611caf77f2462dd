// Questions and answers: the thread on screen, the answer that is being written, and the history.

import { app, failure } from "./app.svelte";
import { Channel, commands, type Answer, type AskEvent, type Citation, type Failure, type Hit, type ThreadSummary } from "./bindings";

/** A question with its answer, as far as it is there. */
export interface Turn {
  id: number;
  question: string;
  /** What has been written so far; replaced by the checked sentences. */
  written: string;
  passages: Hit[];
  searchedFor: string;
  answer: Answer | null;
  problem: Failure | null;
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

class Ask {
  turns = $state.raw<Turn[]>([]);
  thread = $state<number | null>(null);
  history = $state.raw<ThreadSummary[]>([]);
  historyText = $state("");
  cited = $state.raw<Cited | null>(null);
  draft = $state("");
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
      written: "",
      passages: [],
      searchedFor: answer.question,
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

  send(text = this.draft.trim()) {
    if (!text || this.running) return;
    this.draft = "";
    const id = ++this.id;
    this.turns = [...this.turns, { id, question: text, written: "", passages: [], searchedFor: text, answer: null, problem: null }];
    const events = new Channel<AskEvent>();
    events.onmessage = (event) => this.hear(id, event);
    const filter = { folders: [], kinds: [], modifiedFrom: null, modifiedUntil: null };
    commands.ask({ id, text, thread: this.thread, filter }, events).catch((error: unknown) => {
      this.hear(id, { event: "failed", question: id, failure: failure(error) });
    });
  }

  private hear(id: number, event: AskEvent) {
    const patch = (change: Partial<Turn>) => {
      this.turns = this.turns.map((it) => (it.id === id ? { ...it, ...change } : it));
    };
    switch (event.event) {
      case "evidence":
        patch({ passages: event.passages, searchedFor: event.searchedFor });
        break;
      case "piece":
        patch({ written: (this.turns.find((it) => it.id === id)?.written ?? "") + event.text });
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
