import { mockIPC } from "@tauri-apps/api/mocks";
import { beforeEach, describe, expect, it } from "vitest";

import { Ledger } from "../../src/lib/ledger.svelte";

const TOTAL = 1000;
let replies: (() => void)[];

beforeEach(() => {
  replies = [];
  mockIPC((command, args) => {
    if (command !== "ledger") return undefined;
    const { offset, limit } = (args as { query: { offset: number; limit: number } }).query;
    const rows = Array.from({ length: Math.max(0, Math.min(limit, TOTAL - offset)) }, (_, at) => ({ id: offset + at }));
    return new Promise((resolve) => replies.push(() => resolve({ total: TOTAL, offset, rows })));
  });
});

/** Lets everything that was asked for come in, and what is asked for then. */
async function arrive() {
  for (let turn = 0; turn < 20; turn += 1) {
    for (const reply of replies.splice(0)) reply();
    await new Promise((resolve) => setTimeout(resolve));
  }
}

describe("the ledger", () => {
  it("shows both pages that are in sight after another filter", async () => {
    const ledger = new Ledger();
    ledger.see(0, 10);
    await arrive();
    // On its way when the filter changes: its answer is of no use any more.
    ledger.see(390, 410);
    void ledger.reload();
    await arrive();
    expect([ledger.total, ledger.row(390)?.id, ledger.row(399)?.id, ledger.row(400)?.id, ledger.row(410)?.id]).toEqual([TOTAL, 390, 399, 400, 410]);
  });

  it("shows what came into sight while it was asked anew", async () => {
    const ledger = new Ledger();
    void ledger.reload();
    ledger.see(0, 20);
    ledger.see(980, 999);
    await arrive();
    expect([ledger.row(980)?.id, ledger.row(999)?.id]).toEqual([980, 999]);
  });

  it("keeps old rows until new ones are there", async () => {
    const ledger = new Ledger();
    ledger.see(0, 20);
    await arrive();
    const again = ledger.reload(true);
    expect(ledger.row(5)?.id).toBe(5);
    await arrive();
    await again;
    expect(ledger.row(5)?.id).toBe(5);
  });

  it("asks for what is new, the latest first and of all folders, and goes back to all files", async () => {
    const queries: Record<string, unknown>[] = [];
    mockIPC((command, args) => {
      if (command === "ledger") queries.push((args as { query: Record<string, unknown> }).query);
      return { total: 0, offset: 0, rows: [] };
    });
    const ledger = new Ledger();
    Object.assign(ledger, { folder: 2, text: "old", states: ["failed"] });
    await ledger.showLately(true);
    expect(queries.at(-1)).toMatchObject({ lately: true, sort: "changed", descending: true, folder: null, text: "", states: [] });
    await ledger.showLately(false);
    expect(queries.at(-1)).toMatchObject({ lately: false, sort: "path", descending: false });
  });
});
