// Asks a served library with clients in TypeScript that others wrote, unchanged: openai and the protocol's own SDK.
//
//     npm install --prefix FOLDER openai @modelcontextprotocol/sdk
//     node tests/clients/check.mjs URL TOKEN RIDDLE HOME FOLDER

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [, , url, token, riddle, home, folder] = process.argv;
const require = createRequire(join(folder, "package.json"));
const version = (name) => JSON.parse(require("node:fs").readFileSync(join(folder, "node_modules", name, "package.json"), "utf8")).version;
const QUESTION = "How much does the winter mooring cost a year?";

async function withOpenai() {
  const { OpenAI } = require("openai");
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });
  const models = await client.models.list();
  assert.equal(models.data[0].id, "riddle");
  const vectors = await client.embeddings.create({ model: "riddle", input: ["The hull is blue.", "Rye."] });
  assert.equal(vectors.data.length, 2);
  const messages = [{ role: "user", content: QUESTION }];
  const whole = await client.chat.completions.create({ model: "riddle", messages });
  assert.match(whole.choices[0].message.content, /640/);
  let said = "";
  for await (const piece of await client.chat.completions.create({ model: "riddle", messages, stream: true })) said += piece.choices[0]?.delta?.content ?? "";
  assert.equal(said.trim(), whole.choices[0].message.content.trim());
  const response = await client.responses.create({ model: "riddle", input: QUESTION });
  assert.match(response.output_text, /640/);
  assert.equal(response.output[0].content[0].annotations[0].type, "url_citation");
  let last;
  for await (const event of await client.responses.create({ model: "riddle", input: QUESTION, stream: true })) last = event;
  assert.equal(last.type, "response.completed");
  const left = await client.chat.completions.create({ model: "riddle", messages, stream: true });
  left.controller.abort();
  const wrong = new OpenAI({ baseURL: `${url}/v1`, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(wrong.models.list(), { status: 401 });
  return `openai ${version("openai")}`;
}

async function conversation(transport) {
  const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
  const client = new Client({ name: "check", version: "1" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((it) => it.name), ["search", "read", "answer", "check_claims", "rerank", "status"]);
  const found = await client.callTool({ name: "search", arguments: { query: "winter mooring", limit: 1 } });
  const passage = found.structuredContent.passages[0];
  assert.match(passage.text, /640/);
  const read = await client.readResource({ uri: passage.uri });
  assert.match(read.contents[0].text, /640/);
  const wrong = await client.callTool({ name: "search", arguments: { query: "x", path: "/etc" } });
  assert.equal(wrong.isError, true);
  await client.close();
}

async function withProtocol() {
  const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
  const headers = { Authorization: `Bearer ${token}` };
  await conversation(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }));
  await conversation(new StdioClientTransport({ command: riddle, args: ["mcp", "--home", home], stderr: "ignore" }));
  return `@modelcontextprotocol/sdk ${version("@modelcontextprotocol/sdk")}`;
}

for (const check of [withOpenai, withProtocol]) console.log(`ok: ${await check()}`);
