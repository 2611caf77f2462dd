import { mockIPC } from "@tauri-apps/api/mocks";
import { beforeEach, describe, expect, it } from "vitest";

import type { Hit, SearchEvent } from "../../src/lib/bindings";
import { NO_FILTERS, search, toFilter, toTags } from "../../src/lib/search.svelte";

interface Call {
  id: number;
  text: string;
  send: (event: Partial<SearchEvent> & { event: string }) => void;
}

let calls: Call[];
let commands: string[];

function hit(chunk: number, rank: number): Hit {
  return {
    rank,
    chunk,
    file: { path: `/d/${chunk}.md`, name: `${chunk}.md`, folder: "/d", kind: "markdown", bytes: 1, modified: 0 },
    title: `${chunk}`,
    heading: "",
    snippet: [],
    location: { kind: "whole", start: null, end: null, part: "", label: "" },
    score: 0,
    ranks: { bm25: null, vector: null, terms: null, fused: rank, decidedAtLayer: null },
    alsoIn: [],
    versions: [],
    library: null,
    here: null, ocrConfidence: null,
  };
}
const hits = (...chunks: number[]) => chunks.map((chunk, index) => hit(chunk, index + 1));
const first = (chunks: Hit[], reranking = true) => ({ event: "firstHits", hits: chunks, order: { kind: "fused" }, notices: [], ms: 5, reranking }) as never;
const layer = (number: number, accepted: number[], dropped: number[] = []) => ({ event: "layer", layer: number, layers: 6, active: 1, accepted, dropped }) as never;
const settled = (chunks: Hit[]) => ({ event: "settled", hits: chunks, order: { kind: "reranked", model: "m" }, notices: [], ms: 50, layersRun: 6, computedShare: 0.5 }) as never;
const shown = () => search.rows.map((it) => it.chunk);

beforeEach(() => {
  calls = [];
  commands = [];
  mockIPC((command, args) => {
    commands.push(command);
    if (command === "search") {
      const { query, events } = args as unknown as { query: { id: number; text: string }; events: { onmessage: Call["send"] } };
      calls.push({ id: query.id, text: query.text, send: (event) => events.onmessage(event) });
    }
    return null;
  });
  search.point(null);
  search.type("");
  search.filters = NO_FILTERS;
});

