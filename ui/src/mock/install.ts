// The shell's commands, played for browser tests and screenshots. `?mock=busy,hostile` chooses scenes; tests reach
// the rest over `window.mock`. Not part of the app: only the build of mode `mock` has it.

import { mockIPC } from "@tauri-apps/api/mocks";

import type { Added, Advice, Answer, AppEvent, DoorClient, DoorMay, DoorState, Failure, FailureCode, Folder, Gate, Hit, KeptAnswers, KeyPlace, LayerTrace, LedgerRow, LibraryState, MeaningLimits, ModelEvent, ModelKind, ModelPlan, Models, ModelSource, ModelTrial, Notice, PipelineTrace, PreviewTable, PushEvent, Queue, Rule, Scans, SearchEvent, SearchFilter, SeenLine, Settings, SettingsState, SharedLibrary, SharedLook, Span, State, StateCount, ThreadSummary, TrialEvent, Verdict, WhichScans } from "../lib/bindings";
import { mark, terms } from "../lib/marks";
import { t } from "../lib/strings";
import { curve, decide, find, hit, LAYERS, replay, scores, TOP_K, trace, understood, type Found } from "./engine";
import { addDocumentTable, addFilm, addHostile, addSheet, DELIVERIES, files, passages, ROOT, type MockPassage } from "./files";

const PDF = new URL("../../../assets/sample-library/boat/hull-survey-2025.pdf", import.meta.url).href;
const RERANKER = "riddle-reranker-mini";

interface Sender<T> {
  onmessage: (message: T) => void;
}

const GIB = 2 ** 30;

const scenes = new Set((new URLSearchParams(window.location.search).get("mock") ?? "").split(",").filter(Boolean));
const query = new URLSearchParams(window.location.search);
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => Math.floor(Date.now() / 1000);
const fail = (code: FailureCode, message: string, advice: Advice | null = null) => Promise.reject({ code, message, advice } satisfies Failure);

/** Language models: with the scene `local` the first answers from memory, with `large` the second from the disk. */
const WRITERS: Models["installed"] = [
  { name: "Qwen3-1.7B-Q4_K_M", kind: "llm", bytes: 1_107_409_152, license: "Apache-2.0", source: "Qwen/Qwen3-1.7B-GGUF", active: false, writes: true, elsewhere: false, problem: null, server: false },
  { name: "Qwen3-14B-Q5_K_M", kind: "llm", bytes: 10_514_569_312, license: "Apache-2.0", source: "Qwen/Qwen3-14B-GGUF", active: false, writes: true, elsewhere: false, problem: null, server: false },
];
/** What other programs keep on this computer. */
const KEPT: Models["installed"] = [
  { name: "ollama:llama3.2:3b", kind: "llm", bytes: 2_019_377_376, license: "LLAMA 3.2 COMMUNITY LICENSE AGREEMENT", source: "Ollama", active: false, writes: true, elsewhere: true, problem: null, server: false },
  { name: "ollama:nomic-embed-text:latest", kind: "llm", bytes: 274_290_656, license: "Apache License", source: "Ollama", active: false, writes: false, elsewhere: true, problem: { message: 'the architecture "nomic-bert" is not supported', advice: null }, server: false },
];
const WRITER = scenes.has("local") ? WRITERS[0] : scenes.has("large") ? WRITERS[1] : undefined;

let appEvents: Sender<AppEvent> | undefined;
let searchId = 0;
let stopped = 0;
let last: { text: string; found: Found[]; all: number[][]; trace: PipelineTrace } | undefined;
const calls: { command: string; args: unknown }[] = [];

let settings: Settings = {
  theme: (query.get("theme") as Settings["theme"]) ?? "system",
  textSize: Number(query.get("text") ?? 100),
  language: query.get("language") ?? "system",
  startAtLogin: false,
  tray: true,
  shortcut: "Ctrl+Alt+Space",
  offline: false,
  keepHistory: true,
  unloadAfter: 60,
  llm: scenes.has("remote") ? "remote" : WRITER ? `local:${WRITER.name}` : "extractive",
  local: { memoryBudget: scenes.has("large") ? 4 * GIB : null, contextTokens: null, draft: "lookup", order: "ranked" },
  remote: { url: scenes.has("far") ? "https://api.example.org/v1" : "http://localhost:11434/v1", model: "qwen3:4b", contextTokens: 8192, allowed: false },
  results: 10,
  candidates: scenes.has("nobody") ? 10 : 24,
  rerank: { mode: "set", pruning: scenes.has("precise") ? { kind: "precision", precision: 0.98 } : { kind: "threshold", threshold: 0.32 }, window: 2, microBatchTokens: null, rowShare: null, memoryBudget: 250_000_000, deadlineMs: null, preloadBytes: null },
};

let keyPlace: KeyPlace = "none";

const gateStart: Gate = scenes.has("locked") ? { kind: "locked", byPassphrase: !scenes.has("keyring") } : scenes.has("encrypting") ? { kind: "encrypt" } : scenes.has("decrypting") ? { kind: "decrypt", byPassphrase: true } : { kind: "open" };
let gateOpen = gateStart.kind === "open";
let encrypted = scenes.has("sealed") || gateStart.kind === "locked" || gateStart.kind === "decrypt";

function endpointOf(url: string): SettingsState["endpoint"] {
  const parsed = /^https?:\/\/[^/\s]+/.test(url) ? new URL(url) : null;
  if (!parsed) return { origin: "", local: false, problem: `${JSON.stringify(url)} is not the address of an endpoint: give http://HOST:PORT/v1 or https://HOST/v1` };
  return { origin: parsed.origin, local: ["localhost", "127.0.0.1", "[::1]"].includes(parsed.hostname), problem: null };
}

const settingsState = (): SettingsState => ({
  settings,
  endpoint: endpointOf(settings.remote.url),
  problems: scenes.has("error") ? [{ setting: "shortcut", fault: { kind: "system", message: "Another program has this shortcut. Choose another one." } }] : [],
  wayland: scenes.has("wayland"),
  toggleCommand: "riddle toggle",
});

// ---- Library -----------------------------------------------------------------------------------------

const STATES: State[] = ["indexed", "pending", "noText", "cloudOnly", "tooLarge", "unsupported", "failed", "excluded"];
let door: DoorState = {
  url: null,
  tokenFile: "/home/jo/.local/share/riddle/doors.token",
  tools: ["search", "read", "answer", "check_claims", "rerank", "status", "embed"],
  clients: [
    { name: "cursor", since: 1_760_000_000, revoked: false, hasToken: false, may: { tools: ["search", "read", "status"], folders: ["/home/jo/Documents"], withConfined: false }, readsAs: null, lastAsked: 1_763_000_000 },
    { name: "old script", since: 1_750_000_000, revoked: true, hasToken: true, may: { tools: [], folders: [], withConfined: false }, readsAs: null, lastAsked: null },
  ],
  log: [
    { at: 1_763_000_000, client: "cursor", known: true, what: "search", asked: "winter mooring cost", passages: 8, ms: 142, outcome: "answered" },
    { at: 1_762_999_000, client: "python-requests/2.32", known: false, what: "/api/search", asked: null, passages: 0, ms: 0, outcome: "refused" },
    { at: 1_762_998_000, client: "cursor", known: true, what: "rerank", asked: null, passages: 0, ms: 3, outcome: "refused" },
  ],
};
const doorClient = (name: string, change: (it: DoorClient) => DoorClient | null): DoorState => (door = { ...door, clients: door.clients.flatMap((it) => (it.name === name ? (change(it) ?? []) : it)) });

let shared: SharedLibrary[] = scenes.has("shared")
  ? [
      { name: "archive", address: "milvuss://vault.example.org:19530/archive", origin: "https://vault.example.org:19530", pushedAt: null, key: { place: "kept", problem: null }, folders: [], originals: null },
      { name: "new", address: "milvus://127.0.0.1:19530/new", origin: "http://127.0.0.1:19530", pushedAt: null, key: { place: "none", problem: null }, folders: [], originals: null },
      { name: "team", address: "milvus://box:19530/team", origin: "http://box:19530", pushedAt: 1_763_000_000, key: { place: "none", problem: null }, folders: [{ there: "/srv/team/plans", here: "/mnt/plans" }], originals: null },
    ]
  : [];
