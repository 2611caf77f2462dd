// Search as you type: every key is a query of its own, and only the newest one is listened to.

import { app, failure } from "./app.svelte";
import { arrange, provisional } from "./arrange";
import { Channel, commands, type Failure, type FileTarget, type Hit, type Kind, type LayerTrace, type Notice, type Order, type SearchEvent, type SearchFilter } from "./bindings";
import { t } from "./strings";

export type SearchPhase = "idle" | "searching" | "reranking" | "settled" | "failed";

export type DateChoice = "any" | "week" | "month" | "year" | "between";

const DAY = 86_400;

/** Pixels of a row with two lines of its passage, at the usual text size; there may be shorter ones, and one peeps out below. */
const ROW_HEIGHT = 88;

/** Pixels of a list that has not been seen yet. */
const ROOM = 720;

/** What the bar of filters says; becomes a `SearchFilter` when a query is sent. */
export interface Filters {
  folders: string[];
  kinds: Kind[];
  /** As the person writes them, without `#`. */
  tags: string[];
  date: DateChoice;
  /** Days as `YYYY-MM-DD`, for `between`. */
  from: string;
  until: string;
  /** Names of shared libraries, and `home`; none: this computer's files alone. */
  libraries: string[];
}

export const NO_FILTERS: Filters = { folders: [], kinds: [], tags: [], date: "any", from: "", until: "", libraries: [] };

