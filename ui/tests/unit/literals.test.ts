// Words for people stand in the catalogs alone: components and rules are looked through for text of their own.

import { parse } from "svelte/compiler";
import { expect, test } from "vitest";

const svelte = import.meta.glob<string>("../../src/**/*.svelte", { query: "?raw", import: "default", eager: true });
const scripts = import.meta.glob<string>(["../../src/**/*.ts", "!../../src/mock/**", "!../../src/lib/strings/**", "!../../src/lib/bindings.ts"], { query: "?raw", import: "default", eager: true });

/** Attributes that people read or hear. */
const READ = new Set(["title", "label", "alt", "text", "hint", "placeholder", "aria-label", "aria-description", "aria-roledescription", "aria-valuetext", "caption"]);
const SAID = new Set(["say"]);
const LETTER = /\p{L}/u;
/** Two words beside each other: text, in nearly every case. */
const PROSE = /\p{L}{2,} \p{L}{2,}/u;

/** What looks like text and is none: words of languages and styles, what a character is called, messages of libraries. */
const NO_TEXT: Record<string, RegExp> = {
  "lib/code.ts": /\b(abstract|double|goto|mut|self|unsafe|str) /,
  "lib/marks.ts": /\b(a an|their then|der die) /,
  "lib/names.ts": /^U\+$/,
  "lib/pdf.ts": /^is not among the fonts/,
  "components/charts/Plot.svelte": /^(11px Inter Variable|color-mix\(in oklab)/,
  "main.ts": /^index\.html has no/,
};

interface Node {
  type: string;
  [key: string]: unknown;
}

const isNode = (it: unknown): it is Node => typeof it === "object" && it !== null && typeof (it as Node).type === "string";
const children = (node: Node): Node[] => Object.values(node).flatMap((it) => (Array.isArray(it) ? it : [it])).filter(isNode);

/** The pieces of text that an expression may come to. */
function results(node: Node): string[] {
  const of = (key: string) => (isNode(node[key]) ? results(node[key]) : []);
  switch (node.type) {
    case "Literal":
      return typeof node["value"] === "string" ? [node["value"]] : [];
    case "TemplateLiteral":
      return (node["quasis"] as { value: { raw: string } }[]).map((it) => it.value.raw).concat((node["expressions"] as Node[]).flatMap(results));
    case "ConditionalExpression":
      return [...of("consequent"), ...of("alternate")];
    case "LogicalExpression":
    case "BinaryExpression":
      return node["operator"] === "===" || node["operator"] === "!==" ? [] : [...of("left"), ...of("right")];
    case "ExpressionTag":
      return of("expression");
    case "Text":
      return [String(node["data"])];
    default:
      return [];
  }
}

/** Text for people in the source of a component, or of a script in a `<script>`. */
export function literals(source: string): string[] {
  const found: string[] = [];
  const keep = (texts: string[]) => found.push(...texts.map((it) => it.trim()).filter((it) => LETTER.test(it)));
  const visit = (node: Node, drawn: boolean) => {
    if (node.type === "ImportDeclaration" || node.type === "StyleDirective" || node.type === "Comment") return;
    if (node.type === "Attribute") {
      const value = [node["value"]].flat().filter(isNode);
      if (READ.has(String(node["name"]))) return keep(value.flatMap(results));
      // Classes, paths and identifiers are for the machine; what runs in a handler may still speak.
      for (const it of value) if (it.type === "ExpressionTag") visit(it, false);
      return;
    }
    if (node.type === "Text" || (node.type === "ExpressionTag" && drawn)) keep(results(node));
    if (node.type === "Property" && READ.has(String((node["key"] as Node)["name"] ?? (node["key"] as Node)["value"])) && isNode(node["value"])) keep(results(node["value"]));
    if (node.type === "CallExpression" && SAID.has(String(((node["callee"] as Node)["property"] as Node | undefined)?.["name"]))) keep((node["arguments"] as Node[]).slice(0, 1).flatMap(results));
    if (node.type === "Literal" && PROSE.test(String(node["value"]))) keep([String(node["value"])]);
    if (node.type === "TemplateElement" && PROSE.test((node["value"] as { raw: string }).raw)) keep([(node["value"] as { raw: string }).raw]);
    for (const child of children(node)) visit(child, drawn || node.type === "Fragment");
  };
  const root = parse(source, { modern: true }) as unknown as Record<string, unknown>;
  for (const part of [root["module"], root["instance"], root["fragment"]]) if (isNode(part)) for (const it of isNode(part["content"]) ? [part["content"]] : [part]) visit(it, part.type === "Fragment");
  return [...new Set(found)];
}

const name = (path: string) => path.replace("../../src/", "");

test("text of one's own is found, wherever it hides", () => {
  const hidden = `<script lang="ts">
    import x from "some module of theirs";
    const items = [{ label: "Open", keys: ["Ctrl"] }];
    const sentence = (n: number) => \`There are \${n} of them\`;
    app.say("Done");
  </script>
  <h1 class="one two">Hello</h1>
  <button title={x ? "Close" : t.common.close} data-testid="close-it" onclick={() => app.say("Gone")}>{t.search.open}</button>
  <p>{n > 1 ? "many" : ""}{t.search.found(n)}{list.join(" und ")} · 100 %</p>`;
  expect(literals(hidden)).toEqual(["Open", "There are", "of them", "Done", "Hello", "Close", "Gone", "many"]);
});

test("no component and no rule has text of its own", () => {
  const all = [...Object.entries(svelte), ...Object.entries(scripts).map(([path, source]) => [path, `<script lang="ts">${source}\n</script>`] as const)];
  expect(all.length).toBeGreaterThan(70);
  const found = all.flatMap(([path, source]) => literals(source).filter((it) => !NO_TEXT[name(path)]?.test(it)).map((it) => `${name(path)}: ${it}`));
  expect(found).toEqual([]);
});
