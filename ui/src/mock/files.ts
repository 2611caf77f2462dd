// The library of the browser tests: the repository's own sample library, cut into passages as the real program
// does it, near enough.

import type { FileRef, Kind, Location } from "../lib/bindings";

const RAW = import.meta.glob("../../../assets/sample-library/**/*.{md,txt,py,rs,csv,html}", {
  query: "?raw",
  import: "default",
  eager: true,
}) as Record<string, string>;

export const ROOT = "/home/mira/Documents";

export interface MockPassage {
  chunk: number;
  file: MockFile;
  heading: string;
  text: string;
  location: Location;
  /** Of what was read from a picture. */
  ocrConfidence?: number;
}

export interface MockFile {
  id: number;
  ref: FileRef;
  title: string;
  raw: string;
  passages: MockPassage[];
}

const at = (day: string) => Math.floor(new Date(`${day}T10:20:00`).getTime() / 1000);

export const nowhere: Location = { kind: "whole", start: null, end: null, part: "", label: "whole file" };

export function location(kind: Location["kind"], start: number, end = start, part = ""): Location {
  return { kind, start, end, part, label: `${kind} ${start}` };
}

/** Sections of a Markdown file, by its headings. */
function sections(raw: string): { heading: string; text: string; start: number; end: number }[] {
  const lines = raw.split("\n");
  const found: { heading: string; text: string; start: number; end: number }[] = [];
  const path: string[] = [];
  let from = 0;
  const flush = (until: number) => {
    const text = lines.slice(from, until).join("\n").trim();
    if (text) {
      let start = from;
      while (!lines[start]?.trim()) start += 1;
      let end = until;
      while (!lines[end - 1]?.trim()) end -= 1;
      found.push({ heading: path.join(" › "), text, start: start + 1, end });
    }
  };
  for (const [index, line] of lines.entries()) {
    const heading = /^(#{1,4}) (.*)/.exec(line);
    if (!heading) continue;
    flush(index);
    path.length = (heading[1]?.length ?? 1) - 1;
    path.push(heading[2] ?? "");
    from = index + 1;
  }
  flush(lines.length);
  return found;
}

/** Groups of lines, cut at empty ones. */
function blocks(raw: string, least: number): { text: string; start: number; end: number }[] {
  const lines = raw.split("\n");
  const found: { text: string; start: number; end: number }[] = [];
  let from = 0;
  for (let index = 0; index <= lines.length; index += 1) {
    const empty = index === lines.length || !lines[index]?.trim();
    if (empty && (index - from >= least || index === lines.length)) {
      const text = lines.slice(from, index).join("\n").trim();
      if (text) found.push({ text, start: from + 1, end: index });
      from = index + 1;
    }
  }
  return found;
}

/** A workbook of some width, with what sheets have in them: long cells, empty ones, another direction of writing. */
export const DELIVERIES = {
  sheet: "Deliveries",
  left: 2,
  columns: ["Day", "Mill", "Flour", "Sacks", "Weight in kg", "Price per kg", "Sum", "Note of whoever was there", "رقم الفاتورة", "Paid", "Moisture", "Protein", "Ash", "Falling number", "Lot"],
  rows: Array.from({ length: 90 }, (_, at): string[] => {
    const mill = ["Corley Mill", "Tolley & Daughters", "مطحنة النهر"][at % 3] ?? "";
    const sacks = 4 + ((at * 7) % 19);
    const note = at === 46 ? "The hoist would not lift more than 250 kilograms, so the sacks of spelt stayed in the yard under the tarpaulin until Jonas came with the cart in the evening" : at % 9 === 0 ? "rye was damp at the seam" : "";
    return [`2025-${String(1 + Math.floor(at / 8)).padStart(2, "0")}-${String(1 + ((at * 3) % 28)).padStart(2, "0")}`, mill, ["rye, medium", "wheat, strong", "spelt"][at % 3] ?? "", String(sacks), String(sacks * 25), (0.81 + (at % 5) * 0.07).toFixed(2), (sacks * 25 * (0.81 + (at % 5) * 0.07)).toFixed(2), note, `فاتورة ${1200 + at}`, at % 4 === 0 ? "no" : "yes", `${(13 + (at % 4) * 0.3).toFixed(1)} %`, `${(11 + (at % 3) * 0.6).toFixed(1)} %`, "0.55", String(240 + at), `L-${at}`];
  }),
};

/** Adds a workbook, of which the second passage is rows 40 to 52. */
export function addSheet() {
  const name = "flour-deliveries-2025.xlsx";
  const file: MockFile = { id: files.length + 1, ref: { path: `${ROOT}/bakery/${name}`, name, folder: "~/Documents/bakery", kind: "spreadsheet", bytes: 48_211, modified: at("2025-11-08") }, title: name, raw: "", passages: [] };
  const passage = (chunk: number, from: number, to: number): MockPassage => ({
    chunk,
    file,
    heading: "",
    text: [DELIVERIES.columns, ...DELIVERIES.rows.slice(from - 3, to - 2)].map((it) => it.join(" | ")).join("\n"),
    location: { kind: "cells", start: from, end: to, part: `Deliveries!B${from}:P${to}`, label: `Deliveries!B${from}:P${to}` },
  });
  file.passages = [passage(9500, 3, 39), passage(9501, 40, 52), passage(9502, 53, 92)];
  files.push(file);
}

/** Adds a document with a table between its paragraphs. */
export function addDocumentTable() {
  const name = "price-list.docx";
  const file: MockFile = { id: files.length + 1, ref: { path: `${ROOT}/bakery/${name}`, name, folder: "~/Documents/bakery", kind: "document", bytes: 20_114, modified: at("2025-10-04") }, title: "Price list for regular customers", raw: "", passages: [] };
  const text = ["The buns are baked on Thursdays alone, and ordered until Tuesday noon.", ["Product | Weight in g | Price in £ | Ordered until", "wharf rye | 1,100 | 4.80 | the evening before", "lock keeper's bun | 65 | 0.95 | Tuesday noon", "seeded spelt | 800 | 5.40 | the evening before", "shokupan |  | 6.20 | two days before"].join("\n"), "Whoever brings their own box pays five pence less."].join("\n\n");
  file.passages = [{ chunk: 9550, file, heading: "Prices", text, location: location("section", 4, 4, "Prices") }];
  files.push(file);
}

/** Adds subtitles that lie beside their film. */
export function addFilm() {
  const name = "the-lock-keeper.en.srt";
  const file: MockFile = { id: files.length + 1, ref: { path: `${ROOT}/films/${name}`, name, folder: "~/Documents/films", kind: "text", bytes: 61_022, modified: at("2024-03-02") }, title: "the-lock-keeper", raw: "", passages: [] };
  const said: [string, string][] = [
    ["00:11:48–00:12:22", "You can not take her through tonight.\nThe gate paddles are frozen."],
    ["00:12:31–00:13:20", "Then we winter here, at the heron lock.\nNobody winters at the heron lock.\nMy grandmother did, and she had no stove."],
    ["00:13:41–00:14:05", "Bring the kettle. And the long pole."],
  ];
  file.passages = said.map(([part, text], index) => ({ chunk: 9600 + index, file, heading: "", text, location: { kind: "part", start: 3 + index * 8, end: 9 + index * 8, part: `${part}`, label: part } }));
  files.push(file);
}

type Piece = { heading: string; text: string; location: Location };

const MAIL: Record<string, { title: string; pieces: string[] }> = {
  "letters/winter-mooring.eml": {
    title: "Your winter mooring 2025/26",
    pieces: [
      "Dear Ms Halloran,\n\nthank you for your booking. We have put Sedge Warbler on berth 23, on the towpath side, as you asked.\n\nThe winter mooring runs from 1 November 2025 to 14 March 2026 and costs £412, to be paid by 20 October.",
      "Shore power is metered and charged at 31 pence per unit; please bring your own 16 amp lead. The water tap on the jetty is turned off whenever frost is forecast, so fill your tank before the weekend.\n\nTwo requests. Please leave the stoppage from 5 to 23 January in mind: lock 9 will be drained, and nobody can leave the marina towards Harrow Wharf. And please keep the coal on board, not on the jetty.\n\nThe tea hut would like its forty buns again.\n\nKind regards,\nEdwina Marsh\nTolley Bridge Marina",
    ],
  },
  "letters/flour-prices.eml": {
    title: "New prices from 1 December – rye up, wheat down",
    pieces: [
      "Dear Mira,\n\na wet August has made rye scarce, so I have to change our prices from 1 December.\n\nMedium rye flour rises from £0.92 to £1.07 per kilogram, strong wheat flour falls to £0.81. Spelt stays where it is.\n\nIf you order the whole winter's rye before 24 November, I can hold the old price for 400 kilograms. Delivery is every second Tuesday, as always, and the sacks go up to the flour store if somebody is there to open it.",
    ],
  },
  "letters/jonas-engine.eml": {
    title: "Re: Tunnel, and the engine",
    pieces: [
      "Dear Mira,\n\nhome again, still smelling of diesel. The tunnel was not that bad. You could have done it yourself, and next time you will.\n\nAbout the engine: the Lister takes 4.5 litres of SAE 30 oil, and the valve clearance is 0.4 millimetres cold on both valves. Do not use modern multigrade, it cleans the sludge out of the corners and then the sludge goes travelling. I would change the exhaust gasket before you go anywhere in the cold.",
      "For the train in August: I arrive on the 9th at 17:52 in Harrow, with a jar for Fritzi's sister. Please tell me whether the boat has a second bunk by then or whether I bring the mat.",
    ],
  },
};

const LEASE: [string, string][] = [
  ["1. The premises", "The ground floor with shop, bakehouse and yard, and the flour store on the first floor, reached by the outside stair. The second floor stays with the landlord."],
  ["2. Term and rent", "The lease begins on 1 February 2024 and runs for five years.\n\nThe rent is £740 a month, due on the first working day. It may be raised once a year, on 1 February, by no more than the rise in consumer prices.\n\nA deposit of £2,220 has been paid and bears interest for the tenant."],
  ["3. Ending the lease", "Either party may end the lease by giving four months' notice in writing, to the last day of a quarter.\n\nIf the premises cannot be used for baking for more than thirty days through no fault of the tenant, she may leave at once and the rent for those days is returned."],
  ["4. Repairs", "The landlord keeps the roof, the outer walls, the outside stair and the chimney in repair. The tenant keeps the oven, the shop front and everything inside in repair."],
  ["5. Use and hours", "The premises may be used as a bakery and for the sale of bread, cakes, tea and coffee.\n\nNo machine louder than the dough mixer may run before five in the morning. The oven may be lit at any hour.\n\nThe hoist over the yard carries no more than 250 kilograms."],
  ["6. Special terms", "The tenant delivers one loaf of rye bread to the landlord every Saturday. It is not part of the rent and no right to it arises in bad years.\n\nThe painting of the heron stays in the shop. It belongs to the house."],
];

const OVEN: [string, string][] = [
  ["Heating up", "From cold, the H4 needs two hours and twenty minutes to reach 260 °C on both decks. Do not heat faster than 150 degrees per hour: the stone slabs crack along the grain. After a standstill of more than a week, hold at 120 °C for one hour so that the stone gives up its moisture."],
  ["Steam", "Each deck takes 0.8 litres of water per injection. Use softened water below six degrees of hardness. Scale in the nozzles shows as uneven gloss on the crust."],
  ["Door seals", "The door seals of the H4 are a braided glass cord of 14 millimetres and must be replaced every eighteen months. A worn seal shows as flat loaves beside the door. Order the cord by the metre, part number HS-1407; each door needs 2.3 metres.\n\nWarning. Never change a seal on a warm oven. The cord is pressed into the groove dry, without glue."],
  ["Fault codes", "E02 upper thermocouple open: check the plug behind the lamp\nE05 steam tank empty: fill with softened water, reset\nE11 flue blocked: switch off, open the damper, call the service\nE17 door open for more than three minutes: close the door; check the left hinge"],
];

const SURVEY: [number, string, string][] = [
  [1, "1. Scope", "The vessel was surveyed out of the water, at the request of her owner, before blacking. The survey covers the shell plating from the bottom plate to the gunwale, the stern gear, the rudder, the weed hatch and the openings through the hull. It does not cover the engine, the gas system or the electrical installation."],
  [1, "2. Summary", "For her age the vessel is in good condition. The sides below the rubbing strake are sound, the bottom plate was renewed in 1994, and no pitting deeper than 1.3 millimetres was found forward of the engine bulkhead. The stern is another matter. The owner is advised to plan overplating of the counter within two years; the boat may be used without restriction until then. In its present state the hull is valued at £31,500."],
  [2, "3. Plating", "The thinnest plate was found on the port side of the counter, 400 millimetres forward of the rudder post, where only 4.1 millimetres remain. The insurers named by the owner ask for at least 4 millimetres everywhere. The counter therefore passes, by one tenth of a millimetre, and should be measured again in April 2026."],
  [2, "4. Anodes and coating", "The old anodes had lost about 80 per cent of their mass. Four new magnesium anodes of 2.5 kilograms were welded on after the survey, two at the bow and two at the stern."],
  [3, "6. Weed hatch and openings", "The seal of the weed hatch is perished and must be replaced before the vessel is used on a river. The shower outlet stands 190 millimetres above the waterline; its hose is old and should be renewed at the same time."],
  [3, "7. Recommendations", "Before use: replace the seal of the weed hatch. Within a year: renew the hose of the shower drain, repack the stern gland, measure the counter again. Within two years: overplate the counter with 6 millimetre steel, about three metres on each side, for which the yard at Corley Basin has quoted £3,850."],
];

const FILES: [string, Kind, number, string][] = [
  ["boat/logbook-2025.md", "markdown", 2052, "2025-10-26"],
  ["boat/electrics.md", "markdown", 1376, "2025-05-04"],
  ["boat/cabin-paint.txt", "text", 911, "2025-09-22"],
  ["boat/bilge_monitor.rs", "code", 2059, "2025-08-03"],
  ["boat/hull-survey-2025.pdf", "pdf", 6027, "2025-04-30"],
  ["bakery/rye-loaf.md", "markdown", 1219, "2025-07-11"],
  ["bakery/sauerteig-notizen.md", "markdown", 1110, "2025-03-02"],
  ["bakery/食パン.md", "markdown", 1000, "2025-05-18"],
  ["bakery/dough_plan.py", "code", 1554, "2025-06-28"],
  ["bakery/orders.csv", "spreadsheet", 998, "2025-09-27"],
  ["bakery/oven-manual.html", "html", 2218, "2024-02-12"],
  ["bakery/lease-malthouse-row.docx", "document", 37811, "2024-01-08"],
  ["letters/winter-mooring.eml", "mail", 1136, "2025-10-02"],
  ["letters/flour-prices.eml", "mail", 1913, "2025-11-03"],
  ["letters/jonas-engine.eml", "mail", 1984, "2025-06-18"],
  ["home/to-do.txt", "text", 764, "2025-11-14"],
  ["home/allotment.md", "markdown", 764, "2025-10-13"],
];

function piecesOf(path: string, kind: Kind, raw: string): { title: string; pieces: Piece[] } {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const mail = MAIL[path];
  if (mail) {
    const pieces = mail.pieces.map((text, index) => ({ heading: "", text, location: location("message", index * 9 + 1, index * 9 + 1, "body") }));
    return { title: mail.title, pieces };
  }
  if (path.endsWith(".docx")) {
    const title = "Lease of the bakery at 3 Malthouse Row, Harrow Wharf";
    return { title, pieces: LEASE.map(([heading, text], index) => ({ heading, text, location: location("section", index * 3 + 3, index * 3 + 3, heading) })) };
  }
  if (path.endsWith(".html")) {
    const title = "Hearthstone H4 deck oven: owner's handbook (extract)";
    return { title, pieces: OVEN.map(([heading, text], index) => ({ heading, text, location: location("section", index * 2 + 2, index * 2 + 2, heading) })) };
  }
  if (path.endsWith(".pdf")) {
    const title = "Hull survey of the narrow-boat Sedge Warbler";
    return { title, pieces: SURVEY.map(([page, heading, text]) => ({ heading, text, location: location("page", page) })) };
  }
  if (kind === "markdown") {
    const title = /^# (.*)/m.exec(raw)?.[1]?.replace(/[*_`]/g, "") ?? name;
    return { title, pieces: sections(raw).map((it) => ({ heading: it.heading.replace(/[*_`]/g, ""), text: it.text, location: location("line", it.start, it.end) })) };
  }
  if (kind === "spreadsheet") {
    const lines = raw.trim().split("\n");
    return { title: name, pieces: [{ heading: "", text: lines.join("\n"), location: location("rows", 1, lines.length) }] };
  }
  return { title: name, pieces: blocks(raw, kind === "code" ? 12 : 5).map((it) => ({ heading: "", text: it.text, location: location("line", it.start, it.end) })) };
}

function build(): MockFile[] {
  let chunk = 100;
  return FILES.map(([path, kind, bytes, day], index) => {
    const raw = RAW[`../../../assets/sample-library/${path}`] ?? "";
    const folder = `~/Documents/${path.slice(0, path.lastIndexOf("/"))}`;
    const { title, pieces } = piecesOf(path, kind, raw);
    const file: MockFile = {
      id: index + 1,
      ref: { path: `${ROOT}/${path}`, name: path.slice(path.lastIndexOf("/") + 1), folder, kind, bytes, modified: at(day) },
      title,
      raw,
      passages: [],
    };
    file.passages = pieces.map((it) => ({ ...it, chunk: chunk++, file }));
    return file;
  });
}

export const files: MockFile[] = build();
export const passages = (): MockPassage[] => files.flatMap((it) => it.passages);

/** Adds files that mean harm, for the tests of hostile content. */
export function addHostile() {
  const evil = [
    {
      name: "invoice\u202egpj.exe.md",
      kind: "markdown" as Kind,
      title: '<img src=x onerror="window.hacked=1">',
      raw: '# <script>window.hacked = 1</script>\n\n<svg onload="window.hacked=1"><a href="javascript:window.hacked=1">hostile harbour</a></svg>\n\nA [link](javascript:window.hacked=1) and ![picture](https://example.com/track.gif) of the hostile harbour.\n\n<iframe src="https://example.com"></iframe>\n\n<style>body { display: none }</style>\n',
    },
    { name: "שלום עולם מסמך ארוך מאוד.txt", kind: "text" as Kind, title: "שלום עולם", raw: "שלום עולם, זה הנמל העוין (hostile harbour) של העיר.\nالميناء المعادي hostile harbour\n" },
    { name: `${"a very long name that goes on and on, ".repeat(8)}hostile.rs`, kind: "code" as Kind, title: "hostile.rs", raw: 'fn main() {\n    println!("</script><script>window.hacked=1</script> hostile harbour");\n}\n' },
    { name: "new\nline\ttab\u0007bell\u200bzero.html", kind: "html" as Kind, title: "hostile harbour\u202etxt.exe", raw: '<body onload="window.hacked=1">hostile harbour &lt;b&gt;</body>' },
  ];
  for (const it of evil) {
    const file: MockFile = {
      id: files.length + 1,
      ref: { path: `${ROOT}/evil/${it.name}`, name: it.name, folder: "~/Documents/evil", kind: it.kind, bytes: it.raw.length, modified: at("2025-11-01") },
      title: it.title,
      raw: it.raw,
      passages: [],
    };
    const lines = it.raw.split("\n").length;
    file.passages = [{ chunk: 9000 + file.id, file, heading: '"><script>window.hacked=1</script>', text: it.raw, location: location("line", 1, lines) }];
    files.push(file);
  }
}
