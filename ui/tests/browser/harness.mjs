// A browser on the mock build: served under the app's own content security policy.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chromium } from "playwright-core";
import { preview } from "vite";

export const ui = join(import.meta.dirname, "../..");

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--font-render-hinting=none"];

/** Starts server and browser; `stop` ends both. */
export async function start() {
  const server = await preview({ root: ui, mode: "mock", logLevel: "error", build: { outDir: "dist-mock" }, preview: { port: 4173 } });
  const base = server.resolvedUrls.local[0];
  const profile = mkdtempSync(join(tmpdir(), "riddle-ui-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: FLAGS,
    viewport: { width: 1280, height: 800 },
    locale: "en-GB",
    timezoneId: "Europe/London",
  });
  context.setDefaultTimeout(90_000);
  return {
    base,
    context,
    async stop() {
      await context.close();
      await server.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

/** Opens the app: scenes of the mock, theme, size. Errors of the page are collected in `page.problems`. */
export async function open({ base, context }, { mock = "", theme = "light", text = 100, language = "system", languages = null, width = 1280, height = 800, reduced = true } = {}) {
  const page = await context.newPage();
  // A page behind another one may be given no frames.
  await page.bringToFront();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") page.problems.push(message.text());
  });
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ reducedMotion: reduced ? "reduce" : "no-preference", colorScheme: theme === "dark" ? "dark" : "light" });
  // What the browser says that the system is set to.
  if (languages) await page.addInitScript((it) => Object.defineProperty(navigator, "languages", { value: it, configurable: true }), languages);
  await page.goto(`${base}?mock=${mock}&theme=${theme}&text=${text}&language=${language}`);
  await page.waitForSelector("html[data-ready]", { state: "attached", timeout: 60_000 });
  await page.evaluate(() => document.fonts.ready);
  return page;
}

/** A text of the catalog in the language of the page: `words(page, "library.add")`. */
export const words = (page, path) => page.evaluate((it) => window.mock.words(it), path);

/** The element that says a text of the catalog. */
export const saying = async (page, path) => page.getByText(await words(page, path)).first();

export const button = async (page, path) => page.getByRole("button", { name: await words(page, path), exact: true });

export const view = (page, name) => page.getByTestId(`nav-${name}`).click();

export async function settled(page, query) {
  await page.getByTestId("search-input").fill(query);
  await page.waitForFunction((text) => {
    const state = document.querySelector("[data-testid=results-state]");
    return state?.dataset.query === text && ["settled", "empty"].includes(state.dataset.phase);
  }, query);
}