const NOTHING_THERE: SharedLook = { files: 0, passages: 0, embedder: null, writers: [], writtenAt: null, unfinished: false, withRights: false, problem: null };
const SHARED_LOOKS: Record<string, SharedLook> = {
  archive: { ...NOTHING_THERE, problem: { message: "https://vault.example.org:19530 can not be reached (connection refused)", advice: { kind: "checkLibraryServer" } } },
  team: {
    files: 18_204,
    passages: 231_077,
    embedder: "all-MiniLM-L6-v2/int8",
    writers: [
      { key: "0a1b2c3d4e5f6071", machine: "desk", own: false, files: 18_000, passages: 230_000, writtenAt: 1_763_000_000, unfinished: false, folders: ["/srv/team/minutes", "/srv/team/plans"], originals: "https://box:9000/files" },
      { key: "9f8e7d6c5b4a3021", machine: "this one", own: true, files: 204, passages: 1_077, writtenAt: 1_762_990_000, unfinished: true, folders: ["/home/mira/papers"], originals: null },
    ],
    writtenAt: 1_763_000_000,
    unfinished: true,
    withRights: false,
    problem: null,
  },
};
let stopPush = false;

function pushShared(name: string, events: Sender<PushEvent>) {
  stopPush = false;
  if (name === "team" && !scenes.has("mine")) {
    setTimeout(() => events.onmessage({ event: "failed", failure: { code: "other", message: "the library at milvus://box:19530/team is written from desk, too", advice: { kind: "takeLibraryOver" } } }), 40);
    return;
  }
  let done = 0;
  const timer = setInterval(() => {
    done += 1;
    if (!stopPush && done < 20) {
      events.onmessage({ event: "progress", done, total: 20 });
      return;
    }
    clearInterval(timer);
    SHARED_LOOKS[name] = { ...NOTHING_THERE, files: done, passages: 9 * done, embedder: "all-MiniLM-L6-v2/int8", writers: [{ key: "9f8e7d6c5b4a3021", machine: "this one", own: true, files: done, passages: 9 * done, writtenAt: 1_763_000_000, unfinished: stopPush, folders: [], originals: null }], writtenAt: 1_763_000_000, withRights: true, unfinished: stopPush };
    events.onmessage({ event: "done", report: { written: done, unchanged: 0, deleted: 0, heldBack: 2, originals: null, passages: 9 * done, resumed: false, interrupted: stopPush, seconds: 1.2 } });
  }, scenes.has("hold") ? 5000 : 40);
}

let rules: Rule[] = [{ folder: null, pattern: "node_modules/" }, { folder: 1, pattern: "*.bak" }];
let phase: LibraryState["phase"] = scenes.has("busy") ? "reading" : scenes.has("looking") ? "looking" : scenes.has("paused") ? "paused" : "watching";
let done = scenes.has("busy") || scenes.has("paused") ? 6214 : 0;

let folders: Folder[] =
  scenes.has("first") || scenes.has("empty")
    ? []
    : [
        { id: 1, path: ROOT, name: "Documents", present: true, confined: false, lookedAtEvery: null, removable: false, counts: [] },
        { id: 2, path: "/media/mira/BOAT-STICK", name: "BOAT-STICK", present: !scenes.has("error"), confined: true, lookedAtEvery: null, removable: true, counts: [] },
        ...(scenes.has("share") ? [{ id: 3, path: "/mnt/guild", name: "guild", present: true, confined: false, lookedAtEvery: 5, removable: false, counts: [] }] : []),
      ];

const ODD: [string, string, State, string, number][] = [
  ["scans/boat-licence-2019.pdf", "pdf", "noText", "no text layer: probably a scan", 2_406_113],
  ["scans/insurance-letter.pdf", "pdf", "noText", "no text layer: probably a scan", 884_120],
  ["video/blackthorn-tunnel.mp4", "other", "unsupported", "no parser for this format", 61_204_992],
  ["backup/phone-2024.zip", "other", "tooLarge", "larger than the limit of 64 MiB", 812_331_008],
  ["cloud/wedding-cake-orders.xlsx", "spreadsheet", "cloudOnly", "its bytes are in the cloud", 44_032],
  ["letters/old/damaged.docx", "document", "failed", "the parser gave up: word/document.xml ends in the middle", 18_231],
  ["boat/engine-parts.pdf", "pdf", "failed", "parsing took longer than 30 seconds", 9_812_004],
  ["bakery/node_modules/left-pad/index.js", "code", "excluded", 'rule "node_modules/" in excluded patterns', 812],
  ["browsers/firefox/places.sqlite", "history", "excluded", "browsing history: it is read when you allow it in the settings", 10_485_760],
  ["home/tax-2023.bak", "other", "excluded", 'rule "*.bak" in excluded patterns', 120_032],
];

const NAMES = ["logbook", "invoice", "orders", "recipe", "letter", "survey", "notes", "photo-list", "minutes", "delivery", "lock-times", "mooring", "flour", "engine"];
const ENDS: [string, LedgerRow["file"]["kind"]][] = [["md", "markdown"], ["pdf", "pdf"], ["txt", "text"], ["eml", "mail"], ["csv", "spreadsheet"], ["docx", "document"], ["py", "code"], ["html", "html"]];

function generated(index: number): LedgerRow {
  const [end, kind] = ENDS[index % ENDS.length] ?? ["txt", "text"];
  const name = `${NAMES[index % NAMES.length]}-${String(2004 + (index % 22))}-${String(index).padStart(6, "0")}.${end}`;
  const folder = `archive/${2004 + (index % 22)}`;
  const state: State = index % 997 === 5 ? "failed" : index % 41 === 3 ? "noText" : done > 0 && index > done ? "pending" : "indexed";
  return {
    id: 1000 + index,
    file: { path: `${ROOT}/${folder}/${name}`, name, folder: `~/Documents/${folder}`, kind, bytes: 900 + ((index * 7919) % 240_000), modified: now() - index * 3600 },
    state,
    reason: state === "failed" ? "parsing needed more than 512 MiB of memory" : state === "noText" ? "no text layer: probably a scan" : "",
    passages: state === "indexed" ? 1 + (index % 23) : 0,
    warnings: [],
    changed: state === "indexed" ? now() - 30 * 86_400 - index : null,
  };
}

/** Files that are new or have changed, the latest first. */
const LATELY = scenes.has("quiet") ? [] : ["orders.csv", "logbook-2025.md", "electrics.md"];
const isLate = (row: LedgerRow) => row.changed !== null && row.changed >= now() - 7 * 86_400;

let ledgerRows: LedgerRow[] | undefined;
function ledger(): LedgerRow[] {
  if (ledgerRows) return ledgerRows;
  if (folders.length === 0) return [];
  const own = files.map((it): LedgerRow => ({ id: it.id, file: it.ref, state: "indexed", reason: "", passages: it.passages.length, warnings: [], changed: LATELY.includes(it.ref.name) ? now() - 3600 * (1 + LATELY.indexOf(it.ref.name)) : now() - 30 * 86_400 }));
  const odd = ODD.map(([path, kind, state, reason, bytes], index): LedgerRow => ({
    id: 500 + index,
    file: { path: `${ROOT}/${path}`, name: path.slice(path.lastIndexOf("/") + 1), folder: `~/Documents/${path.slice(0, path.lastIndexOf("/"))}`, kind: kind as LedgerRow["file"]["kind"], bytes, modified: now() - 86_400 * (40 + index) },
    state,
    reason,
    passages: 0,
    warnings: [],
    changed: null,
  }));
  const many = scenes.has("big") ? 100_000 : scenes.has("busy") || scenes.has("paused") ? 18_250 : 0;
  ledgerRows = [...own, ...odd, ...Array.from({ length: many }, (_, index) => generated(index))];
  return ledgerRows;
}

function counts(rows: LedgerRow[]): StateCount[] {
  return STATES.map((state) => ({ state, count: rows.filter((it) => it.state === state).length })).filter((it) => it.count > 0);
}

type Counted = { rows: LedgerRow[]; counts: StateCount[]; kinds: LibraryState["kinds"]; lately: number };
let cachedCounts: Counted | undefined;
function counted(): Counted {
  const rows = ledger();
  if (cachedCounts?.rows !== rows) cachedCounts = { rows, counts: counts(rows), kinds: kindCounts(rows), lately: rows.filter(isLate).length };
  return cachedCounts;
}
const allCounts = () => counted().counts;

