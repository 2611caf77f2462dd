// Runs the conformance suite of the protocol's own organisation against a served library.
//
//     npm install --prefix FOLDER @modelcontextprotocol/conformance@0.2.0-alpha.12
//     riddle serve --port 7438
//     node tests/clients/conformance.mjs URL TOKEN FOLDER
//
// The suite is made for a server of its own with tools, prompts and notifications to test; what is offered here is
// checked, and what is not is in NOT_OFFERED with the reason. The suite knows no tokens: they are added on the way.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [, , url, token, folder] = process.argv;
const target = new URL(url);

/** What begins so is not offered, and why. */
const NOT_OFFERED = {
  "logging-": "deprecated since 2026-07-28",
  "completion-": "there are no prompts to complete",
  "prompts-": "there are none",
  "tools-call-": "calls tools of the suite's own server",
  "elicitation-": "nothing is asked back: tools only read",
  "input-required-": "nothing is asked back: tools only read",
  "resources-read-": "reads resources of the suite's own server",
  "resources-templates-read": "reads resources of the suite's own server",
  "resources-subscribe": "passages are not followed",
  "resources-unsubscribe": "passages are not followed",
  "tasks-": "an extension; calls end within their request",
  "http-custom-header-": "no tool asks for headers of its own",
  "json-schema": "calls a tool of the suite's own server",
};

/** Checks that fail for want of the suite's own tools and prompts. */
const NOT_TESTABLE = ["sep-2549-prompts-list-caching-hints"];

const proxy = http.createServer((asked, answer) => {
  const headers = { ...asked.headers, authorization: `Bearer ${token}` };
  const own = `localhost:${proxy.address().port}`;
  if (headers.host === own) headers.host = target.host;
  if (headers.origin === `http://${own}`) headers.origin = `http://${target.host}`;
  const further = http.request({ host: target.hostname, port: target.port, path: asked.url, method: asked.method, headers }, (it) => {
    answer.writeHead(it.statusCode ?? 502, it.headers);
    it.pipe(answer);
  });
  further.on("error", () => answer.destroy());
  asked.pipe(further);
});
await new Promise((ready) => proxy.listen(0, "127.0.0.1", ready));

const out = mkdtempSync(join(tmpdir(), "conformance-"));
const suite = join(folder, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const run = spawn(process.execPath, [suite, "server", "--url", `http://localhost:${proxy.address().port}/mcp`, "--suite", "all", "-o", out], { stdio: "ignore" });
await new Promise((done) => run.on("exit", done));
proxy.close();

let passed = 0;
const failed = [];
const left = new Set();
for (const name of readdirSync(out, { recursive: true })) {
  if (!name.endsWith("checks.json")) continue;
  const file = join(out, name);
  const scenario = file.split("/").at(-2).replace(/^server-/, "").replace(/-\d{4}-.*$/, "");
  const reason = Object.keys(NOT_OFFERED).find((it) => scenario.startsWith(it));
  if (reason) {
    left.add(`${scenario}: ${NOT_OFFERED[reason]}`);
    continue;
  }
  for (const check of JSON.parse(readFileSync(file, "utf8"))) {
    if (check.status === "SUCCESS") passed += 1;
    if (check.status !== "FAILURE" || check.details?.untestable || NOT_TESTABLE.includes(check.id)) continue;
    failed.push(`${scenario}: ${check.id}: ${check.errorMessage}`);
  }
}
rmSync(out, { recursive: true });
for (const it of [...left].sort()) console.log(`left out: ${it}`);
for (const it of failed) console.log(`FAILED ${it}`);
console.log(`${passed} checks passed, ${failed.length} failed`);
process.exit(passed > 0 && failed.length === 0 ? 0 : 1);
