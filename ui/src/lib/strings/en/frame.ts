// Names of views, places, kinds, states and keys, and the first run.

import type { Kind, State } from "../../bindings";
import { wording } from "../wording";

const { n, plural, span } = wording("en");

export const frame = {
  app: {
    name: "Riddle",
    noStart: "Riddle could not start",
    unloaded: (part: string) => `A part of Riddle broke down and was unloaded: ${part}.`,
  },
  /** What the system draws: the menu of the tray, and the titles of its dialogs. */
  shell: {
    show: "Show Riddle",
    quit: "Quit",
    folders: "Folders to search",
    model: "Folder of a model",
    figures: "Save figures",
  },
  common: {
    cancel: "Cancel",
    close: "Close",
    delete: "Delete",
    dismiss: "Dismiss",
    loading: "Loading…",
    retry: "Try again",
    unknownProblem: "Something went wrong, and the program did not say what.",
  },
  nav: {
    label: "Views",
    search: "Search",
    ask: "Ask",
    pipeline: "Pipeline",
    performance: "Performance",
    library: "Library",
    settings: "Settings",
    keys: "Keyboard",
    /** A view, and the keys that lead to it. */
    withKeys: (view: string, keys: string) => `${view} (${keys})`,
  },
  time: {
    seconds: (value: number) => `about ${n(value)} s left`,
    minutes: (value: number) => `about ${n(value)} min left`,
    hours: (value: number) => `about ${n(value)} h left`,
  },
  place: {
    lines: (start: number, end: number) => span(start, end, "line", "lines"),
    pages: (start: number, end: number) => span(start, end, "page", "pages"),
    paragraph: (number: number) => `paragraph ${n(number)}`,
    slide: (number: number) => `slide ${n(number)}`,
    rows: (sheet: string, start: number, end: number) => [sheet, span(start, end, "row", "rows")].filter(Boolean).join(", "),
    mail: (paragraph: number) => (paragraph > 1 ? `mail, paragraph ${n(paragraph)}` : "mail"),
    attachment: (name: string) => `attachment ${name}`,
  },
  kinds: {
    text: "Text",
    markdown: "Markdown",
    code: "Code",
    html: "Web page",
    pdf: "PDF",
    document: "Document",
    presentation: "Slides",
    spreadsheet: "Table",
    mail: "Mail",
    book: "Book",
    calendar: "Calendar",
    contacts: "Contacts",
    image: "Picture",
    archive: "Archive",
    other: "Other",
  } satisfies Record<Kind, string>,
  states: {
    indexed: "Indexed",
    pending: "Pending",
    noText: "No text",
    cloudOnly: "In the cloud",
    tooLarge: "Too large",
    unsupported: "Unsupported",
    failed: "Failed",
    excluded: "Excluded",
  } satisfies Record<State, string>,
  stages: {
    key_to_first_hits: "Key to rows",
    first_hits: "First hits",
    embed: "Embed",
    bm25: "Keywords",
    vector: "Vectors",
    fuse: "Fuse",
    rerank: "Rerank",
    generate: "Answer",
    check: "Check",
  } satisfies Record<string, string>,
  keys: {
    title: "Keys",
    /** What is written on keys that have a word on them; the others are as they are. */
    names: { Ctrl: "Ctrl", Shift: "Shift", Alt: "Alt", Super: "Super", Enter: "Enter", Esc: "Esc", Del: "Del", Space: "Space" },
    groups: [
      {
        title: "Everywhere",
        keys: [
          [["Ctrl", "K"], "Search"],
          [["/"], "Search, outside of text fields"],
          [["Ctrl", "1–6"], "Change the view"],
          [["Ctrl", ","], "Settings"],
          [["?"], "These keys"],
          [["Esc"], "Close, or back to the box"],
        ],
      },
      {
        title: "Results",
        keys: [
          [["↑", "↓"], "Choose a result"],
          [["↵"], "Open the file"],
          [["Ctrl", "↵"], "Show it in its folder"],
          [["Ctrl", "I"], "Why is this here?"],
          [["Ctrl", "."], "All actions"],
          [["Ctrl", "Shift", "C"], "Copy the path"],
          [["Ctrl", "→"], "Into the preview"],
        ],
      },
      {
        title: "Ask",
        keys: [
          [["↵"], "Ask"],
          [["Shift", "↵"], "New line"],
          [["Ctrl", "N"], "New question"],
          [["Esc"], "Stop, or close the source"],
        ],
      },
      {
        title: "Files in the library",
        keys: [
          [["↑", "↓"], "Choose a file"],
          [["↵"], "Open it"],
          [["R"], "Read it again"],
          [["Del"], "Exclude…"],
        ],
      },
    ] as { title: string; keys: [string[], string][] }[],
  },
  first: {
    folders: "Where are your files?",
    foldersText: "Choose the folders that Riddle may read. Everything stays on this computer.",
    pick: "Choose folders",
    removeFolder: (name: string) => `Remove ${name}`,
    later: "Later",
    next: "Continue",
    back: "Back",
    models: "The models are here",
    modelsWanted: "Search by meaning",
    modelsMissing: "Words are searched already. To search by meaning as well, Riddle needs a model: download it, or import it from a folder.",
    modelsText: "What Riddle needs to understand meaning comes with it. Nothing has to be downloaded.",
    ready: "Search already works",
    readyText: "The first files are in, and the rest follow while you search.",
    readyNone: "Ready when you are",
    readyNoneText: "No folder is chosen yet, so there is nothing to find. Add one in the library whenever you like: what is in it can be searched within seconds.",
    already: (files: number) => `${plural(files, { one: "file", other: "files" })} can be searched now`,
    soon: "The first files appear in a moment",
    done: "Start searching",
    step: (at: number, of: number) => `Step ${n(at)} of ${n(of)}`,
  },
};