function kindCounts(rows: LedgerRow[]): LibraryState["kinds"] {
  const kinds = new Map<LedgerRow["file"]["kind"], number>();
  for (const row of rows) if (row.state === "indexed") kinds.set(row.file.kind, (kinds.get(row.file.kind) ?? 0) + 1);
  return [...kinds].map(([kind, count]) => ({ kind, count })).sort((a, b) => b.count - a.count);
}

let meaningLimits: MeaningLimits = { cpu: 100, onBattery: false };
let whichScans: WhichScans = "new";
let readsBrowsing = false;

function scans(): Scans {
  const waiting = scenes.has("looking") || scenes.has("queue") ? 83 : 0;
  const leftOut = whichScans === "all" ? 0 : 412;
  return { which: whichScans, installed: !scenes.has("noreader"), read: 37, waiting: whichScans === "all" ? waiting + 412 : waiting, secondsLeft: 3 * (whichScans === "all" ? waiting + 412 : waiting), leftOut, leftOutSeconds: 3 * leftOut };
}

function queue(): Queue {
  if (folders.length === 0) return { files: [], prose: 0, tables: 0, tooLarge: 0 };
  const tooLarge = counted().counts.find((it) => it.state === "tooLarge")?.count ?? 0;
  if (scenes.has("queue")) return { files: [], prose: 1204, tables: 3811, tooLarge };
  const rest = scenes.has("busy") || scenes.has("paused") ? Math.max(0, 18_276 - done) : 0;
  const share = (part: number) => Math.round(rest * part);
  const kinds: Queue["files"] = [{ kind: "pdf", count: share(0.4) }, { kind: "markdown", count: share(0.3) }, { kind: "mail", count: share(0.2) }, { kind: "spreadsheet", count: rest - share(0.4) - share(0.3) - share(0.2) }];
  return { files: kinds.filter((it) => it.count > 0), prose: phase === "paused" ? 700 : 0, tables: phase === "paused" ? 244 : 0, tooLarge };
}

function library(): LibraryState {
  const all = allCounts();
  const busy = phase === "reading" || phase === "paused";
  return {
    shared: shared.map((it) => it.name),
    folders: folders.map((it) => ({ ...it, counts: it.id === 1 ? all : [{ state: "indexed", count: it.id === 2 ? 42 : 0 }] })),
    counts: all,
    kinds: counted().kinds,
    lately: { days: 7, files: counted().lately },
    queue: queue(),
    passages: scenes.has("big") ? 1_204_331 : passages().length,
    meaning: folders.length === 0 ? null : scenes.has("queue") ? { passages: 21_600, done: 16_585, wordsAlone: 44, keptHere: 0, waiting: scenes.has("battery") ? "battery" : null, secondsLeft: 2210 } : { passages: 1600, done: phase === "paused" ? 656 : 1600, wordsAlone: 44, keptHere: 0, waiting: scenes.has("battery") ? "battery" : null, secondsLeft: phase === "paused" ? 720 : null },
    meaningLimits,
    scans: scans(),
    readsBrowsing,
    phase: folders.length === 0 ? "empty" : phase,
    progress: phase === "looking" ? { done: 37, total: 120, perSecond: 0, secondsLeft: null, failed: 0, current: "" } : busy && folders.length > 0 ? { done, total: 18_276, perSecond: phase === "paused" ? 0 : 41.7, secondsLeft: phase === "paused" ? null : (18_276 - done) / 41.7, failed: 3, current: `${ROOT}/archive/2011/lock-times-2011-${String(done).padStart(6, "0")}.md` } : null,
    indexBytes: folders.length === 0 ? { catalog: 0, keyword: 0, vector: 0, terms: 0 } : { catalog: 1_482_752, keyword: 391_168, vector: 214_016, terms: 88_064 },
    asOf: folders.length === 0 ? null : now() - 95,
    notices: scenes.has("notices") ? [{ kind: "folderUnreachable", folder: "/media/mira/BOAT-STICK", why: "an unmounted disk, or renamed" }] : [],
    error: scenes.has("error") ? { message: "The disk is full: 12 MB left where the index is. Free some space, then try again.", advice: null } : null,
  };
}

const tell = (event: AppEvent) => appEvents?.onmessage(event);
const changed = () => tell({ event: "library", state: library() });

function addFolder(path: string): Added {
  if (!path.startsWith("/")) return { path, problem: { message: `“${path}” is not an absolute path. Begin with a slash.`, advice: null } };
  if (folders.some((it) => it.path === path)) return { path, problem: { message: `${path} is in the library already.`, advice: null } };
  folders = [...folders, { id: folders.length + 1, path, name: path.split("/").at(-1) ?? path, present: true, confined: false, lookedAtEvery: null, removable: false, counts: [] }];
  ledgerRows = undefined;
  cachedCounts = undefined;
  changed();
  return { path, problem: null };
}

// ---- Search ------------------------------------------------------------------------------------------

/** With the scene `notices` a search tells all this, one of each kind. */
const NOTICES: Notice[] = [
  { kind: "noEmbedder", name: "all-MiniLM-L6-v2" },
  { kind: "notAsQuoted", phrases: ["what you see is what you get"] },
  { kind: "leftOut", words: ["paint", "blue boat"] },
  { kind: "keywordsDecide", model: "all-MiniLM-L6-v2", languages: ["en"], language: "de" },
  { kind: "notReranked", why: { message: "the model in /home/mira/models/mini can not be used: model.riddle: what lies at byte 4096 does not match its checksum: the file is damaged", advice: { kind: "convertModel" } } },
  { kind: "notRerankedInLanguage", model: RERANKER, languages: ["en", "de"], language: "fr" },
];

const ASK_NOTICES: Notice[] = [
  { kind: "notRewritten", why: { kind: "slow", seconds: 15 }, withWordsBefore: true },
  { kind: "checkedWithoutReranker", why: { kind: "notChosen" } },
  { kind: "passagesLeftOut", count: 2 },
  { kind: "answerBreaksOff", why: { message: "http://localhost:11434/v1 has said nothing for 60 s: it may be loading a model or be overloaded, ask again later", advice: null } },
];

async function search(request: { id: number; text: string; filter: SearchFilter; first: number }, events: Sender<SearchEvent>) {
  searchId = request.id;
  const { id, text } = request;
  const gone = () => {
    if (searchId === id) return false;
    events.onmessage({ event: "cancelled", query: id });
    return true;
  };
  await wait(4);
  if (gone()) return;
  if (scenes.has("searchfails")) {
    events.onmessage({ event: "failed", query: id, failure: { code: "other", message: "the search index /home/mira/.local/share/riddle/keyword must be built again (it is damaged)", advice: { kind: "updateIndex" } } });
    return;
  }
  const found = find(text, request.filter);
  const reranker = scenes.has("norerank") ? null : RERANKER;
  const first = found.slice(0, settings.results).map((it, index) => hit(it, index + 1, text, null, 1 / (61 + index)));
  const notices: Notice[] = scenes.has("notices") ? NOTICES : [...understood(text), ...(scenes.has("blind") ? [{ kind: "noEmbedder", name: "all-MiniLM-L6-v2" } as const] : [])];
  const order = { kind: scenes.has("blind") ? "keyword" : "fused" } as const;
  const reranking = reranker !== null && found.length > 1;
  events.onmessage({ event: "firstHits", query: id, hits: first.slice(0, request.first), order, notices, ms: 8.3, reranking });
  if (reranking && first.length > request.first) events.onmessage({ event: "moreHits", query: id, hits: first.slice(request.first) });
  const all = scores(found, text);
  const { mode, pruning } = settings.rerank;
  const threshold = pruning.kind === "threshold" ? pruning.threshold : null;
  const decided = decide(all, threshold, mode, 14);
  last = { text, found, all, trace: trace(text, found, all, decided, reranking ? reranker : null, false, settings.rerank.memoryBudget, threshold, mode) };
  let ms = 8.3;
  if (reranking) {
    for (const layer of decided.layers) {
      await wait(scenes.has("slow") ? 700 : Math.min(layer.ms, 16));
      if (gone()) return;
      ms += layer.ms;
      const chunk = (it: number) => found[it]?.passage.chunk ?? 0;
      events.onmessage({ event: "layer", query: id, layer: layer.layer, layers: LAYERS, active: layer.active.length - layer.accepted.length - layer.dropped.length, accepted: layer.accepted.map(chunk), dropped: layer.dropped.map(chunk), trace: layer });
      if (scenes.has("hold") && layer.layer === 6) return;
    }
    const ranked = found
      .map((it, index) => ({ it, fate: decided.fates[index], score: decided.layers.find((layer: LayerTrace) => layer.layer === decided.fates[index]?.atLayer)?.scores }))
      .filter((it) => it.fate?.rank != null)
      .sort((a, b) => (a.fate?.rank ?? 0) - (b.fate?.rank ?? 0));
    const hits: Hit[] = ranked.map(({ it, fate }, index) => hit(it, index + 1, text, fate?.atLayer ?? null, all.at((fate?.atLayer ?? LAYERS) - 1)?.[found.indexOf(it)] ?? 0));
    events.onmessage({ event: "settled", query: id, hits, order: { kind: "reranked", model: RERANKER }, notices, ms, layersRun: decided.layers.length, computedShare: decided.share });
  } else events.onmessage({ event: "settled", query: id, hits: first, order, notices, ms, layersRun: null, computedShare: null });
}

