// Pictures of every view for docs/screenshots, from the mock build: `npm run screenshots [pattern [language]]`. Views in use are
// taken light and dark at 1280×800 and 900×600; their empty, busy and broken states light and large, dark and small.
// With pngquant, if it is installed, the files are made small.

import { execFileSync } from "node:child_process";
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";

import { button, open, saying, settled, start, ui, view } from "../tests/browser/harness.mjs";

const out = process.env.OUT ?? join(ui, "../docs/screenshots");
const only = process.argv[2] ? new RegExp(process.argv[2]) : /./;
const language = process.argv[3] ?? "system";

async function asked(page, question) {
  await view(page, "ask");
  await page.getByTestId("ask-input").fill(question);
  await page.keyboard.press("Enter");
}

const SCENES = {
  search: { act: (page) => settled(page, "when must the oven door seals be replaced") },
  "search-pdf": { act: async (page) => { await settled(page, "thinnest plate of the hull"); await page.waitForSelector(".page.drawn"); } },
  "search-code": { act: (page) => settled(page, "when does the bilge pump start") },
  "search-table": { mock: "sheet", act: async (page) => { await settled(page, "note hoist spelt yard tarpaulin"); await page.locator("table[role=grid]").waitFor(); } },
  "search-table-document": { mock: "sheet", act: async (page) => { await settled(page, "lock keeper's bun price until tuesday noon"); await page.locator("table[role=grid]").waitFor(); } },
  "search-scan": { mock: "picture,blurred", act: async (page) => { await settled(page, "oven door seals"); await page.locator(".page .box.word").first().waitFor(); } },
  "search-film": { mock: "film", act: async (page) => { await settled(page, "heron lock winter"); await page.getByTestId("preview-film").waitFor(); } },
  "search-empty": { act: async () => {} },
  "search-told": { act: (page) => settled(page, "\"what you see is what you get\" mooring -paint") },
  "search-busy": { mock: "hold", act: async (page) => { await page.getByTestId("search-input").fill("what does the winter mooring cost"); await page.waitForTimeout(900); } },
  "search-none": { act: (page) => settled(page, "zzzzqq xxyyzz") },
  "search-error": { mock: "searchfails", act: async (page) => { await page.getByTestId("search-input").fill("rye"); await (await saying(page, "search.failed")).waitFor(); } },
  why: { act: async (page) => { await settled(page, "what does the winter mooring cost"); await page.keyboard.press("Control+i"); await (await saying(page, "why.bm25")).waitFor(); } },
  keys: { act: (page) => page.keyboard.press("F1") },
  ask: { act: async (page) => { await asked(page, "How often must the oven door seals be replaced?"); await page.waitForSelector("[data-state=done]"); await page.getByTestId("citation").first().click(); } },
  "ask-empty": { act: (page) => view(page, "ask") },
  "ask-busy": { mock: "hold", act: async (page) => { await asked(page, "How much is the rent of the bakery, and when may it be raised?"); await page.waitForTimeout(1200); } },
  "ask-error": { mock: "askfails", act: async (page) => { await asked(page, "What does the winter mooring cost?"); await page.waitForSelector("[data-state=failed]"); } },
  "ask-remote": { mock: "remote,weak", act: async (page) => { await asked(page, "How often must the oven door seals be replaced?"); await page.waitForSelector("[data-state=done]"); await page.getByTestId("prompt").locator("summary").click(); } },
  "ask-local": { mock: "local", act: async (page) => { await asked(page, "How often must the oven door seals be replaced?"); await page.waitForSelector("[data-state=done]"); await page.getByTestId("generation").scrollIntoViewIfNeeded(); } },
  "ask-made-up": { mock: "local,made-up", act: async (page) => { await asked(page, "How often must the oven door seals be replaced?"); await page.getByTestId("files-say").waitFor(); } },
  "pipeline-local": { mock: "large", act: async (page) => { await asked(page, "How often must the oven door seals be replaced?"); await page.waitForSelector("[data-state=done]"); await view(page, "pipeline"); await page.getByTestId("generation-figures").waitFor(); } },
  "pipeline-known": { mock: "local", act: async (page) => { await asked(page, "How often must the oven door seals be replaced?"); await page.waitForSelector("[data-state=done]"); await view(page, "pipeline"); await page.getByTestId("prompt-parts").waitFor(); } },
  pipeline: { act: async (page) => { await settled(page, "what does the winter mooring cost"); await view(page, "pipeline"); await page.getByTestId("replay-result").waitFor(); } },
  "pipeline-compare": { act: async (page) => { await settled(page, "what does the winter mooring cost"); await view(page, "pipeline"); await page.getByTestId("threshold").fill("0.12"); await page.getByTestId("compare").click(); await page.getByTestId("comparison").waitFor(); await page.locator(".memory").scrollIntoViewIfNeeded(); await page.locator(".body").first().evaluate((it) => it.scrollBy(0, 200)); } },
  "pipeline-empty": { act: (page) => view(page, "pipeline") },
  performance: { act: async (page) => { await view(page, "performance"); await page.locator(".uplot").first().waitFor(); } },
  "performance-empty": { mock: "empty", act: (page) => view(page, "performance") },
  library: { act: async (page) => { await view(page, "library"); await page.getByTestId("ledger-filter-failed").click(); await page.getByTestId("ledger-filter-noText").click(); await page.locator("[role=option]").nth(1).click(); } },
  "library-busy": { mock: "busy", act: (page) => view(page, "library") },
  "library-queue": { mock: "queue,share", act: (page) => view(page, "library") },
  "library-empty": { mock: "empty", act: (page) => view(page, "library") },
  "library-error": { mock: "error", act: (page) => view(page, "library") },
  "library-rule": { act: async (page) => { await view(page, "library"); await page.locator("[role=option]").nth(2).click(); await (await button(page, "library.exclude")).click(); await page.locator("dialog .notice").waitFor(); } },
  "gate-locked": { mock: "locked", act: async (page) => { await page.getByTestId("gate-passphrase").fill("another"); await page.keyboard.press("Enter"); await (await page.getByTestId("gate-problem")).getByText(/./).waitFor(); } },
  "gate-encrypt": { mock: "encrypting", act: async (page) => { await page.getByTestId("gate-passphrase").fill("heron"); await page.getByTestId("gate-again").fill("hern"); } },
  settings: { act: (page) => view(page, "settings") },
  "settings-remote": { mock: "remote,far", act: async (page) => { await view(page, "settings"); await page.getByTestId("endpoint-state").scrollIntoViewIfNeeded(); } },
  "pipeline-experts": { mock: "large,experts", act: async (page) => { await asked(page, "How often must the oven door seals be replaced?"); await page.waitForSelector("[data-state=done]"); await view(page, "pipeline"); await page.getByTestId("generation-figures").waitFor(); } },
  "settings-answers": { mock: "large", act: async (page) => { await view(page, "settings"); await (await button(page, "settings.titles.answers")).click(); await page.getByTestId("local-state").waitFor(); } },
  "settings-kept": { mock: "local", act: async (page) => { await view(page, "settings"); await page.getByTestId("kept").scrollIntoViewIfNeeded(); } },
  "settings-writers": { mock: "local", act: async (page) => { await view(page, "settings"); await page.getByTestId("model-fit").last().scrollIntoViewIfNeeded(); } },
  "settings-no-writer": { act: async (page) => { await view(page, "settings"); await page.getByTestId("no-writer").waitFor(); await (await button(page, "settings.titles.answers")).click(); } },
  "settings-download": { mock: "gated", act: async (page) => { await view(page, "settings"); await page.getByTestId("model-by-name").getByRole("textbox").fill("google/gemma-3-4b-it-GGUF"); await page.getByTestId("model-by-name").getByRole("textbox").press("Enter"); await page.getByTestId("plan").waitFor(); } },
  "settings-source": { act: async (page) => { await view(page, "settings"); await page.getByTestId("model-token").scrollIntoViewIfNeeded(); } },
  "settings-trial": { act: async (page) => { await view(page, "settings"); await (await button(page, "models.trial.begin")).click(); await page.getByTestId("trial").scrollIntoViewIfNeeded(); } },
  "settings-programs": { act: async (page) => { await view(page, "settings"); await (await button(page, "settings.titles.programs")).click(); await page.getByTestId("setting-door").click(); await page.getByTestId("door-url").waitFor(); await (await button(page, "settings.titles.programs")).click(); } },
  "settings-inside": { mock: "shared", act: async (page) => { await view(page, "settings"); await page.getByTestId("shared-libraries").getByText("231").waitFor(); await page.getByTestId("shared-inside").last().click(); await page.getByRole("dialog").waitFor(); } },
  "settings-program": { act: async (page) => { await view(page, "settings"); await (await button(page, "door.add")).click(); await page.getByTestId("door-name").fill("Team wiki"); await page.getByTestId("door-another").check(); await page.getByTestId("door-user").fill("ada"); await page.getByTestId("door-groups").fill("team, editors"); } },
  "settings-encryption": { act: async (page) => { await view(page, "settings"); await page.getByTestId("encryption").scrollIntoViewIfNeeded(); } },
  "settings-encrypted": { mock: "sealed", act: async (page) => { await view(page, "settings"); await page.getByTestId("encryption-change").click(); await page.getByTestId("encryption-new").fill("heron"); await page.getByTestId("encryption-again").fill("hero"); await page.getByTestId("encryption-keep").scrollIntoViewIfNeeded(); } },
  "settings-busy": { mock: "hold", act: async (page) => { await view(page, "settings"); await (await button(page, "models.fetch")).nth(1).click(); await page.waitForTimeout(900); } },
  "settings-error": { mock: "error", act: async (page) => { await view(page, "settings"); await (await button(page, "settings.titles.desktop")).click(); } },
  "first-run-1": { mock: "first", act: async (page) => { await page.getByTestId("first-run-path").fill("/home/mira/Documents"); await page.getByTestId("first-run-add").click(); await page.getByTestId("first-run-folder").waitFor(); await (await button(page, "common.dismiss")).click(); } },
  "first-run-2": { mock: "first", act: async (page) => { await page.getByTestId("first-run-next").click(); await page.getByTestId("model-row").first().waitFor(); } },
  "first-run-3": { mock: "first,busy", act: async (page) => { await page.getByTestId("first-run-path").fill("/home/mira/Documents"); await page.getByTestId("first-run-add").click(); await page.getByTestId("first-run-folder").waitFor(); await (await button(page, "common.dismiss")).click(); await page.getByTestId("first-run-next").click(); await page.getByTestId("first-run-next").click(); } },
  banner: { act: async (page) => { await settled(page, "rye flour"); await page.evaluate(() => window.mock.tell({ event: "partUnloaded", part: "reranker", message: "Results are shown in the order of both indexes; the next search loads it anew." })); } },
  "search-german": { language: "de", act: (page) => settled(page, "wann wird Fritzi gefüttert") },
  "ask-german": { language: "de", act: async (page) => { await asked(page, "Wann wird Fritzi gefüttert?"); await page.waitForSelector("[data-state=done]"); await page.getByTestId("citation").first().click(); } },
  "library-german": { language: "de", mock: "busy", act: (page) => view(page, "library") },
  "settings-german": { language: "de", act: async (page) => { await view(page, "settings"); await page.getByTestId("setting-language").scrollIntoViewIfNeeded(); } },
  hostile: { mock: "hostile", act: (page) => settled(page, "hostile harbour") },
};