/** Tags as they are typed, with commas between them; signs before them are not theirs. */
export function toTags(text: string): string[] {
  const tags = text.split(",").map((it) => it.trim().replace(/^#+|\/+$/g, ""));
  return [...new Set(tags.filter((it) => it !== ""))];
}

/** Seconds at the beginning of a local day; `null` for no day. */
function dayStart(day: string, plus = 0): number | null {
  const [year, month, date] = day.split("-").map(Number);
  if (!year || !month || !date) return null;
  return Math.floor(new Date(year, month - 1, date + plus).getTime() / 1000);
}

export function toFilter(filters: Filters, now: number): SearchFilter {
  const back = { any: 0, week: 7, month: 31, year: 366, between: 0 }[filters.date];
  const between = filters.date === "between";
  return {
    folders: filters.folders,
    kinds: filters.kinds,
    tags: filters.tags,
    modifiedFrom: between ? dayStart(filters.from) : back ? now - back * DAY : null,
    modifiedUntil: between ? dayStart(filters.until, 1) : null,
    libraries: filters.libraries,
  };
}

class Search {
  text = $state("");
  filters = $state.raw<Filters>(NO_FILTERS);
  phase = $state<SearchPhase>("idle");
  /** Rows on screen, in the order they are shown in. */
  rows = $state.raw<Hit[]>([]);
  /** Rows that are built: those on screen, or, while there are none, the last ones. They are out of sight then and wait for the
      next query's first hits, for which building rows would cost more than the search. */
  built = $state.raw<Hit[]>([]);
  /** Query of the rows: what is typed may be ahead of it. */
  shownFor = $state("");
  selected = $state<number | null>(null);
  /** Chunks that are in the result for certain. */
  accepted = $state.raw<ReadonlySet<number>>(new Set());
  dropped = $state.raw<ReadonlySet<number>>(new Set());
  order = $state.raw<Order | null>(null);
  notices = $state.raw<Notice[]>([]);
  firstMs = $state(0);
  settledMs = $state(0);
  layer = $state.raw<{ at: number; of: number } | null>(null);
  computedShare = $state<number | null>(null);
  /** Layers of the run as they come, for the pipeline panel; `null` before and after. */
  live = $state.raw<LayerTrace[] | null>(null);
  /** Rises when a search has ended: who shows its trace asks for it. */
  ended = $state(0);
  problem = $state.raw<Failure | null>(null);
  menuOpen = $state(false);
  whyFor = $state<number | null>(null);

  /** Height of the list in pixels; 0 while it is hidden. */
  room = $state(ROOM);
  /** The row under the pointer, while the pointer is in the list. */
  private pointed: number | null = null;
  /** The person has moved the selection since the query. */
  private moved = false;
  private id = 0;
  /** Elements of the list, by the chunk they show: those of hits that have gone are used for others. */
  private seats = new Map<number, number>();
  private lastSeat = 0;
  /** The hits as they came: rows that are these very ones have not changed places. */
  found: Hit[] = [];
  private wanted: Hit[] = [];
  private fused: number[] = [];
  private acceptedOrder: number[] = [];
  private keyAt = 0;
  private last = "";
  /** More was indexed since the search began. */
  private more = false;
  /** Nothing of it has come yet. */
  private waiting = false;

  hit = $derived(this.rows.find((it) => it.chunk === this.selected) ?? null);
  filtered = $derived(
    this.filters.folders.length > 0 || this.filters.kinds.length > 0 || this.filters.tags.length > 0 || this.filters.date !== "any" || this.filters.libraries.length > 0,
  );

  /** A key was pressed. */
  type(text: string) {
    this.text = text;
    this.keyAt = window.performance.now();
    this.run();
  }

  filter(patch: Partial<Filters>) {
    this.filters = { ...this.filters, ...patch };
    this.run(true);
  }

  /** Searches for what is in the box, unless that is what was searched for last. */
  run(again = false) {
    const text = this.text.trim();
    if (text === this.last && !again) return;
    this.last = text;
    this.more = false;
    this.waiting = true;
    this.id += 1;
    const id = this.id;
    if (!text) {
      this.clear();
      void commands.stopSearch().catch(() => undefined);
      return;
    }
    if (this.phase === "idle" || this.phase === "failed") this.phase = "searching";
    const events = new Channel<SearchEvent>();
    events.onmessage = (event) => {
      if (id === this.id) this.hear(event, text);
    };
    const filter = toFilter(this.filters, Math.floor(Date.now() / 1000));
    const first = Math.ceil((this.room || ROOM) / ROW_HEIGHT);
    commands.search({ id, text, filter, first }, events).catch((error: unknown) => {
      if (id === this.id) this.hear({ event: "failed", query: id, failure: failure(error) }, text);
    });
  }

  /** More was indexed: what has found nothing is searched for again. */
  refreshed() {
    this.more = true;
    this.again();
  }

  /** What has ended without a hit is searched for once more, if more was indexed since it began. */
  private again() {
    if (this.more && !this.waiting && this.phase === "settled" && this.rows.length === 0 && this.last) this.run(true);
  }

  private clear() {
    this.live = null;
    this.phase = "idle";
    this.put([]);
    this.selected = null;
    this.shownFor = "";
    this.notices = [];
    this.order = null;
    this.problem = null;
    this.layer = null;
  }

  hear(event: SearchEvent, text: string) {
    this.waiting = false;
    switch (event.event) {
      case "firstHits":
        this.begin(event.hits, text);
        this.order = event.order;
        this.notices = event.notices;
        this.firstMs = event.ms;
        this.phase = event.reranking ? "reranking" : "settled";
        this.noteKey();
        this.again();
        break;
      case "moreHits":
        this.wanted = [...this.wanted, ...event.hits];
        this.fused = this.wanted.map((it) => it.chunk);
        this.found = [...this.rows, ...event.hits];
        this.put(this.found);
        break;
      case "layer":
        this.onLayer(event.layer, event.layers, event.accepted, event.dropped);
        this.live = [...(this.live ?? []), event.trace];
        break;
      case "settled":
        this.wanted = event.hits;
        this.accepted = new Set(event.hits.map((it) => it.chunk));
        this.dropped = new Set();
        this.order = event.order;
        this.notices = event.notices;
        this.settledMs = event.ms;
        this.computedShare = event.computedShare;
        this.phase = "settled";
        this.layer = null;
        this.show(event.hits.map((it) => it.chunk));
        this.live = null;
        this.ended += 1;
        this.again();
        break;
      case "failed":
        if (event.failure.code === "cancelled") break;
        this.clear();
        this.problem = event.failure;
        this.phase = "failed";
        break;
      case "cancelled":
        break;
    }
  }

  private begin(hits: Hit[], text: string) {
    this.wanted = hits;
    this.live = null;
    this.fused = hits.map((it) => it.chunk);
    this.acceptedOrder = [];
    this.accepted = new Set();
    this.dropped = new Set();
    this.layer = null;
    this.computedShare = null;
    this.settledMs = 0;
    this.problem = null;
    this.shownFor = text;
    this.moved = false;
    this.found = hits;
    this.put(hits);
    this.selected = hits[0]?.chunk ?? null;
  }

  /** Makes these the rows. A row that stays keeps its element; one that comes takes that of one that goes, which costs
      the page a fraction of a new one. */
  private put(rows: Hit[]) {
    this.rows = rows;
    if (rows.length === 0) return;
    const stays = new Set(rows.map((it) => it.chunk));
    const free = this.built.flatMap((it) => (stays.has(it.chunk) ? [] : [this.seats.get(it.chunk) ?? 0])).reverse();
    this.seats = new Map(rows.map(({ chunk }) => [chunk, this.seats.get(chunk) ?? free.pop() ?? ++this.lastSeat]));
    this.built = rows;
  }

  /** The element that shows a row. */
  seat(hit: Hit): number {
    return this.seats.get(hit.chunk) ?? 0;
  }

  private onLayer(layer: number, layers: number, accepted: number[], dropped: number[]) {
    // A model that ranks in the place of a server has layers that nobody has counted before.
    this.layer = { at: layer, of: Math.max(layer, layers) };
    if (accepted.length === 0 && dropped.length === 0) return;
    this.acceptedOrder.push(...accepted);
    this.accepted = new Set(this.acceptedOrder);
    this.dropped = new Set([...this.dropped, ...dropped]);
    this.show(provisional(this.fused, this.acceptedOrder, this.dropped));
  }

  /** Brings the rows into an order, around the one that must not move. */
  private show(order: number[]) {
    const pinned = this.pointed ?? (this.moved ? this.selected : null);
    const place = this.rows.findIndex((it) => it.chunk === pinned);
    const known = new Map([...this.rows, ...this.wanted].map((it) => [it.chunk, it]));
    this.put(arrange(order, pinned, place).flatMap((it) => known.get(it) ?? []));
    const there = this.rows.some((it) => it.chunk === this.selected);
    if (!there || !this.moved) this.selected = this.rows[0]?.chunk ?? null;
  }

  /** The pointer is on a row, or has left the list; then the row that was held goes to its own place. */
  point(chunk: number | null) {
    const released = this.pointed !== null && chunk === null;
    this.pointed = chunk;
    if (released && this.phase === "settled") this.show(this.wanted.map((it) => it.chunk));
  }

  /** Tells the shell how long the rows took, from the key to the frame that shows them. */
  private noteKey() {
    const at = this.keyAt;
    if (!at) return;
    this.keyAt = 0;
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => {
        channel.port1.close();
        void commands.noteFirstHits(window.performance.now() - at).catch(() => undefined);
      };
      channel.port2.postMessage(null);
    });
  }

  select(chunk: number) {
    this.selected = chunk;
    this.moved = true;
  }

  move(by: number) {
    if (this.rows.length === 0) return;
    const at = this.rows.findIndex((it) => it.chunk === this.selected);
    const next = this.rows[Math.max(0, Math.min(this.rows.length - 1, at + by))];
    if (next) this.select(next.chunk);
  }

  target(): FileTarget | null {
    return this.hit ? { kind: "chunk", chunk: this.hit.chunk } : null;
  }

  open(target = this.target()) {
    if (target) void app.try(() => commands.openFile(target));
  }

  reveal(target = this.target()) {
    if (target) void app.try(() => commands.revealFile(target));
  }

  copyPath(path = this.hit?.file.path) {
    if (path) void app.try(() => navigator.clipboard.writeText(path).then(() => app.say(t.search.copied, "good")));
  }
}

export const search = new Search();