function spans(text: string, words: string): Span[] {
  return mark(text, terms(words)).map((it) => ({ text: it.text, mark: it.hit }));
}

/** A passage as the lines of a picture, one below the other. */
function seenLines(text: string): SeenLine[] {
  const lines = text.replace(/\s+/g, " ").match(/.{1,60}(?: |$)/g) ?? [];
  return lines.map((line, at) => ({ page: 1, text: line.trim(), left: 0.1, top: 0.1 + 0.06 * at, right: 0.9, bottom: 0.14 + 0.06 * at }));
}

/** The picture of such lines. */
async function picture(): Promise<ArrayBuffer> {
  const canvas = document.createElement("canvas");
  canvas.width = 900;
  canvas.height = 700;
  const context = canvas.getContext("2d");
  if (!context) return new ArrayBuffer(0);
  context.fillStyle = "#f4f1e8";
  context.fillRect(0, 0, 900, 700);
  context.fillStyle = "#222";
  context.font = "20px serif";
  for (let at = 0; at < 14; at += 1) context.fillText("as it was photographed on the kitchen table, a line of it", 92, 92 + 42 * at);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done));
  return (await blob?.arrayBuffer()) ?? new ArrayBuffer(0);
}

function preview(chunk: number, words: string) {
  const passage = passages().find((it) => it.chunk === chunk);
  if (!passage) return fail("notFound", "This passage is gone: its file was changed or removed. Search again.");
  const { file } = passage;
  const start = passage.location.start ?? 1;
  const end = passage.location.end ?? start;
  const kind = file.ref.kind;
  const lines = { text: file.raw, firstLine: 1, passageStart: start, passageEnd: end, truncated: false };
  const body =
    scenes.has("picture")
      ? { kind: "picture", seen: seenLines(passage.text) }
      : passage.location.kind === "cells" || kind === "spreadsheet"
      ? { kind: "table", table: sheet(passage) }
      : kind === "pdf"
      ? { kind: "pdf", page: start, lastPage: end, seen: [] }
      : kind === "markdown"
        ? { kind: "markdown", ...lines }
        : (kind === "text" && passage.location.kind !== "part") || kind === "code"
          ? { kind: "text", ...lines, code: kind === "code", language: file.ref.name.split(".").at(-1) ?? "" }
          : { kind: "passages", passages: file.passages.map((it) => ({ chunk: it.chunk, heading: it.heading, location: it.location, text: it.text, current: it.chunk === chunk })) };
  return { chunk, file: file.ref, title: file.title, location: passage.location, passage: spans(passage.text, words), body, changed: scenes.has("changed"), library: null, here: null, original: false, ocrConfidence: passage.ocrConfidence ?? null, film: file.ref.name.endsWith(".srt") ? { name: "the-lock-keeper.mkv", seconds: 751 } : null };
}

/** The rows around a passage of a sheet. */
function sheet(passage: MockPassage): PreviewTable {
  const [from, to] = [passage.location.start ?? 1, passage.location.end ?? 1];
  const row = (number: number, cells: string[]) => ({ number, cells, whole: cells.length === 1, current: number >= from && number <= to });
  if (passage.location.kind === "cells") {
    const rows = DELIVERIES.rows.map((it, index) => row(index + 3, it)).filter((it) => it.number >= from - 40 && it.number <= to + 40);
    return { sheet: DELIVERIES.sheet, left: DELIVERIES.left, columns: DELIVERIES.columns, notes: [], rows, moreAbove: (rows[0]?.number ?? 3) > 3, moreBelow: (rows.at(-1)?.number ?? 0) < 92, columnsLeftOut: 0 };
  }
  const [columns = [], ...lines] = passage.file.raw.trim().split("\n").map((it) => it.split(","));
  return { sheet: "", left: null, columns, notes: [`Table: ${lines.length} rows.`], rows: lines.map((it, index) => row(index + 2, it)), moreAbove: false, moreBelow: false, columnsLeftOut: 0 };
}

function why(chunk: number) {
  if (!last) return fail("notFound", "The search this belonged to is over. Search again.");
  const index = last.found.findIndex((it) => it.passage.chunk === chunk);
  const candidate = last.trace.candidates[index];
  const found = last.found[index];
  if (!candidate || !found) return fail("notFound", "This passage was not among the candidates.");
  return {
    rank: candidate.rank,
    ranks: candidate.ranks,
    bm25Hits: last.found.filter((it) => it.bm25 !== null).length,
    vectorHits: last.found.filter((it) => it.vector !== null).length,
    termsHits: last.found.filter((it) => it.terms !== null).length,
    fusedHits: last.found.length,
    model: last.trace.model,
    numLayers: last.trace.numLayers,
    layers: last.trace.layers.flatMap((layer) => {
      const at = layer.active.indexOf(index);
      if (at < 0) return [];
      const own = layer.scores[at] ?? null;
      const outcome = layer.accepted.includes(index) ? "accepted" : layer.dropped.includes(index) ? "dropped" : "kept";
      return [{ layer: layer.layer, score: own, place: own === null ? null : layer.scores.filter((it) => it > own).length + 1, of: layer.active.length, outcome }];
    }),
    matchedWords: [...new Set(mark(found.passage.text, terms(last.text)).filter((it) => it.hit).map((it) => it.text.toLowerCase()))].slice(0, 6),
  };
}

// ---- Ask ---------------------------------------------------------------------------------------------

const history: Answer[] = [];
let nextEntry = 1;

