
'use strict';
const byId = (id) => document.getElementById(id);
const make = (name, text, kind) => {
  const it = document.createElement(name);
  if (text !== undefined) it.textContent = text;
  if (kind) it.className = kind;
  return it;
};
const say = (text) => { byId('state').textContent = text; };
const ask = (method, path, body) => fetch(path, {
  method,
  body,
  headers: { authorization: 'Bearer ' + byId('token').value.trim(), 'content-type': 'application/json' },
});
// An example of what a schema takes: what must be there, and nothing else.
const example = (schema, depth = 0) => {
  if (!schema || depth > 5) return null;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf) return example(schema.anyOf[0], depth + 1);
  switch (schema.type) {
    case 'object': {
      const out = {};
      for (const name of schema.required || []) out[name] = example((schema.properties || {})[name], depth + 1);
      return out;
    }
    case 'array': return [example(schema.items, depth + 1)];
    case 'integer': case 'number': return schema.minimum || 0;
    case 'boolean': return false;
    case 'string': return 'winter mooring';
    default: return null;
  }
};
const route = (method, path, operation) => {
  const box = make('details');
  const head = make('summary');
  head.append(make('span', method.toUpperCase(), 'method'), make('code', path), ' ' + (operation.summary || ''));
  box.append(head);
  const schema = operation.requestBody && operation.requestBody.content['application/json'].schema;
  const input = make(schema ? 'textarea' : 'input');
  if (schema) { input.rows = 8; input.value = JSON.stringify(example(schema), null, 2); } else { input.value = path; }
  input.setAttribute('aria-label', schema ? 'Body for ' + path : 'Address');
  const send = make('button', 'Send');
  const out = make('pre');
  out.hidden = true;
  out.tabIndex = 0;
  send.addEventListener('click', async () => {
    send.disabled = true;
    out.hidden = false;
    out.textContent = '…';
    try {
      const started = performance.now();
      const answer = schema ? await ask(method.toUpperCase(), path, input.value) : await ask('GET', input.value);
      const text = await answer.text();
      let shown = text;
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* events, or figures */ }
      out.textContent = answer.status + ' in ' + Math.round(performance.now() - started) + ' ms\n\n' + shown;
    } catch (error) {
      out.textContent = String(error);
    }
    send.disabled = false;
  });
  const row = make('p');
  row.append(input, ' ', send);
  box.append(row, out);
  return box;
};
const list = async () => {
  say('');
  try {
    const answer = await ask('GET', '/openapi.json');
    if (!answer.ok) {
      say(answer.status === 401 ? 'This is not the token.' : 'The server answers ' + answer.status + '.');
      return;
    }
    const all = await answer.json();
    const boxes = [];
    for (const [path, methods] of Object.entries(all.paths)) {
      for (const [method, operation] of Object.entries(methods)) boxes.push(route(method, path, operation));
    }
    byId('routes').replaceChildren(...boxes);
  } catch (error) {
    say(String(error));
  }
};
byId('list').addEventListener('click', list);
byId('token').addEventListener('keydown', (event) => { if (event.key === 'Enter') list(); });
