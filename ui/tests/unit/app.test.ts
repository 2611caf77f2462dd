// The whole app over the mock of the shell: what a person does, and what is said when something fails.

import { render, screen, waitFor, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { mockIPC } from "@tauri-apps/api/mocks";
import { beforeEach, describe, expect, it } from "vitest";

import App from "../../src/App.svelte";
import Markdown from "../../src/components/preview/Markdown.svelte";
import Name from "../../src/components/Name.svelte";
import { app } from "../../src/lib/app.svelte";
import { search } from "../../src/lib/search.svelte";
import { install } from "../../src/mock/install";

interface Mock {
  calls: { command: string; args: Record<string, unknown> }[];
  tell: (event: unknown) => void;
}
const mock = () => (window as unknown as { mock: Mock }).mock;
const called = (command: string) => mock().calls.filter((it) => it.command === command);

async function begin() {
  install();
  render(App);
  await waitFor(() => expect(document.documentElement.dataset["ready"]).toBe(""));
}

beforeEach(() => {
  delete document.documentElement.dataset["ready"];
  app.problem = "";
  app.start = null;
  app.unloaded = null;
  app.view = "search";
  app.keysShown = false;
  search.type("");
});

describe("the app", () => {
  it("starts with one command, subscribes, and says that it is ready", async () => {
    await begin();
    expect(mock().calls.slice(0, 2).map((it) => it.command)).toEqual(["start", "events"]);
    await waitFor(() => expect(called("ready")).toHaveLength(1));
    await waitFor(() => expect(screen.getByTestId("search-input")).toHaveFocus());
  });

  it("shows the passage of a link, and opens its file only when it is asked to", async () => {
    await begin();
    mock().tell({ event: "linked", chunk: 1 });
    const linked = await screen.findByTestId("linked");
    await waitFor(() => expect(called("preview").some((it) => it.args["chunk"] === 1)).toBe(true));
    expect(called("open_file")).toHaveLength(0);
    const dialog = linked.closest("dialog") as HTMLElement;
    await userEvent.click(within(dialog).getByRole("button", { name: "Open" }));
    expect(called("open_file").at(-1)?.args["target"]).toEqual({ kind: "chunk", chunk: 1 });
    app.linked = null;
    await waitFor(() => expect(screen.queryByTestId("linked")).toBeNull());
  });

  it("takes folders and language models that are dropped", async () => {
    await begin();
    mock().tell({ event: "dropped", paths: ["/home/me/notes", "/home/me/Download/Small 1B (Q4).GGUF"] });
    await waitFor(() => expect(called("library_add").at(-1)?.args["paths"]).toEqual(["/home/me/notes"]));
    await waitFor(() => expect(called("model_import").at(-1)?.args["path"]).toBe("/home/me/Download/Small 1B (Q4).GGUF"));
    await userEvent.click(await screen.findByRole("button", { name: "Answer with it" }));
    await waitFor(() => expect(called("settings_set").at(-1)?.args["settings"]).toMatchObject({ llm: "local:imported" }));
    await screen.findByText("imported writes the answers from now on");
  });

  it("goes on with what was typed elsewhere", async () => {
    await begin();
    app.go("settings");
    mock().tell({ event: "typed", text: "blue boat" });
    await waitFor(() => expect(app.view).toBe("search"));
    await waitFor(() => expect((screen.getByTestId("search-input") as HTMLInputElement).value).toBe("blue boat"));
  });

  it("tells how a query was understood, and shows what was typed as text", async () => {
    await begin();
    const input = screen.getByTestId<HTMLInputElement>("search-input");
    input.value = "\"<img src=x onerror=alert(1)>\" mooring -<b>paint -oak";
    input.dispatchEvent(new Event("input", { bubbles: true }));
    const notice = await screen.findByText(/was not found as it is quoted/);
    expect(notice).toHaveTextContent("“\u2068<img src=x onerror=alert(1)>\u2069” was not found as it is quoted. Its words were searched for instead.");
    expect(screen.getByText(/^Without/)).toHaveTextContent("Without “\u2068oak\u2069”");
    expect(notice.closest(".notice")).toHaveClass("info");
    expect(document.querySelector("img[src=x]")).toBeNull();
  });

  it("says why it can not start, and offers to try again", async () => {
    mockIPC(() => Promise.reject({ code: "other", message: "The data folder can not be written." }));
    render(App);
    expect(await screen.findByText("The data folder can not be written.")).toBeVisible();
    expect(screen.getByRole("button", { name: "Try again" })).toBeVisible();
    expect(document.documentElement.dataset["ready"]).toBe("");
  });

  it("finds, previews, opens and reveals by keyboard alone", async () => {
    const user = userEvent.setup();
    await begin();
    await user.type(screen.getByTestId("search-input"), "door seals");
    await waitFor(() => expect(screen.getByTestId("results-state")).toHaveAttribute("data-phase", "settled"));
    const rows = screen.getAllByTestId("result");
    expect(rows[0]).toHaveAttribute("aria-selected", "true");
    await waitFor(() => expect(screen.getByTestId("preview")).toHaveAttribute("data-chunk", rows[0]?.dataset["chunk"]));
    await user.keyboard("{ArrowDown}");
    expect(screen.getAllByTestId("result")[1]).toHaveAttribute("aria-selected", "true");
    expect(screen.getByTestId("search-input")).toHaveAttribute("aria-activedescendant", screen.getAllByTestId("result")[1]?.id);
    await user.keyboard("{Enter}");
    await user.keyboard("{Control>}{Enter}{/Control}");
    const target = { kind: "chunk", chunk: Number(screen.getAllByTestId("result")[1]?.dataset["chunk"]) };
    expect(called("open_file").at(-1)?.args).toEqual({ target });
    expect(called("reveal_file").at(-1)?.args).toEqual({ target });
  });

  it("changes the view by number keys, and comes back to the results", async () => {
    const user = userEvent.setup();
    await begin();
    await user.type(screen.getByTestId("search-input"), "rye");
    await user.keyboard("{Control>}2{/Control}");
    expect(screen.getByTestId("nav-ask")).toHaveAttribute("aria-current", "page");
    expect(screen.getByTestId("ask-input")).toHaveFocus();
    await user.keyboard("{Control>}k{/Control}");
    expect(screen.getByTestId("search-input")).toHaveValue("rye");
    await waitFor(() => expect(screen.getByTestId("search-input")).toHaveFocus());
  });

  it("answers with citations that open the passage, and with what was not searched", async () => {
    const user = userEvent.setup();
    await begin();
    await user.click(screen.getByTestId("nav-ask"));
    await user.type(screen.getByTestId("ask-input"), "What does the winter mooring cost?{Enter}");
    await waitFor(() => expect(screen.getByTestId("answer")).toHaveAttribute("data-state", "done"));
    expect(screen.getAllByTestId("answer-sentence").map((it) => it.textContent).join(" ")).toContain("£412");
    const citation = screen.getAllByTestId("citation")[0] as HTMLElement;
    await user.click(citation);
    await waitFor(() => {
      const previews = screen.getAllByTestId("preview");
      expect(previews.some((it) => it.dataset["chunk"] === citation.dataset["chunk"])).toBe(true);
    });
    await user.click(screen.getByTestId("not-searched"));
    expect(screen.getByTestId("nav-library")).toHaveAttribute("aria-current", "page");
    const query = called("ledger").at(-1)?.args["query"] as { states: string[] };
    expect(query.states).toContain("failed");
  });

  it("shows a banner when a part of the program broke down, until it is dismissed", async () => {
    const user = userEvent.setup();
    await begin();
    mock().tell({ event: "partUnloaded", part: "reranker", message: "The next search loads it anew." });
    const banner = await screen.findByTestId("banner");
    expect(banner).toHaveTextContent("reranker");
    await user.click(within(banner).getByRole("button"));
    expect(screen.queryByTestId("banner")).toBeNull();
  });

  it("removes a folder only after a yes", async () => {
    const user = userEvent.setup();
    await begin();
    await user.click(screen.getByTestId("nav-library"));
    const actions = await screen.findAllByRole("button", { name: /Actions for/ });
    await user.click(actions[0] as HTMLElement);
    await user.click(screen.getByRole("menuitem", { name: "Remove from the library" }));
    expect(called("library_remove")).toHaveLength(0);
    await user.click(within(screen.getByRole("dialog")).getByRole("button", { name: "Cancel" }));
    expect(called("library_remove")).toHaveLength(0);
  });

  it("reads browsing history only after a yes, and no longer after a no", async () => {
    const user = userEvent.setup();
    await begin();
    await user.click(screen.getByTestId("nav-settings"));
    const toggle = screen.getByTestId("setting-browsing");
    expect(toggle).not.toBeChecked();
    await user.click(toggle);
    await waitFor(() => expect(called("library_browsing").at(-1)?.args).toEqual({ may: true }));
    await waitFor(() => expect(app.library.readsBrowsing).toBe(true));
    expect(toggle).toBeChecked();
    await user.click(toggle);
    await waitFor(() => expect(called("library_browsing").at(-1)?.args).toEqual({ may: false }));
  });

  it("switches the network off for the whole program", async () => {
    const user = userEvent.setup();
    await begin();
    await user.click(screen.getByTestId("nav-settings"));
    await user.click(screen.getByTestId("setting-offline"));
    await waitFor(() => expect(called("settings_set").at(-1)?.args["settings"]).toMatchObject({ offline: true }));
    await waitFor(() => expect(screen.getAllByRole("button", { name: "Download" })[0]).toBeDisabled());
  });
});

describe("tags", () => {
  it("are typed, asked for, and cleared with the other filters", async () => {
    const user = userEvent.setup();
    await begin();
    await user.type(await screen.findByTestId("search-input"), "rye");
    await user.click(screen.getByTestId("filter-tag"));
    await user.type(within(screen.getByRole("dialog")).getByRole("textbox"), "#project, bread{Enter}");
    const asked = () => called("search").at(-1)?.args["query"] as { filter: { tags: string[] } } | undefined;
    await waitFor(() => expect(asked()?.filter.tags).toEqual(["project", "bread"]));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(screen.getByTestId("filter-tag")).toHaveTextContent("2 tags");
    await user.click(within(screen.getByRole("toolbar", { name: "Filters" })).getByRole("button", { name: "Clear" }));
    await waitFor(() => expect(asked()?.filter.tags).toEqual([]));
    expect(screen.getByTestId("filter-tag")).toHaveTextContent("Any tag");
  });
});

describe("shared libraries", () => {
  it("are searched beside this computer's files where they are known", async () => {
    const user = userEvent.setup();
    await begin();
    expect(screen.queryByTestId("filter-library")).toBeNull();
    app.library = { ...app.library, shared: ["team"] };
    await user.click(await screen.findByTestId("filter-library"));
    await user.click(await screen.findByRole("menuitemcheckbox", { name: "team" }));
    await user.type(screen.getByTestId("search-input"), "rye");
    const asked = () => called("search").at(-1)?.args["query"] as { filter: { libraries: string[] } } | undefined;
    await waitFor(() => expect(asked()?.filter.libraries).toEqual(["home", "team"]));
    expect(screen.getByTestId("filter-library")).toHaveTextContent("2 libraries");
    await user.click(within(screen.getByRole("toolbar", { name: "Filters" })).getByRole("button", { name: "Clear" }));
    await waitFor(() => expect(asked()?.filter.libraries).toEqual([]));
  });
});

describe("models", () => {
  it("are tried on the person's files, and the best is chosen from the table", async () => {
    const user = userEvent.setup();
    await begin();
    await user.click(screen.getByTestId("nav-settings"));
    await user.click(await screen.findByRole("button", { name: "Try the models on my files" }));
    const rows = await screen.findAllByTestId("trial-row", undefined, { timeout: 4000 });
    expect(rows.filter((it) => it.dataset["advised"] === "true")).toHaveLength(2);
    expect(rows[2]).toHaveTextContent("multilingual-e5-small");
    expect(rows[2]).toHaveTextContent("9.1 ms · 61 passages/s");
    expect(rows[0]).not.toHaveTextContent("passages/s");
    expect(rows[3]).toHaveTextContent("does not read 18 % of your files");
    const [reranker, embedder] = screen.getAllByTestId("trial-not-read");
    expect(reranker).toHaveTextContent("promises nothing for these kinds of files: Code");
    expect(embedder).toHaveTextContent("all-MiniLM-L6-v2 does not read German, which 18 % of your files are in.");
    expect(embedder).toHaveTextContent("Installed and reads that: multilingual-e5-small.");
    await user.click(within(rows[2] as HTMLElement).getByRole("button", { name: "Use" }));
    await waitFor(() => expect(called("model_use").at(-1)?.args).toMatchObject({ kind: "embedder", name: "multilingual-e5-small" }));
  });
});

describe("a server that embeds", () => {
  it("is sent no library before that is allowed, and is known by its model", async () => {
    const user = userEvent.setup();
    await begin();
    await user.click(screen.getByTestId("nav-settings"));
    const form = await screen.findByTestId("model-server-embedder");
    await user.type(within(form).getByTestId("server-address"), "http://gpu-box:11434/v1");
    const use = within(form).getByRole("button", { name: "Use" });
    expect(use).toBeDisabled();
    await user.type(within(form).getByTestId("server-model"), "nomic-embed-text");
    await user.click(use);
    const asked = { kind: "embedder", name: "http://gpu-box:11434/v1#nomic-embed-text", key: "" };
    expect(called("model_use_server").at(-1)?.args).toEqual({ ...asked, allow: false });
    const allow = await screen.findByTestId("server-allow");
    expect(allow.closest("dialog")).toHaveTextContent("Every passage of your files would be sent there");
    expect(allow.closest("dialog")).toHaveTextContent("http://gpu-box:11434/v1");
    await user.click(allow);
    expect(called("model_use_server").at(-1)?.args).toEqual({ ...asked, allow: true });
    const row = await waitFor(() => screen.getAllByTestId("model-row").find((it) => it.dataset["name"] === asked.name) as HTMLElement);
    expect(row).toHaveTextContent("while it is away, words alone are searched");
  });
});

describe("a server that reranks", () => {
  it("is sent nothing before that is allowed, and is left for the model that was there before", async () => {
    const user = userEvent.setup();
    await begin();
    await user.click(screen.getByTestId("nav-settings"));
    const form = await screen.findByTestId("model-server");
    await user.type(within(form).getByTestId("server-address"), "http://gpu-box:8080/v1/rerank");
    await user.type(within(form).getByTestId("server-model"), "bge");
    await user.type(within(form).getByTestId("server-key"), "secret");
    await user.click(within(form).getByRole("button", { name: "Use" }));
    const asked = { kind: "reranker", name: "http://gpu-box:8080/v1/rerank#bge", key: "secret" };
    expect(called("model_use_server").at(-1)?.args).toEqual({ ...asked, allow: false });
    const allow = await screen.findByTestId("server-allow");
    expect(allow.closest("dialog")).toHaveTextContent("Passages of folders that never leave this computer are not");
    await user.click(allow);
    expect(called("model_use_server").at(-1)?.args).toEqual({ ...asked, allow: true });
    await waitFor(() => expect(within(form).getByTestId("server-key")).toHaveValue(""));
    const row = await waitFor(() => screen.getAllByTestId("model-row").find((it) => it.dataset["name"] === asked.name) as HTMLElement);
    expect(row).toHaveTextContent("a server; where it can not rank");
    await user.click(within(row).getByRole("button", { name: "Stop using" }));
    await waitFor(() => expect(called("model_use").at(-1)?.args).toMatchObject({ kind: "reranker" }));
    expect(called("model_use").at(-1)?.args["name"]).not.toBeNull();
  });
});

describe("the language", () => {
  it("is chosen in the settings, kept, and on screen at once, with what is open as it was", async () => {
    const user = userEvent.setup();
    await begin();
    await user.type(screen.getByTestId("search-input"), "rye");
    await user.click(screen.getByTestId("nav-settings"));
    await user.selectOptions(screen.getByTestId("setting-language"), "Deutsch");
    expect(screen.getByRole("heading", { name: "Darstellung" })).toBeVisible();
    expect(document.documentElement).toHaveAttribute("lang", "de");
    await waitFor(() => expect(called("settings_set").at(-1)?.args["settings"]).toMatchObject({ language: "de" }));
    await user.click(screen.getByTestId("nav-search"));
    expect(screen.getByTestId("search-input")).toHaveValue("rye");
    expect(screen.getByTestId("search-input")).toHaveAccessibleName("Ihre Dateien durchsuchen");
    await user.click(screen.getByTestId("nav-settings"));
    await user.selectOptions(screen.getByTestId("setting-language"), "Wie das System");
    expect(screen.getByRole("heading", { name: "Appearance" })).toBeVisible();
    expect(document.documentElement).toHaveAttribute("lang", "en");
  });
});

describe("what others have written", () => {
  it("is text in Markdown, whatever it says", () => {
    const source = '# <script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n[click](javascript:alert(1)) ![pic](http://example.com/x.png)\n\n<svg onload="alert(1)"></svg>\n\n| <b>a</b> |\n|-|\n| <iframe> |\n';
    const { container } = render(Markdown, { source, terms: null, passage: null });
    expect(container.querySelector("script, img, svg, iframe, a, b")).toBeNull();
    expect(container).toHaveTextContent("<script>alert(1)</script>");
    expect(container).toHaveTextContent("<iframe>");
  });

  it("marks the passage's blocks by their lines", () => {
    const { container } = render(Markdown, { source: "# A\n\none\n\n## B\n\ntwo\nthree\n\nfour\n", terms: null, passage: [7, 8] });
    expect([...container.querySelectorAll(".passage")].map((it) => it.textContent)).toEqual(["two\nthree"]);
  });

  it("is isolated in names, and its tricks are spelled out", () => {
    const { container } = render(Name, { text: "invoice\u202egpj.exe" });
    expect(container.querySelector("bdi")).toHaveTextContent("invoiceU+202Egpj.exe");
  });
});