/** The sentences of a passage that say most about a question. */
function quote(text: string, question: string, most: number): string[] {
  const look = terms(question);
  return text
    .replace(/\s+/g, " ")
    .split(/(?<=[.!?]) (?=[A-ZÄÖÜ£])/)
    .map((sentence, index) => ({ sentence: sentence.replace(/[#*`]/g, "").trim(), index, score: mark(sentence, look).filter((it) => it.hit).length }))
    .filter((it) => it.score > 0 && it.sentence.length > 20)
    .sort((a, b) => b.score - a.score)
    .slice(0, most)
    .sort((a, b) => a.index - b.index)
    .map((it) => it.sentence);
}

/** With the scene `weak` the second sentence is weakly supported and the third is not at all; with `made-up` none is. */
function support(index: number): { support: number; verdict: Verdict } {
  if (scenes.has("endless") && index > 0) return { support: 0, verdict: "unsupported" };
  if (!scenes.has("weak") || index === 0) return { support: 1, verdict: "supported" };
  return index === 1 ? { support: 0.48, verdict: "weak" } : { support: 0.06, verdict: "unsupported" };
}

function answerFor(question: string, thread: number | null, found: Found[], atSeconds = now()): Answer {
  const [best, second] = found;
  const parts: { text: string; n: number; found: Found }[] = [];
  if (best) for (const text of quote(best.passage.text, question, 2)) parts.push({ text, n: 1, found: best });
  if (second && second.truth > 0.35) for (const text of quote(second.passage.text, question, 1)) parts.push({ text, n: parts.length > 0 ? 2 : 1, found: second });
  const good = parts.length > 0 && (best?.truth ?? 0) > 0.4 && !/meaning of life|capital of/i.test(question);
  const used = [...new Set(parts.map((it) => it.n))];
  const entry = nextEntry++;
  return {
    entry,
    cached: null,
    thread: thread ?? entry,
    at: atSeconds,
    question,
    quotes: good && scenes.has("made-up") ? parts.map((it) => ({ text: it.text, citation: it.n, support: 1, verdict: "supported" as const })) : [],
    sentences: good && scenes.has("made-up") ? [{ text: "It was moored there by the king of Denmark in 1066.", citation: null, support: 0, verdict: "unsupported" as const }] : good ? parts.map((it, index) => ({ text: scenes.has("endless") && index > 0 ? "diwe".repeat(300) : it.text, citation: it.n, ...support(index) })) : [],
    reason: good ? null : "nothing",
    citations: good
      ? used.map((n) => {
          const it = parts.find((part) => part.n === n) as { text: string; found: Found };
          const { passage } = it.found;
          return { n, chunk: passage.chunk, file: passage.file.ref, title: passage.file.title, location: passage.location, quote: parts.filter((part) => part.n === n).map((part) => part.text).join(" … ") };
        })
      : [],
    evidence: good ? 0.82 : 0.21,
    llm: scenes.has("remote") ? "remote:qwen3:4b" : WRITER ? `local:${WRITER.name}` : "extractive",
    order: { kind: "reranked", model: RERANKER },
    notices: scenes.has("notices") ? ASK_NOTICES : [],
    notSearched: allCounts().filter((it) => !["indexed", "excluded", "unsupported"].includes(it.state)),
    firstWordsMs: 96,
    ms: 214,
    stopped: false,
    tokens: scenes.has("remote") ? 64 : WRITER ? 71 : null,
    generation: WRITER ? generation(WRITER) : null,
    prompt: scenes.has("remote") || WRITER ? `You answer questions from numbered passages…\n\n${parts.map((it) => `[${it.n}] ${it.text}`).join("\n\n")}\n\nQuestion: ${question}` : null,
    searchedFor: null,
    passages: [],
    heldBack: 0,
  };
}

function generation({ name, bytes }: Models["installed"][0]): Answer["generation"] {
  const large = scenes.has("large");
  const common = { model: name, promptTokens: 1218, tokens: 71, draftedTokens: 38, acceptedTokens: 29, experts: scenes.has("experts") ? { all: 6144, held: 1893, hitRate: 0.58 } : null };
  return large
    ? { ...common, reusedTokens: 0, loadedTokens: 0, loadMs: 0, promptMs: 41_300, firstTokenMs: 43_180, decodeMs: 133_500, tokensPerSecond: 0.53, contextTokens: 4096, windowLayers: 3, residentWeightBytes: 3_104_000_000, kvCacheBytes: 671_088_640, streamedBytesPerToken: bytes - 3_104_000_000, bytesRead: 72 * (bytes - 3_104_000_000), ioWaitMs: 96_210 }
    : { ...common, reusedTokens: 162, loadedTokens: 604, loadMs: 21, promptMs: 2140, firstTokenMs: 2236, decodeMs: 4960, tokensPerSecond: 14.3, contextTokens: 8192, windowLayers: 0, residentWeightBytes: bytes, kvCacheBytes: 939_524_096, streamedBytesPerToken: 0, bytesRead: 0, ioWaitMs: 0 };
}

function best(text: string): Found[] {
  const found = find(text, { folders: [], kinds: [], tags: [], modifiedFrom: null, modifiedUntil: null, libraries: [] });
  return [...found].sort((a, b) => b.truth - a.truth);
}

async function ask(question: { id: number; text: string; thread: number | null }, events: Sender<unknown>) {
  await wait(60);
  if (scenes.has("askfails")) {
    events.onmessage({ event: "failed", question: question.id, failure: { code: "unloaded", message: "The reranker broke down and was unloaded. Asking again loads it anew." } });
    return;
  }
  const found = best(question.text).slice(0, 5);
  const all = scores(found, question.text);
  const decided = decide(all, null, "off", 14);
  last = { text: question.text, found, all, trace: trace(question.text, found, all, decided, RERANKER, true, settings.rerank.memoryBudget, null, "off") };
  const earlier = history.find((it) => it.thread === question.thread);
  const answer = answerFor(question.text, question.thread, found);
  last.trace.generation = answer.generation;
  if (answer.generation) {
    const { loadMs, promptMs, decodeMs } = answer.generation;
    const written = [{ stage: "bank", ms: 12 }, { stage: "load", ms: loadMs }, { stage: "read", ms: promptMs }, { stage: "write", ms: decodeMs }, { stage: "generate", ms: 96 }];
    const parts: Record<string, typeof written> = { generate: written.filter((it) => it.ms > 0), check: [{ stage: "check", ms: 164 }] };
    last.trace.stages = last.trace.stages.flatMap((it) => parts[it.stage] ?? [it]);
    last.trace.totalMs = last.trace.stages.reduce((sum, it) => sum + it.ms, 0);
    answer.ms = last.trace.totalMs;
  }
  events.onmessage({ event: "evidence", question: question.id, passages: found.map((it, index) => hit(it, index + 1, question.text, null, it.truth)), order: answer.order, notices: [], searchedFor: earlier ? `${earlier.question} ${question.text}` : question.text });
  const cut = (text: string) => text.match(/\S+\s*/g) ?? [];
  const stream = answer.sentences.flatMap((it) => [...cut(it.text).map((text) => ({ text, ends: null })), { text: it.citation === null ? " " : ` [${it.citation}] `, ends: it }]);
  for (const [index, piece] of stream.entries()) {
    await wait(scenes.has("slow") ? 120 : 7);
    if (stopped === question.id) {
      answer.stopped = true;
      break;
    }
    events.onmessage({ event: "piece", question: question.id, text: piece.text });
    if (piece.ends) events.onmessage({ event: "checked", question: question.id, sentence: piece.ends });
    if (scenes.has("hold") && index > stream.length * 0.6) return;
  }
  if (settings.keepHistory) history.push(answer);
  events.onmessage({ event: "done", question: question.id, answer });
}

function threads(text: string): ThreadSummary[] {
  const look = text.toLowerCase();
  const byThread = new Map<number, Answer[]>();
  for (const it of history) byThread.set(it.thread, [...(byThread.get(it.thread) ?? []), it]);
  return [...byThread.entries()]
    .map(([thread, answers]) => ({
      thread,
      at: answers.at(-1)?.at ?? 0,
      question: answers[0]?.question ?? "",
      questions: answers.length,
      answer: answers.at(-1)?.sentences[0]?.text ?? "",
      all: answers.map((it) => `${it.question} ${it.sentences.map((one) => one.text).join(" ")}`.toLowerCase()).join(" "),
    }))
    .filter((it) => it.all.includes(look))
    .sort((a, b) => b.at - a.at)
    .map(({ thread, at, question, questions, answer }) => ({ thread, at, question, questions, answer }));
}

function fillHistory() {
  const DAY = 86_400;
  for (const [question, ago] of [
    ["What must be repaired before the boat goes on a river?", 9 * DAY],
    ["Wann wird Fritzi gefüttert?", 6 * DAY],
    ["Which fuse does the bilge pump have?", 3 * DAY],
    ["How much is the rent of the bakery, and when may it be raised?", DAY + 4000],
    ["What does the winter mooring cost?", 5200],
  ] as [string, number][]) {
    history.push(answerFor(question, null, best(question), now() - ago));
  }
}

// ---- Models, performance -----------------------------------------------------------------------------

const TRIAL: ModelTrial = {
  questions: 58,
  passages: 300,
  rerankers: [
    { name: RERANKER, inUse: true, advised: true, quality: 0.871, low: 0.802, high: 0.931, ms: 148, passagesPerSecond: null, bytes: 22_713_216, tooLarge: false, unread: 0, problem: null },
    { name: null, inUse: false, advised: false, quality: 0.694, low: 0.601, high: 0.783, ms: 0, passagesPerSecond: null, bytes: 0, tooLarge: false, unread: 0, problem: null },
  ],
  embedders: [
    { name: "multilingual-e5-small", inUse: false, advised: true, quality: 0.742, low: 0.655, high: 0.824, ms: 9.1, passagesPerSecond: 61.4, bytes: 121_000_000, tooLarge: false, unread: 0, problem: null },
    { name: "all-MiniLM-L6-v2", inUse: true, advised: false, quality: 0.661, low: 0.569, high: 0.75, ms: 6.4, passagesPerSecond: 212.7, bytes: 23_285_953, tooLarge: false, unread: 0.18, problem: null },
  ],
  notRead: [
    { kind: "reranker", model: RERANKER, languages: ["de"], share: 0.18, kinds: ["code"], installed: [], available: ["jina-reranker-v2-base-multilingual", "gte-multilingual-reranker-base", "mxbai-rerank-base-v2"] },
    { kind: "embedder", model: "all-MiniLM-L6-v2", languages: ["de"], share: 0.18, kinds: [], installed: ["multilingual-e5-small"], available: ["granite-embedding-97m-multilingual-r2", "potion-multilingual-128M", "gte-multilingual-base"] },
  ],
};
let stopTrial = false;

function tryModels(events: Sender<TrialEvent>) {
  stopTrial = false;
  const names = ["", RERANKER, "multilingual-e5-small", "all-MiniLM-L6-v2"];
  let step = 0;
  const timer = setInterval(() => {
    const name = names[Math.floor(step / 5)];
    if (!stopTrial && name !== undefined) events.onmessage({ event: "progress", name, done: step++ % 5, total: 5 });
    else {
      clearInterval(timer);
      events.onmessage(stopTrial ? { event: "cancelled" } : { event: "done", trial: TRIAL });
    }
  }, scenes.has("hold") ? 5000 : 40);
}

let pulling: ReturnType<typeof setInterval> | undefined;
let models: Models = {
  installed: [
    { name: "all-MiniLM-L6-v2", kind: "embedder", bytes: 91_268_301, license: "Apache-2.0", source: "sentence-transformers/all-MiniLM-L6-v2", active: true, writes: false, elsewhere: false, problem: null, server: false },
    { name: "splade-tiny", kind: "sparseEncoder", bytes: 22_401_536, license: "Apache-2.0", source: "rasyosef/splade-tiny", active: true, writes: false, elsewhere: false, problem: null, server: false },
    { name: RERANKER, kind: "reranker", bytes: 22_713_216, license: "Apache-2.0", source: "part of the program", active: !scenes.has("norerank"), writes: false, elsewhere: false, problem: null, server: false },
    ...(WRITER ? WRITERS.map((it) => ({ ...it, active: it === WRITER })) : []),
    ...(WRITER ? KEPT : []),
  ],
  available: [
    { name: "multilingual-e5-small", kind: "embedder", bytes: 471_000_000, license: "MIT", about: "100 languages, 384 dimensions", installed: false },
    { name: "bge-reranker-v2-m3", kind: "reranker", bytes: 2_271_000_000, license: "Apache-2.0", about: "multilingual reranker, 24 layers", installed: false },
    { name: "Qwen3-Reranker-0.6B", kind: "reranker", bytes: 1_192_000_000, license: "Apache-2.0", about: "multilingual reranker that takes instructions, 28 layers", installed: false },
  ],
  fetching: null,
  offline: false,
  folder: "/home/mira/.local/share/riddle/models",
  memoryBytes: 8.2 * 10 ** 9,
  rerankerHere: RERANKER,
};

/** Versions of a language model, and the one that is usual. */
const VERSIONS: [string, number][] = [
  ["Q4_K_M", 1_107_409_152],
  ["IQ2_XXS", 612_204_544],
  ["Q8_0", 1_834_426_368],
  ["F16", 3_447_349_248],
];

/** With the scene `gated` the files are for who has accepted a licence, with `unusual` no version is the usual one. */
function plan(text: string): ModelPlan | Promise<never> {
  const [name = "", tag] = text.split(":");
  if (!/^[\w.-]+\/[\w.-]+$/.test(name)) return fail("notFound", `There is no model ${name}.`);
  const short = name.split("/")[1]?.replace(/-GGUF$/, "") ?? name;
  const usual = scenes.has("unusual") ? "" : "Q4_K_M";
  const chosen = tag ?? usual;
  const weights = VERSIONS.map(([it, bytes]) => ({ file: `${short}-${it}.gguf`, quantization: it, writes: true, bytes, parts: 1, usual: it === usual, chosen: it === chosen }));
  const large = { file: `BF16/${short}-BF16-00001-of-00002.gguf`, quantization: "BF16", writes: true, bytes: 28_300_000_000, parts: 2, usual: false, chosen: false };
  const beside = 11_357;
  const page = `${modelSource.address}/${name}`;
  return {
    name,
    installed: models.installed.some((it) => it.name === name),
    page,
    license: scenes.has("gated") ? "gemma" : "apache-2.0",
    licensePage: `${page}/blob/main/LICENSE`,
    gated: scenes.has("gated"),
    beside,
    bytes: beside + (weights.find((it) => it.chosen)?.bytes ?? -beside),
    weights: [...weights, large],
  };
}

let modelSource: ModelSource = { address: "https://huggingface.co", origin: "https://huggingface.co:443", usual: true, modelscope: false, environment: false, token: { place: "none", problem: null } };

function chooseSource(address: string | null) {
  if (address === null) return (modelSource = { ...modelSource, address: "https://huggingface.co", origin: "https://huggingface.co:443", usual: true, modelscope: false });
  const url = address === "modelscope" ? "https://www.modelscope.cn" : address;
  if (!/^(modelscope\+)?https:\/\/[\w.-]+/.test(url)) return fail("other", `${url} can not be the place that models come from: it is not encrypted: only this very computer may be asked over http://`);
  return (modelSource = { ...modelSource, address: url, origin: `${new URL(url.replace(/^modelscope\+/, "")).origin}:443`, usual: false, modelscope: url.includes("modelscope") });
}

function pull(name: string, file: string | null, events: Sender<ModelEvent>) {
  const known = models.available.find((it) => it.name === name);
  if (!known && scenes.has("gated") && modelSource.token.place !== "kept") {
    const page = `${modelSource.address}/${name}`;
    const failure: Failure = { code: "other", message: `${page} gives its files only to people who have accepted its license there, and asks for their token`, advice: { kind: "acceptLicense", page } };
    setTimeout(() => events.onmessage({ event: "failed", failure }), 40);
    return null;
  }
  const bytes = file === null ? 1_107_409_152 : (VERSIONS.find(([it]) => file.includes(it))?.[1] ?? 0);
  const model = known ?? { kind: "llm" as const, bytes, license: "Apache-2.0" };
  let got = 0;
  pulling = setInterval(() => {
    got = Math.min(model.bytes, got + model.bytes / (scenes.has("slow") ? 400 : 24));
    events.onmessage({ event: "progress", stage: "fetching", file: "model.safetensors", done: got, total: model.bytes });
    if (scenes.has("hold") && got > model.bytes * 0.4) clearInterval(pulling);
    if (got < model.bytes) return;
    clearInterval(pulling);
    const short = name.split(":")[0] ?? name;
    models = {
      ...models,
      installed: [...models.installed.filter((it) => it.name !== short), { name: short, kind: model.kind, bytes: model.bytes, license: model.license, source: "huggingface.co", active: false, writes: model.kind === "llm", elsewhere: false, problem: null, server: false }],
      available: models.available.map((it) => (it.name === name ? { ...it, installed: true } : it)),
    };
    events.onmessage({ event: "done", name: short });
    tell({ event: "models" });
  }, 40);
  return null;
}

function performance() {
  const at = (index: number, of: number, hours: number) => now() - Math.round(((of - 1 - index) / of) * hours * 3600);
  const series = (stage: string, base: number, spread: number, count: number) => {
    const points = Array.from({ length: 36 }, (_, index) => {
      const p50 = base * (1 + 0.12 * Math.sin(index * 0.9) + (index === 21 ? 0.5 : 0));
      return { at: at(index, 36, 6), p50, p95: p50 * (spread + 0.2 * Math.cos(index * 1.3)), count: 3 + (index % 9) };
    });
    return { stage, count, p50: base, p95: base * spread, points };
  };
  const empty = scenes.has("empty");
  return {
    stages: empty ? [] : [series("key_to_first_hits", 19.4, 1.7, 412), series("first_hits", 8.3, 1.6, 412), series("embed", 6.4, 1.5, 412), series("bm25", 1.3, 2.1, 412), series("vector", 0.9, 1.8, 412), series("weigh", 1.1, 1.5, 412), series("terms", 0.8, 1.6, 412), series("fuse", 0.2, 1.4, 412), series("rerank", 118, 1.5, 409), series("generate", 1.1, 1.9, 37), series("check", 18.6, 1.7, 37)],
    memory: empty ? [] : Array.from({ length: 60 }, (_, index) => ({ at: at(index, 60, 1), pssBytes: 92e6 + 61e6 * (index % 20 < 6 ? 1 : 0) * Math.min(1, (index % 20) / 2 + 0.4), rssBytes: 171e6, webviewPssBytes: 181e6 + 3e6 * Math.sin(index / 3) })),
    indexing: empty ? [] : Array.from({ length: 30 }, (_, index) => ({ at: at(index, 30, 0.2), filesPerSecond: 38 + 9 * Math.sin(index * 0.8) + (index > 24 ? -16 : 0) })),
    indexBytes: library().indexBytes,
    passages: library().passages,
    coldStartMs: 612,
    peakRssBytes: 214_000_000,
    processes: [
      { name: "riddle", pid: 4711, pssBytes: 96_400_000, rssBytes: 171_000_000 },
      { name: "WebKitWebProcess", pid: 4730, pssBytes: 148_100_000, rssBytes: 250_300_000 },
      { name: "WebKitNetworkProcess", pid: 4729, pssBytes: 33_400_000, rssBytes: 62_200_000 },
    ],
  };
}

// ---- The commands ------------------------------------------------------------------------------------

let kept: KeptAnswers = {
  reuse: { grade: "checked", threshold: 0.9, limitBytes: 32 << 20, prepare: true, onBattery: false },
  answers: [
    { id: 2, question: "When does the mooring contract end?", foreseen: true, ready: true, at: 1_763_900_000, uses: 0 },
    { id: 1, question: "What does the winter mooring cost?", foreseen: false, ready: true, at: 1_763_800_000, uses: 3 },
  ],
  bytes: 9_400,
  asked: 12,
  hits: 4,
  secondsSaved: 38,
  idleSeconds: 95,
  promptTokens: 14_820,
  knownTokens: 9_310,
  readingSavedSeconds: 27,
  near: [0.98, 0.94, 0.91, 0.88, 0.83, 0.79, 0.7, 0.52].map((similarity, place) => ({ similarity, byWords: place % 2 === 0 ? similarity : 0.4 })),
};

type Args = Record<string, unknown>;
/* eslint-disable @typescript-eslint/no-explicit-any */
const commands: Record<string, (args: any) => unknown> = {
  gate: () => (gateOpen ? { kind: "open" } : gateStart),
  gate_unlock: ({ passphrase }: { passphrase: string }) => (passphrase === "heron" || (gateStart.kind === "locked" && !gateStart.byPassphrase) ? ((gateOpen = true), null) : fail("other", "this is not the passphrase of this home: try again")),
  gate_encrypt: async () => {
    await wait(400);
    gateOpen = encrypted = true;
    return null;
  },
  gate_decrypt: ({ passphrase }: { passphrase: string }) => (passphrase === "heron" ? ((gateOpen = true), (encrypted = false), null) : fail("other", "this is not the passphrase of this home: try again")),
  gate_leave: () => {
    gateOpen = true;
    return null;
  },
  encryption: () => ({ encrypted, byPassphrase: encrypted }),
  encryption_begin: () => null,
  encryption_change: () => ({ encrypted, byPassphrase: encrypted }),
  start: () => (!gateOpen ? Promise.reject("state not managed for field `shell` on command `start`") : scenes.has("nostart") ? fail("other", "The data folder /home/mira/.local/share/riddle can not be written. Check its permissions, then try again.") : { version: "0.2.0", firstRun: scenes.has("first"), settings: settingsState(), library: library(), hasEmbedder: true, reranker: RERANKER, platform: "linux" }),
  events: ({ channel }) => {
    appEvents = channel as Sender<AppEvent>;
    return null;
  },
  ready: () => null,
  warm: () => null,
  about: () => ({ version: "0.2.0", license: "Apache-2.0", home: "/home/mira/.local/share/riddle", modelsFolder: models.folder, webview: "WebKitGTK 2.50.6", cpuThreads: 8, coldStartMs: 612 }),
  suggested_folders: () => ["Documents", "Desktop", "Notes"].map((name) => ({ name, path: `/home/mira/${name}` })),
  finish_first_run: () => null,
  search: ({ query: request, events }) => void search(request, events),
  stop_search: () => void (searchId += 1e6),
  note_first_hits: () => null,
  why: ({ chunk }) => why(chunk as number),
  preview: ({ chunk, query: words }) => preview(chunk as number, words as string),
  preview_bytes: async () => (scenes.has("picture") ? picture() : (await fetch(PDF)).arrayBuffer()),
  open_film: () => scenes.has("player"),
  open_file: () => (scenes.has("openfails") ? fail("notFound", "The file is gone. It was there when the index was made.") : null),
  reveal_file: () => null,
  ask: ({ question, events }) => void ask(question, events),
  ask_preview: ({ question: wanted }) => {
    const question = wanted as { text: string };
    const found = best(question.text).slice(0, 5);
    const hits = found.map((it, index) => hit(it, index + 1, question.text, null, it.truth));
    const folders = [...new Set(hits.map((it) => it.file.folder))].map((folder) => ({ folder, passages: hits.filter((it) => it.file.folder === folder).length }));
    return { origin: endpointOf(settings.remote.url).origin, question: question.text, passages: hits, folders, heldBack: 2, prompt: `You answer questions from numbered passages.\n\nQuestion: ${question.text}` };
  },
  endpoint_key: () => ({ place: keyPlace, problem: null }),
  endpoint_key_set: () => {
    keyPlace = "kept";
    return { place: keyPlace, problem: null };
  },
  endpoint_key_forget: () => {
    keyPlace = "none";
    return { place: keyPlace, problem: null };
  },
  library_confine: ({ folder, confined }) => {
    folders = folders.map((it) => (it.id === folder ? { ...it, confined: confined as boolean } : it));
    changed();
  },
  stop_answer: ({ question }) => void (stopped = question as number),
  history: ({ query: request }) => threads((request as { text: string }).text),
  history_thread: ({ thread }) => history.filter((it) => it.thread === thread),
  history_delete: ({ thread }) => {
    const left = thread === null ? [] : history.filter((it) => it.thread !== thread);
    history.splice(0, history.length, ...left);
  },
  kept_answers: () => kept,
  reuse_set: ({ reuse }) => (kept = { ...kept, reuse: reuse as KeptAnswers["reuse"] }),
  kept_answers_delete: ({ answer }) => (kept = { ...kept, answers: answer === null ? [] : kept.answers.filter((it) => it.id !== answer), bytes: answer === null ? 0 : kept.bytes }),
  library: () => library(),
  library_add_dialog: () => [addFolder("/home/mira/Pictures/Boat")],
  library_add: ({ paths }) => (paths as string[]).map(addFolder),
  library_remove: ({ folder }) => {
    folders = folders.filter((it) => it.id !== folder);
    ledgerRows = undefined;
    changed();
  },
  library_rescan: () => null,
  library_scans: ({ which }) => {
    whichScans = which as WhichScans;
    changed();
  },
  library_meaning: ({ limits }) => {
    meaningLimits = limits as MeaningLimits;
    changed();
  },
  library_browsing: ({ may }) => {
    readsBrowsing = may as boolean;
    changed();
  },
  library_rebuild: () => null,
  library_pause: ({ paused }) => {
    phase = paused ? "paused" : scenes.has("busy") ? "reading" : "watching";
    changed();
  },
  ledger: ({ query: request }) => {
    const it = request as { states: State[]; folder: number | null; lately: boolean; text: string; sort: string; descending: boolean; offset: number; limit: number };
    if (scenes.has("ledgerfails")) return fail("other", "The catalog is locked by another program. Close it, then try again.");
    let rows = ledger();
    if (it.states.length > 0) rows = rows.filter((row) => it.states.includes(row.state));
    if (it.folder !== null && it.folder !== 1) rows = [];
    if (it.lately) rows = rows.filter(isLate);
    if (it.text) rows = rows.filter((row) => row.file.path.toLowerCase().includes(it.text.toLowerCase()));
    const value = (row: LedgerRow) => (it.sort === "changed" ? (row.changed ?? 0) : it.sort === "bytes" ? row.file.bytes : it.sort === "modified" ? row.file.modified : it.sort === "passages" ? row.passages : it.sort === "state" ? STATES.indexOf(row.state) : row.file.path);
    if (it.sort !== "path" || rows.length < 5000) {
      rows = [...rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (it.descending ? -1 : 1));
    }
    return { total: rows.length, offset: it.offset, rows: rows.slice(it.offset, it.offset + it.limit) };
  },
  ledger_retry: ({ files: ids }) => (ids as number[]).length || (allCounts().find((it) => it.state === "failed")?.count ?? 0),
  ledger_exclude: ({ file }) => ({ folder: 1, pattern: `/${file}` }),
  shared_libraries: () => shared,
  shared_look: ({ name }) => SHARED_LOOKS[name as string] ?? NOTHING_THERE,
  shared_add: ({ name, address, key }) => {
    const added: SharedLibrary = { name: name as string, address: address as string, origin: address as string, pushedAt: null, key: { place: key ? "kept" : "none", problem: null }, folders: [], originals: null };
    return (shared = [...shared, added]);
  },
  shared_remove: ({ name }) => (shared = shared.filter((it) => it.name !== name)),
  shared_key: ({ name, key }) => (shared = shared.map((it) => (it.name === name ? { ...it, key: { place: key ? "kept" : "none", problem: null } } : it))),
  shared_map: ({ name, there, here }) =>
    (shared = shared.map((it) => {
      const folders = it.folders.filter((one) => one.there !== there);
      return it.name !== name ? it : { ...it, folders: here === null ? folders : [...folders, { there: there as string, here: here as string }] };
    })),
  shared_originals: ({ name, address, key }) =>
    (shared = shared.map((it) => (it.name !== name ? it : { ...it, originals: address === null ? null : { address: address as string, key: { place: key ? "kept" : "none", problem: null } } }))),
  shared_evict: ({ name, writer }) => {
    const look = SHARED_LOOKS[name as string] ?? NOTHING_THERE;
    return (SHARED_LOOKS[name as string] = { ...look, writers: look.writers.filter((it) => it.key !== writer) });
  },
  shared_push: ({ name, events }) => pushShared(name as string, events as Sender<PushEvent>),
  shared_push_stop: () => {
    stopPush = true;
  },
  door: () => door,
  door_switch: ({ open }) => (door = { ...door, url: open ? "http://127.0.0.1:7438" : null }),
  door_add: ({ name, may, readsAs }) => {
    const added: DoorClient = { name: name as string, since: 1_763_000_000, revoked: false, hasToken: true, may: may as DoorMay, readsAs: readsAs as DoorClient["readsAs"], lastAsked: null };
    door = { ...door, clients: [...door.clients, added] };
    return { token: "4f1d".repeat(16), state: door };
  },
  door_set: ({ name, may, readsAs }) => doorClient(name as string, (it) => ({ ...it, may: may as DoorMay, readsAs: readsAs as DoorClient["readsAs"] })),
  door_revoke: ({ name, revoked }) => doorClient(name as string, (it) => ({ ...it, revoked: revoked as boolean })),
  door_remove: ({ name }) => doorClient(name as string, () => null),
  door_log_forget: () => (door = { ...door, log: [] }),
  rules: () => rules,
  rules_set: ({ rules: wanted }) => void (rules = wanted as Rule[]),
  rule_preview: ({ rule }) => {
    const pattern = (rule as Rule).pattern;
    if (pattern.includes("[")) return { files: 0, bytes: 0, passages: 0, examples: [], problem: "This is not a pattern: the bracket is never closed." };
    const tail = pattern.replace(/^[*/]+/, "").replace(/\/$/, "");
    const rows = ledger().filter((it) => it.state === "indexed" && it.file.path.includes(tail));
    return { files: rows.length, bytes: rows.reduce((sum, it) => sum + it.file.bytes, 0), passages: rows.reduce((sum, it) => sum + it.passages, 0), examples: rows.slice(0, 5).map((it) => it.file.path), problem: null };
  },
  pipeline: () => last?.trace ?? null,
  pipeline_replay: ({ request }) => (last ? replay(last.all, request.threshold, request.mode) : fail("notFound", "Nothing has been searched yet.")),
  pipeline_curve: ({ mode }) => (last ? curve(last.all, mode) : []),
  pipeline_compare: async () => {
    await wait(scenes.has("hold") ? 1e9 : 500);
    if (!last) return fail("notFound", "Nothing has been searched yet.");
    const { mode, pruning } = settings.rerank;
    const own = replay(last.all, pruning.kind === "threshold" ? pruning.threshold : null, mode);
    const run = (ms: number, share: number, layers: number, weights: number, peak: number) => ({ ms, remoteMs: 0, ioWaitMs: ms * 0.07, layersRun: layers, computedShare: share, weightBytes: weights, scratchBytes: 18_400_000, peakRssBytes: peak, result: [] });
    return { model: RERANKER, server: null, candidates: last.found.length, topK: TOP_K, withSettings: run(own.fullMs - own.savedMs, own.computedShare, own.layersRun, 26_300_000, 201_400_000), full: run(own.fullMs, 1, LAYERS, 90_100_000, 268_000_000), sameSet: own.lost.length === 0, sameOrder: own.sameOrder, common: own.kept };
  },
  calibration: () => ({ model: RERANKER, queries: 400, tables: scenes.has("uncalibrated") ? [] : [{ mode: "set", topK: 10 }, { mode: "order", topK: 10 }] }),
  performance: () => performance(),
  performance_export: () => "/home/mira/riddle-performance.json",
  models: () => ({ ...models, offline: settings.offline }),
  model_plan: ({ name }) => plan(name as string),
  model_pull: ({ name, file, events }) => pull(name as string, file as string | null, events),
  model_source: () => modelSource,
  model_source_set: ({ address }) => chooseSource(address as string | null),
  model_token_set: () => (modelSource = { ...modelSource, token: { place: "kept", problem: null } }),
  model_token_forget: () => (modelSource = { ...modelSource, token: { place: "none", problem: null } }),
  model_cancel: () => void clearInterval(pulling),
  model_trial: ({ events }) => tryModels(events as Sender<TrialEvent>),
  model_trial_stop: () => {
    stopTrial = true;
  },
  model_import_dialog: () => null,
  model_import: () => {
    const imported = { name: "imported", kind: "llm" as const, bytes: 900_000_000, license: null, source: "folder /home/mira/Downloads", active: false, writes: true, elsewhere: false, problem: null, server: false };
    models = { ...models, installed: [...models.installed, imported] };
    return "imported";
  },
  model_verify: () => ({ good: true, files: 5, problems: [] }),
  model_use: ({ kind, name }) => {
    models = { ...models, installed: models.installed.filter((it) => !it.server || it.kind !== kind).map((it) => (it.kind === kind ? { ...it, active: it.name === name } : it)) };
  },
  model_use_server: ({ kind, name, allow }) => {
    const server = name as string;
    if (!allow && !/^https?:\/\/(localhost|127\.)/.test(server)) throw { code: "badRequest", message: `${server} would be sent your questions and the passages found for them`, advice: { kind: "allowServer" } };
    const what = kind as ModelKind;
    const row = { name: server, kind: what, bytes: 0, license: null, source: "", active: true, writes: false, elsewhere: true, problem: null, server: true };
    models = { ...models, installed: [...models.installed.filter((it) => !it.server || it.kind !== what).map((it) => (it.kind === what ? { ...it, active: false } : it)), row] };
  },
  model_remove: ({ name }) => {
    models = { ...models, installed: models.installed.filter((it) => it.name !== name), available: models.available.map((it) => (it.name === name ? { ...it, installed: false } : it)) };
  },
  settings: () => settingsState(),
  system_words: () => null,
  settings_set: ({ settings: wanted }) => {
    settings = wanted as Settings;
    return settingsState();
  },
};
/* eslint-enable @typescript-eslint/no-explicit-any */

export function install() {
  if (scenes.has("hostile")) addHostile();
  if (scenes.has("sheet")) {
    addSheet();
    addDocumentTable();
  }
  if (scenes.has("film")) addFilm();
  if (scenes.has("picture")) for (const it of passages()) it.ocrConfidence = scenes.has("blurred") ? 0.714 : 0.934;
  if (!scenes.has("first") && !scenes.has("empty")) fillHistory();
  mockIPC((command, args) => {
    calls.push({ command, args });
    const handler = commands[command];
    if (!handler) return fail("other", `The mock has no command ${command}.`);
    return handler((args ?? {}) as Args);
  });
  Object.assign(window, {
    mock: {
      calls,
      tell,
      /** Indexing goes on. */
      progress(to: number) {
        done = to;
        ledgerRows = undefined;
        cachedCounts = undefined;
        changed();
      },
      /** Another program has set them. */
      meaningLimits(limits: MeaningLimits) {
        meaningLimits = limits;
        changed();
      },
      violations: [] as string[],
      /** What is on screen by its path in the catalog, in the language on screen. */
      words: (path: string) => path.split(".").reduce((of: unknown, key) => (of as Record<string, unknown>)[key], t),
    },
  });
  document.addEventListener("securitypolicyviolation", (event) => {
    (window as unknown as { mock: { violations: string[] } }).mock.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
  });
}