describe("search as you type", () => {
  it("keeps the element of a row that stays, and gives that of one that goes to one that comes", () => {
    const seats = () => search.rows.map((it) => search.seat(it));
    search.type("a");
    calls[0]?.send(first(hits(1, 2, 3)));
    const [one, two, three] = seats();
    search.type("ab");
    calls[1]?.send(first(hits(3, 4, 1, 5)));
    expect(seats()).toEqual([three, two, one, seats()[3]]);
    expect(new Set(seats()).size).toBe(4);
    calls[1]?.send(settled(hits(4, 6, 3)));
    expect(shown()).toEqual([4, 6, 3]);
    expect(seats()[0]).toBe(two);
    expect(seats()[2]).toBe(three);
    expect(new Set(seats()).size).toBe(3);
  });

  it("puts what does not fit on the screen below the first rows, whatever was chosen meanwhile", () => {
    search.type("a");
    calls[0]?.send(first(hits(1, 2)));
    search.move(1);
    calls[0]?.send({ event: "moreHits", hits: [hit(3, 3), hit(4, 4)] } as never);
    expect(shown()).toEqual([1, 2, 3, 4]);
    expect(search.selected).toBe(2);
    // Those from below may be accepted first.
    calls[0]?.send(layer(1, [4]));
    expect(shown()).toEqual([4, 2, 1, 3]);
    calls[0]?.send(settled(hits(4, 3, 2)));
    expect(shown()).toEqual([4, 2, 3]);
  });

  it("listens to the newest query only", () => {
    search.type("a");
    search.type("ab");
    expect(calls.map((it) => it.text)).toEqual(["a", "ab"]);
    expect(calls[1]?.id).toBeGreaterThan(calls[0]?.id ?? 0);
    calls[0]?.send(first(hits(1)));
    expect(shown()).toEqual([]);
    calls[1]?.send(first(hits(2, 3)));
    expect(shown()).toEqual([2, 3]);
    expect(search.selected).toBe(2);
  });

  it("asks nothing twice and stops when the box is emptied", () => {
    search.type("a");
    search.type("a ");
    expect(calls).toHaveLength(1);
    search.type("");
    expect(commands.at(-1)).toBe("stop_search");
    expect(search.phase).toBe("idle");
  });

  it("searches again for what it has not found when more was indexed", () => {
    search.type("a");
    calls[0]?.send(first([], false));
    search.refreshed();
    expect(calls).toHaveLength(2);
    // The index grew while it was looked at: the answer is of the one before.
    search.refreshed();
    expect(calls).toHaveLength(2);
    calls[1]?.send(first([], false));
    expect(calls).toHaveLength(3);
    calls[2]?.send(first(hits(1), false));
    search.refreshed();
    expect(calls).toHaveLength(3);
    expect(shown()).toEqual([1]);
  });

  it("moves winners up as they are accepted, then takes the final order", () => {
    search.type("a");
    calls[0]?.send(first(hits(1, 2, 3, 4)));
    calls[0]?.send(layer(2, [3], [1]));
    expect(shown()).toEqual([3, 2, 4, 1]);
    expect(search.phase).toBe("reranking");
    calls[0]?.send(settled(hits(3, 4, 2)));
    expect(shown()).toEqual([3, 4, 2]);
    expect(search.phase).toBe("settled");
  });

  it("never moves the row under the pointer, until the pointer leaves", () => {
    search.type("a");
    calls[0]?.send(first(hits(1, 2, 3, 4)));
    search.point(2);
    calls[0]?.send(settled(hits(4, 3, 2, 1)));
    expect(shown().indexOf(2)).toBe(1);
    search.point(null);
    expect(shown()).toEqual([4, 3, 2, 1]);
  });

  it("never moves the row that was chosen by keys", () => {
    search.type("a");
    calls[0]?.send(first(hits(1, 2, 3)));
    search.move(1);
    expect(search.selected).toBe(2);
    calls[0]?.send(settled(hits(3, 1, 2)));
    expect(search.selected).toBe(2);
    expect(shown().indexOf(2)).toBe(1);
  });

  it("selects another row when the chosen one is not in the result", () => {
    search.type("a");
    calls[0]?.send(first(hits(1, 2)));
    search.move(1);
    calls[0]?.send(settled(hits(1)));
    expect(search.selected).toBe(1);
  });

  it("stays within the rows", () => {
    search.move(1);
    expect(search.selected).toBeNull();
    search.type("a");
    calls[0]?.send(first(hits(1, 2)));
    search.move(-5);
    expect(search.selected).toBe(1);
    search.move(99);
    expect(search.selected).toBe(2);
  });

  it("keeps what is there when a query was cancelled, and tells when one failed", () => {
    search.type("a");
    calls[0]?.send(first(hits(1)));
    calls[0]?.send({ event: "failed", failure: { code: "cancelled", message: "" } } as never);
    expect(shown()).toEqual([1]);
    calls[0]?.send({ event: "failed", failure: { code: "other", message: "The index is damaged." } } as never);
    expect([search.phase, search.problem?.message]).toEqual(["failed", "The index is damaged."]);
  });
});

describe("filters", () => {
  it("become whole days in local time", () => {
    const filter = toFilter({ ...NO_FILTERS, date: "between", from: "2025-03-02", until: "2025-03-02" }, 0);
    expect((filter.modifiedUntil ?? 0) - (filter.modifiedFrom ?? 0)).toBe(86_400);
    expect(toFilter({ ...NO_FILTERS, date: "between", from: "", until: "nonsense" }, 0)).toMatchObject({ modifiedFrom: null, modifiedUntil: null });
    expect(toFilter({ ...NO_FILTERS, date: "week" }, 10 * 86_400).modifiedFrom).toBe(3 * 86_400);
    expect(toTags(" #Project/Boat/, invoices,, #, #invoices")).toEqual(["Project/Boat", "invoices"]);
    expect(toFilter({ ...NO_FILTERS, tags: ["boat"] }, 5).tags).toEqual(["boat"]);
    expect(toFilter(NO_FILTERS, 5)).toEqual({ folders: [], kinds: [], tags: [], modifiedFrom: null, modifiedUntil: null, libraries: [] });
  });
});
