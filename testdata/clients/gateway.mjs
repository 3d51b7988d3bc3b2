// Calls the servers behind the gateway with the TypeScript SDK.
//
//   node gateway.mjs stdio COMMAND [ARG...]
//   node gateway.mjs http|ws URL TOKEN
//
// The SDK is taken from NPM_DIR. run.sh adds the servers; the workspace is the
// working directory.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(path.join(process.env.NPM_DIR ?? process.cwd(), 'package.json'));
const sdk = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await sdk('client/index.js');

const [kind, target, ...rest] = process.argv.slice(2);
async function transport() {
  if (kind === 'stdio') {
    const { StdioClientTransport } = await sdk('client/stdio.js');
    return new StdioClientTransport({ command: target, args: rest, stderr: 'inherit' });
  }
  if (kind === 'http') {
    const { StreamableHTTPClientTransport } = await sdk('client/streamableHttp.js');
    return new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } });
  }
  const { WebSocketClientTransport } = await sdk('client/websocket.js');
  const WebSocket = globalThis.WebSocket;
  globalThis.WebSocket = class extends WebSocket {
    constructor(url, protocol) {
      super(url, [protocol, `toolyard.bearer.${rest[0]}`]);
    }
  };
  return new WebSocketClientTransport(new URL(target));
}

const client = new Client({ name: 'gateway', version: '1.0.0' }, { capabilities: {} });
await client.connect(await transport());

const hello = path.join(process.cwd(), 'hello.txt');
const thought = { thought: 'one', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 };
const entity = { name: `Ada ${kind}`, entityType: 'person', observations: ['wrote programs'] };
const calls = [
  ['plain__shout', { text: 'hi' }, /HI/],
  ['everything__echo', { message: `over ${kind}` }, new RegExp(`over ${kind}`)],
  ['filesystem__read_text_file', { path: hello }, /hello/],
  ['memory__create_entities', { entities: [entity] }, /Ada/],
  ['memory__read_graph', {}, new RegExp(entity.name)],
  ['thinking__sequentialthinking', thought, /thoughtNumber/],
];
for (const [name, args, want] of calls) {
  const result = await client.callTool({ name, arguments: args }, undefined, { timeout: 120_000 });
  const text = result.content.map((c) => c.text ?? '').join('\n');
  assert.ok(!result.isError, `${name}: ${text}`);
  assert.match(text, want, name);
  console.log(`ok    ${kind.padEnd(5)} ${name}`);
}
await client.close();
