// A session with the TypeScript SDK, as an agent has one: initialize, list,
// read, a call with progress, a call that is cancelled, errors.
//
//   node session.mjs stdio COMMAND [ARG...]
//   node session.mjs http URL [TOKEN]
//   node session.mjs ws URL [TOKEN]
//
// The SDK is taken from NPM_DIR. The server's workspace must hold a file
// hello.txt that contains "hello".
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(path.join(process.env.NPM_DIR ?? process.cwd(), 'package.json'));
const sdk = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)).href);
const { Client } = await sdk('client/index.js');
const { StdioClientTransport } = await sdk('client/stdio.js');
const { StreamableHTTPClientTransport } = await sdk('client/streamableHttp.js');
const { WebSocketClientTransport } = await sdk('client/websocket.js');
const { ToolListChangedNotificationSchema } = await sdk('types.js');

const [kind, target, ...rest] = process.argv.slice(2);
let transport;
if (kind === 'stdio') {
  transport = new StdioClientTransport({ command: target, args: rest, stderr: 'inherit' });
} else if (kind === 'ws') {
  // The SDK offers no place for a token: a page would offer it as a subprotocol.
  const WebSocket = globalThis.WebSocket;
  if (rest[0]) {
    globalThis.WebSocket = class extends WebSocket {
      constructor(url, protocol) {
        super(url, [protocol, `toolyard.bearer.${rest[0]}`]);
      }
    };
  }
  transport = new WebSocketClientTransport(new URL(target));
} else {
  const headers = rest[0] ? { Authorization: `Bearer ${rest[0]}` } : {};
  transport = new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } });
}

const checks = [];
async function check(name, f) {
  const begin = performance.now();
  await f();
  checks.push(name);
  console.log(`ok    ${kind.padEnd(5)} ${name} (${Math.round(performance.now() - begin)} ms)`);
}

const client = new Client({ name: 'session', version: '1.0.0' }, { capabilities: {} });
client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});
const text = (result) => result.content.filter((c) => c.type === 'text').map((c) => c.text).join('\n');
const has = (tools, name) => tools.some((t) => t.name === name);

await check('initialize', async () => {
  await client.connect(transport);
  assert.equal(client.getServerVersion().name, 'toolyard');
  const capabilities = client.getServerCapabilities();
  for (const c of ['tools', 'resources', 'prompts', 'logging']) assert.ok(capabilities[c], `capability ${c}`);
  assert.ok(client.getInstructions().length < 2048);
});

let tools;
await check('tools/list', async () => {
  tools = [];
  let cursor;
  do {
    const page = await client.listTools({ cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  assert.ok(has(tools, 'read'));
  for (const t of tools) {
    assert.match(t.name, /^[a-zA-Z0-9_-]{1,48}$/);
    assert.equal(t.inputSchema.type, 'object');
    assert.ok(t.annotations.title);
  }
});

await check('prompts and resources', async () => {
  assert.ok(Array.isArray((await client.listPrompts()).prompts));
  assert.ok(Array.isArray((await client.listResourceTemplates()).resourceTemplates));
  const { resources } = await client.listResources();
  const hello = resources.find((r) => r.name === 'hello.txt');
  assert.ok(hello, 'hello.txt is listed');
  const { contents } = await client.readResource({ uri: hello.uri });
  assert.match(contents[0].text, /hello/);
});

await check('read', async () => {
  const result = await client.callTool({ name: 'read', arguments: { file_path: 'hello.txt' } });
  assert.ok(!result.isError, text(result));
  assert.match(text(result), /hello/);
  assert.ok(result._meta['toolyard/call'].duration_ms >= 0);
});

await check('a failure is a result', async () => {
  const result = await client.callTool({ name: 'read', arguments: { file_path: 'missing.txt' } });
  assert.equal(result.isError, true);
  const error = result.structuredContent?.error ?? result._meta['toolyard/error'];
  assert.equal(error.code, 'NOT_FOUND');
  assert.ok(error.message);
});

await check('an unknown tool is an error', async () => {
  await assert.rejects(client.callTool({ name: 'raed', arguments: {} }), (e) => e.code === -32602 && /read/.test(e.message));
});

const slow = (seconds) =>
  has(tools, 'bash')
    ? { name: 'bash', arguments: { command: `for i in $(seq ${seconds * 10}); do echo step $i; sleep 0.1; done` } }
    : { name: 'wait', arguments: { seconds } };

await check('progress', async () => {
  const progress = [];
  const result = await client.callTool(slow(1.5), undefined, { onprogress: (p) => progress.push(p.progress) });
  assert.ok(!result.isError, text(result));
  assert.ok(progress.length >= 2 && progress.length <= 9, `${progress.length} notifications`);
  assert.deepEqual(progress, [...progress].sort((a, b) => a - b));
});

await check('ping during a call, then cancel it', async () => {
  const abort = new AbortController();
  const call = client.callTool(slow(60), undefined, { signal: abort.signal });
  const rejected = assert.rejects(call);
  await new Promise((resolve) => setTimeout(resolve, 200));
  const begin = performance.now();
  await client.ping();
  assert.ok(performance.now() - begin < 1000, 'the ping waited for the call');
  abort.abort('enough');
  await rejected;
  const after = await client.callTool({ name: 'read', arguments: { file_path: 'hello.txt' } });
  assert.ok(!after.isError);
});

await check('100 calls at once', async () => {
  const results = await Promise.all(
    Array.from({ length: 100 }, () => client.callTool({ name: 'read', arguments: { file_path: 'hello.txt' } })),
  );
  for (const r of results) assert.match(text(r), /hello/);
});

await check('close', async () => {
  if (kind === 'http') await transport.terminateSession();
  await client.close();
});
console.log(`${kind}: ${checks.length} checks passed`);
