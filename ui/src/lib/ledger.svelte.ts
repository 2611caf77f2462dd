// The ledger of every file, in pages: 100 000 rows are scrolled through, and some hundred are here.

import { sentence } from "./app.svelte";
import { commands, type LedgerRow, type LedgerSort, type State } from "./bindings";

const PAGE = 200;
/** Pages kept; the ones longest out of sight go first. */
const KEPT = 24;

export class Ledger {
  states = $state.raw<State[]>([]);
  folder = $state<number | null>(null);
  /** Only what is new or has changed lately. */
  lately = $state(false);
  text = $state("");
  sort = $state<LedgerSort>("path");
  descending = $state(false);
  total = $state(0);
  loaded = $state(false);
  problem = $state("");
  selected = $state(-1);
  /** Rises with every page that comes in. */
  turn = $state(0);

  private pages = new Map<number, LedgerRow[]>();
  private asked = new Set<number>();
  private age = 0;
  private first = 0;
  private last = 0;

  row(index: number): LedgerRow | undefined {
    void this.turn;
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** What is new or has changed lately, the latest first; or all files again, by path. */
  showLately(lately: boolean) {
    this.lately = lately;
    this.sort = lately ? "changed" : "path";
    this.descending = lately;
    // It is of all folders that the number of files was told.
    if (lately) this.folder = null;
    if (lately) this.states = [];
    if (lately) this.text = "";
    return this.reload();
  }

  /** The rows between are in sight. */
  see(first: number, last: number) {
    this.first = first;
    this.last = last;
    for (let page = Math.floor(Math.max(0, first) / PAGE); page <= Math.floor(Math.max(0, last) / PAGE); page += 1) {
      if (!this.pages.has(page) && !this.asked.has(page)) void this.fetch(page);
    }
  }

  /** Forgets what is here and asks anew: another filter, another order, or the files changed. */
  async reload(keepSelection = false) {
    this.age += 1;
    this.asked.clear();
    if (!keepSelection) this.selected = -1;
    const stale = this.pages;
    this.pages = new Map();
    // Until the new page is here the old rows stay, so that nothing flickers.
    if (keepSelection) this.pages = stale;
    const { age } = this;
    const page = Math.floor(this.first / PAGE);
    await this.fetch(page, keepSelection);
    if (age !== this.age || this.problem) return;
    if (keepSelection) for (const other of [...this.pages.keys()]) if (other !== page) this.pages.delete(other);
    // What is in sight may lie in two pages, and may have changed meanwhile.
    this.see(this.first, this.last);
  }

  private async fetch(page: number, anyway = false) {
    if (this.asked.has(page) && !anyway) return;
    this.asked.add(page);
    const age = this.age;
    try {
      const answer = await commands.ledger({
        states: this.states,
        folder: this.folder,
        lately: this.lately,
        text: this.text.trim(),
        sort: this.sort,
        descending: this.descending,
        offset: page * PAGE,
        limit: PAGE,
      });
      if (age !== this.age) return;
      this.total = answer.total;
      this.pages.set(page, answer.rows);
      this.problem = "";
      if (this.pages.size > KEPT) this.drop();
    } catch (error) {
      if (age === this.age) this.problem = sentence(error);
    }
    this.asked.delete(page);
    this.loaded = true;
    this.turn += 1;
  }

  private drop() {
    const middle = (this.first + this.last) / 2 / PAGE;
    const far = [...this.pages.keys()].sort((a, b) => Math.abs(b - middle) - Math.abs(a - middle))[0];
    if (far !== undefined) this.pages.delete(far);
  }
}
