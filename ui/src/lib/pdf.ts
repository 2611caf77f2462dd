// PDF pages by pdf.js, loaded when the first PDF is looked at. Its worker and fonts come with the app; nothing
// that a PDF can ask for (scripts, forms, links, attachments) is passed on.

import type { PDFDocumentProxy, PDFPageProxy } from "pdfjs-dist";
import type { TextItem } from "pdfjs-dist/types/src/display/api";

export type { PDFDocumentProxy, PDFPageProxy };

type Library = typeof import("pdfjs-dist");

let library: Promise<Library> | undefined;

// Fonts that a PDF may name without bringing them, and character maps of East Asian ones: without them such
// pages come out blank. Each is a module of its own with the bytes inside, so that the policy needs no
// connection to anything, not even to the app itself.
const DATA = {
  ...import.meta.glob<string>("../../node_modules/pdfjs-dist/cmaps/*.bcmap", { query: "?inline", import: "default" }),
  ...import.meta.glob<string>("../../node_modules/pdfjs-dist/standard_fonts/*.{pfb,ttf}", { query: "?inline", import: "default" }),
};
const FOLDERS: Record<string, string> = { cMapUrl: "cmaps", standardFontDataUrl: "standard_fonts" };

class Bundled {
  async fetch({ kind, filename }: { kind: string; filename: string }): Promise<Uint8Array> {
    const load = DATA[`../../node_modules/pdfjs-dist/${FOLDERS[kind]}/${filename}`];
    if (!load) throw new Error(`${filename} is not among the fonts and character maps of the app`);
    const url = await load();
    return Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), (it) => it.charCodeAt(0));
  }
}

export function pdfjs(): Promise<Library> {
  library ??= Promise.all([
    import("pdfjs-dist/legacy/build/pdf.mjs"),
    import("pdfjs-dist/legacy/build/pdf.worker.min.mjs?url"),
  ]).then(([loaded, worker]) => {
    loaded.GlobalWorkerOptions.workerSrc = worker.default;
    return loaded as unknown as Library;
  });
  return library;
}

export async function openPdf(data: ArrayBuffer): Promise<PDFDocumentProxy> {
  const { getDocument } = await pdfjs();
  return getDocument({
    data,
    BinaryDataFactory: Bundled,
    // Asked for by name only; the factory knows where they are.
    cMapUrl: "cmaps/",
    cMapPacked: true,
    standardFontDataUrl: "standard_fonts/",
    useWasm: false,
    useWorkerFetch: false,
    isEvalSupported: false,
    enableXfa: false,
    stopAtErrors: false,
  }).promise;
}

/** A rectangle in shares of the page, from its top left corner. */
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** A run of text on a page, in reading order, and where it is. */
export interface Run {
  text: string;
  box: Box;
}

/** The runs of a page. Rotated text keeps its bounding box. */
export async function runs(page: PDFPageProxy): Promise<Run[]> {
  const viewport = page.getViewport({ scale: 1 });
  const content = await page.getTextContent();
  return content.items
    .filter((it): it is TextItem => "str" in it && it.str.trim() !== "")
    .map((item) => {
      const [a, b, , , e, f] = item.transform as [number, number, number, number, number, number];
      const size = item.height || Math.hypot(a, b) || 10;
      const [x, y] = viewport.convertToViewportPoint(e, f) as [number, number];
      return {
        text: item.str,
        box: {
          left: x / viewport.width,
          // The baseline lies about a fifth of the size above the lower edge.
          top: (y - size) / viewport.height,
          width: item.width / viewport.width,
          height: (size * 1.22) / viewport.height,
        },
      };
    });
}

/** Letters and digits only, lower case: what survives of a text through any parser's spacing and hyphens. */
function bare(text: string): string {
  return text.normalize("NFKC").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
}

/** Shortest piece, in letters, that is believed to be the passage and not a coincidence. */
const ANCHOR = 24;

/**
 * Which of `texts` (runs in reading order) belong to `passage`: the stretch that begins and ends where the
 * passage's own words do. Parsers and pdf.js order columns and tables differently, so pieces are looked
 * for one after the other and what is not found is left out.
 */
export function passageRuns(texts: readonly string[], passage: string): Set<number> {
  const starts: number[] = [];
  let all = "";
  for (const text of texts) {
    starts.push(all.length);
    all += bare(text);
  }
  const wanted = bare(passage);
  const inside = new Set<number>();
  const take = (from: number, to: number) => {
    for (const [index, start] of starts.entries()) {
      const end = starts[index + 1] ?? all.length;
      if (end > start && start < to && end > from) inside.add(index);
    }
  };
  const whole = wanted ? all.indexOf(wanted) : -1;
  if (whole >= 0) take(whole, whole + wanted.length);
  else {
    for (let at = 0; at + ANCHOR <= wanted.length; ) {
      const found = all.indexOf(wanted.slice(at, at + ANCHOR));
      if (found < 0) {
        at += 4;
        continue;
      }
      let length = ANCHOR;
      while (at + length < wanted.length && all[found + length] === wanted[at + length]) length += 1;
      take(found, found + length);
      at += length;
    }
  }
  return inside;
}