const SIZES = [
  { tag: "light", theme: "light", width: 1280, height: 800 },
  { tag: "dark", theme: "dark", width: 1280, height: 800 },
  { tag: "light-900x600", theme: "light", width: 900, height: 600 },
  { tag: "dark-900x600", theme: "dark", width: 900, height: 600 },
];
const MAIN = new Set(["search", "search-pdf", "ask", "pipeline", "performance", "library", "settings", "first-run-1"]);

mkdirSync(out, { recursive: true });
const browser = await start();
let bytes = 0;
for (const [name, scene] of Object.entries(SCENES)) {
  const sizes = SIZES.filter(({ tag }) => (MAIN.has(name) || tag === "light" || tag === "dark-900x600") && only.test(`${name}-${tag}`));
  if (sizes.length === 0) continue;
  const page = await open(browser, { mock: scene.mock, theme: "system", language: scene.language ?? language });
  await scene.act(page);
  await page.mouse.move(0, 0);
  for (const { tag, theme, width, height } of sizes) {
    const file = join(out, `${name}-${tag}.png`);
    // The app follows the system's theme, so one page shows them all.
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    await page.waitForTimeout(name === "search-pdf" ? 1200 : 500);
    // On a busy machine colors may still be on their way from the other theme.
    await page.evaluate(async () => {
      const ending = document.getAnimations().filter((it) => it.effect?.getComputedTiming().endTime !== Infinity);
      await Promise.allSettled(ending.map((it) => it.finished));
    });
    await page.screenshot({ path: file });
    try {
      execFileSync("pngquant", ["--force", "--skip-if-larger", "--strip", "--quality=60-95", "--output", file, "128", file]);
    } catch {
      // Not installed, or not smaller: the picture stays as it is.
    }
    bytes += statSync(file).size;
  }
  if (page.problems.length > 0) console.error(`${name}: ${page.problems.join(" | ")}`);
  await page.close();
}
await browser.stop();
console.log(`${(bytes / 1e6).toFixed(2)} MB in ${out}`);
