import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, beforeEach, test } from 'node:test';
import tool from './ollama-remote.tool.js';
import { address } from './lib/server.js';

// A server that answers as Ollama does (docs.ollama.com/api, and what 0.12 sends).
let server;
let base;
let requests;
let routes;
before(async () => {
  server = createServer(async (request, answer) => {
    let body = '';
    for await (const part of request) body += part;
    requests.push({ method: request.method, url: request.url, headers: request.headers, body: body && JSON.parse(body) });
    const route = routes[request.url];
    if (!route) return answer.writeHead(404).end('404 page not found');
    return route(answer, body && JSON.parse(body), request);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  base = `http://127.0.0.1:${server.address().port}`;
});
after(() => { server.closeAllConnections(); return new Promise((done) => server.close(done)); });
beforeEach(() => { requests = []; routes = {}; });

const json = (value, status = 200) => (answer) => answer.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(value));
const lines = (...values) => (answer) => {
  answer.writeHead(200, { 'content-type': 'application/x-ndjson' });
  for (const v of values) answer.write(typeof v === 'string' ? v : `${JSON.stringify(v)}\n`);
  answer.end();
};
const piece = (content, more) => ({ model: 'llama3.2', created_at: '2026-01-01T00:00:00.000000Z', message: { role: 'assistant', content, ...more }, done: false });
const end = { ...piece(''), done_reason: 'stop', done: true, total_duration: 4883583458, load_duration: 1334875, prompt_eval_count: 26, prompt_eval_duration: 342546000, eval_count: 282, eval_duration: 4535599000 };

function call(params, { env = {}, signal, progress = () => {} } = {}) {
  const all = { OLLAMA_HOST: base, OLLAMA_TIMEOUT: '5', ...env };
  const self = { ...tool, api: { signal, progress, environment: { get: (name) => all[name] }, logger: { debug() {} } } };
  return self.execute(params);
}

const failed = (code, says) => (error) => {
  assert.equal(error.code, code, error.stack);
  assert.match(error.message, says);
  assert.equal(tool.getBusinessErrors().find((e) => e.match.test(error.message))?.code, code);
  return true;
};

test('models', async () => {
  routes['/api/tags'] = json({ models: [
    { name: 'deepseek-r1:latest', model: 'deepseek-r1:latest', modified_at: '2025-05-10T08:06:48.639712648-07:00', size: 4683075271, digest: '0a8c', details: { parent_model: '', format: 'gguf', family: 'qwen2', families: ['qwen2'], parameter_size: '7.6B', quantization_level: 'Q4_K_M' } },
    { name: 'gpt-oss:120b-cloud', model: 'gpt-oss:120b-cloud', remote_model: 'gpt-oss:120b', remote_host: 'https://ollama.com:443', size: 384, details: {} },
    { name: 'cloudy-api', size: 0, details: null },
  ] });
  const all = await call({ method: 'list_models' });
  assert.deepEqual(all.models.map((m) => [m.name, m.size, m.type]), [['deepseek-r1:latest', '4.7 GB', 'local'], ['gpt-oss:120b-cloud', '384 B', 'remote'], ['cloudy-api', '0 B', 'local']]);
  assert.equal(all.models[0].parameters, '7.6B');
  const remote = await call({ only_remote: true });
  assert.deepEqual([remote.total, remote.displayed, remote.models[0].name], [3, 1, 'gpt-oss:120b-cloud']);
  routes['/api/tags'] = json({ models: null });
  assert.match((await call({ method: 'list' })).message, /no models/);
  routes['/api/tags'] = json({ models: [] });
  assert.match((await call({ method: 'list' })).message, /no models/);
  routes['/api/tags'] = json({ models: 'none' });
  await assert.rejects(call({ method: 'list' }), failed('INVALID_RESPONSE', /string/));
});

test('show', async () => {
  routes['/api/show'] = json({ license: 'L'.repeat(9000), modelfile: 'x', parameters: 'stop "a"', template: 't'.repeat(30000), details: { family: 'llama' }, model_info: { 'llama.context_length': 8192, 'tokenizer.ggml.tokens': Array(100).fill('x') }, tensors: Array(10), capabilities: ['completion', 'vision'] });
  const about = await call({ method: 'show', model: 'llama3.2' });
  assert.deepEqual(requests[0].body, { model: 'llama3.2' });
  assert.deepEqual(about.capabilities, ['completion', 'vision']);
  assert.deepEqual(about.modelInfo, { 'llama.context_length': 8192 });
  assert.match(about.template, /10000 more characters/);
  assert.equal(about.license.length, 500);
});

test('chat streams, with progress', async () => {
  const reported = [];
  routes['/api/chat'] = lines(piece('Hel'), piece('lo, 世'), piece('界'), end);
  const got = await call({ method: 'chat', model: 'llama3.2', message: 'hi', system_prompt: 'be kind', temperature: 0, max_tokens: 10, options: { seed: 1 }, messages: [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }] }, { progress: (...p) => reported.push(p) });
  assert.equal(got.reply, 'Hello, 世界');
  assert.equal(got.finishReason, 'stop');
  assert.deepEqual(got.usage, { prompt_tokens: 26, completion_tokens: 282, total_tokens: 308 });
  assert.equal(got.seconds.total, 4.884);
  assert.deepEqual(requests[0].body, {
    model: 'llama3.2', stream: true, options: { seed: 1, temperature: 0, num_predict: 10 },
    messages: [{ role: 'system', content: 'be kind' }, { role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }, { role: 'user', content: 'hi' }],
  });
  assert.deepEqual(reported[0], [1, 10, 'Hel']);
});

test('a character and an object that lie across packets', async () => {
  const bytes = Buffer.from(`${JSON.stringify(piece('世界'))}\n\n${JSON.stringify(end)}`); // no line feed at the end
  routes['/api/chat'] = async (answer) => {
    for (const b of bytes) {
      answer.write(Buffer.from([b]));
      await new Promise(setImmediate);
    }
    answer.end();
  };
  assert.equal((await call({ method: 'chat', model: 'm', message: 'x' })).reply, '世界');
});

test('thoughts and calls of tools come apart', async () => {
  const calls = [{ function: { name: 'get_weather', arguments: { city: 'Tokyo' } } }];
  routes['/api/chat'] = lines(piece('', { thinking: 'hm ' }), piece('', { thinking: 'so' }), piece('', { tool_calls: calls }), end);
  const got = await call({ method: 'chat', model: 'm', message: 'x', think: true });
  assert.deepEqual([got.reply, got.thinking, got.toolCalls], ['', 'hm so', calls]);
  assert.equal(requests[0].body.think, true);
});

test('generate', async () => {
  routes['/api/generate'] = lines({ model: 'm', response: '{"a"', done: false }, { model: 'm', response: ':1}', done: false }, { model: 'm', response: '', done: true, done_reason: 'length', eval_count: 2 });
  const got = await call({ method: 'generate', model: 'm', prompt: 'p', format: { type: 'object' }, system_prompt: 's', suffix: 'z', images: ['aGk='], keep_alive: '1m' });
  assert.deepEqual([got.response, got.finishReason, got.usage.total_tokens], ['{"a":1}', 'length', 2]);
  assert.deepEqual(requests[0].body, { model: 'm', prompt: 'p', format: { type: 'object' }, system: 's', suffix: 'z', images: ['aGk='], keep_alive: '1m', stream: true });
});

test('embed', async () => {
  routes['/api/embed'] = (answer, { input }) => json({ model: 'm', embeddings: input.map((_, i) => [i, 0.5]), prompt_eval_count: 8 })(answer);
  const got = await call({ method: 'embed', model: 'm', input: ['a', 'b'] });
  assert.deepEqual([got.count, got.dimensions, got.embeddings], [2, 2, [[0, 0.5], [1, 0.5]]]);
  routes['/api/embed'] = json({ embeddings: [[1]] });
  await assert.rejects(call({ method: 'embed', model: 'm', input: ['a', 'b'] }), failed('INVALID_RESPONSE', /1 embeddings came for 2/));
});

test('running and version', async () => {
  routes['/api/ps'] = json({ models: [{ name: 'm', size: 6654289920, size_vram: 6654289920, expires_at: '2026-06-04T14:38:31Z' }] });
  routes['/api/version'] = json({ version: '0.12.6' });
  assert.equal((await call({ method: 'running' })).models[0].inGPU, '6.7 GB');
  assert.equal((await call({ method: 'version' })).version, '0.12.6');
});

const chat = { method: 'chat', model: 'm', message: 'x' };

test('what the server refuses', async () => {
  for (const [status, said, code, says] of [
    [404, { error: "model 'm' not found" }, 'MODEL_NOT_FOUND', /model 'm' not found/],
    [400, { error: 'invalid options: temperatur' }, 'BAD_REQUEST', /temperatur/],
    [401, { error: 'unauthorized' }, 'UNAUTHORIZED', /401/],
    [403, '<html>no</html>', 'UNAUTHORIZED', /403/],
    [429, { error: 'too many' }, 'RATE_LIMITED', /429/],
    [500, { error: 'llama runner process has terminated: exit status 2' }, 'API_ERROR', /exit status 2/],
    [503, { error: 'server busy, please try again. maximum pending requests exceeded' }, 'API_ERROR', /busy/],
    [302, '', 'INVALID_RESPONSE', /redirects/],
  ]) {
    routes['/api/chat'] = json(said, status);
    await assert.rejects(call(chat), failed(code, says), String(status));
  }
  routes['/api/chat'] = (answer) => answer.writeHead(403, 'network: x.test:80 is not among the allowed domains (y.test)').end('as the sandbox does\n');
  await assert.rejects(call(chat), failed('NETWORK_NOT_GRANTED', /x\.test:80 is not among.*grant ollama-remote --net 127/));
  delete routes['/api/chat'];
  await assert.rejects(call(chat), failed('INVALID_RESPONSE', /404 page not found/));
});

test('an error in the middle of a stream', async () => {
  routes['/api/chat'] = lines(piece('half an an'), { error: 'an error was encountered while running the model: CUDA error' });
  await assert.rejects(call(chat), failed('API_ERROR', /CUDA error.*half an an/));
});

test('streams that are cut', async () => {
  routes['/api/chat'] = lines(piece('half'));
  await assert.rejects(call(chat), failed('STREAM_CUT', /before it was done.*half/));
  routes['/api/chat'] = (answer) => {
    answer.writeHead(200, { 'content-type': 'application/x-ndjson' });
    answer.write(`${JSON.stringify(piece('half'))}\n`);
    setTimeout(() => answer.destroy(), 50);
  };
  await assert.rejects(call(chat), failed('STREAM_CUT', /in the middle.*half/));
  routes['/api/chat'] = lines(piece('x'), '{"model":"m","mess');
  await assert.rejects(call(chat), failed('INVALID_RESPONSE', /no JSON object/));
  routes['/api/chat'] = (answer) => answer.destroy();
  await assert.rejects(call(chat), failed('STREAM_CUT', /closed the connection/));
});

test('what is no Ollama server', async () => {
  routes['/api/tags'] = (answer) => answer.end('<html>hello</html>');
  await assert.rejects(call({}), failed('INVALID_RESPONSE', /html/));
  routes['/api/tags'] = json([]);
  await assert.rejects(call({}), failed('INVALID_RESPONSE', /no JSON object/));
  await assert.rejects(call({}, { env: { OLLAMA_HOST: 'http://127.0.0.1:1' } }), failed('CONNECTION_FAILED', /grant ollama-remote --net 127\.0\.0\.1:1/));
  await assert.rejects(call({}, { env: { OLLAMA_HOST: 'ftp://user:pw@x' } }), (e) => failed('INVALID_HOST', /ftp/)(e) && !e.message.includes('pw@'));
});

test('a server that says nothing', async () => {
  routes['/api/tags'] = () => {};
  await assert.rejects(call({}, { env: { OLLAMA_TIMEOUT: '1' } }), failed('TIMEOUT', /nothing for 1 s/));
  routes['/api/chat'] = (answer) => { answer.writeHead(200); answer.write(`${JSON.stringify(piece('half'))}\n`); };
  await assert.rejects(call(chat, { env: { OLLAMA_TIMEOUT: '1' } }), failed('TIMEOUT', /nothing for 1 s.*half/));
});

test('a call that is cancelled', async () => {
  const control = new AbortController();
  let gone;
  const closed = new Promise((done) => { gone = done; });
  routes['/api/chat'] = (answer) => {
    answer.writeHead(200);
    answer.write(`${JSON.stringify(piece('half'))}\n`);
    answer.on('close', gone);
    setTimeout(() => control.abort(new Error('cancelled')), 20);
  };
  await assert.rejects(call(chat, { signal: control.signal }), /cancelled/);
  await closed; // the server has noticed and can stop the model
});

test('the key is sent, and never shown', async () => {
  routes['/api/tags'] = json({ error: 'unauthorized' }, 401);
  await assert.rejects(call({}, { env: { OLLAMA_API_KEY: 's3cret' } }), (e) => !JSON.stringify([e.message, e.stack]).includes('s3cret'));
  assert.equal(requests[0].headers.authorization, 'Bearer s3cret');
  await assert.rejects(call({}, { env: { OLLAMA_HOST: base.replace('://', '://me:pw@') } }), (e) => !e.message.includes('pw'));
  assert.equal(requests[1].headers.authorization, `Basic ${Buffer.from('me:pw').toString('base64')}`);
});

test('addresses', () => {
  for (const [given, base, entry] of [
    [undefined, 'http://127.0.0.1:11434', '127.0.0.1:11434'],
    ['ai.example.org', 'http://ai.example.org:11434', 'ai.example.org:11434'],
    ['ai.example.org:8080', 'http://ai.example.org:8080', 'ai.example.org:8080'],
    ['0.0.0.0', 'http://127.0.0.1:11434', '127.0.0.1:11434'],
    ['[::1]:9', 'http://[::1]:9', '[::1]:9'],
    ['https://ollama.com', 'https://ollama.com', 'ollama.com:443'],
    ['http://x/', 'http://x', 'x:80'],
    ['https://x/proxy/ollama/', 'https://x/proxy/ollama', 'x:443'],
  ]) {
    const got = address(given);
    assert.deepEqual([got.base, got.entry], [base, entry], given);
  }
  assert.throws(() => address('http://'), /invalid host/);
  const ask = (env) => tool.getRuntimeConfig.call({ api: { environment: { get: (n) => env[n] } } }).networkAccess;
  assert.deepEqual(ask({ OLLAMA_BASE_URL: 'https://a.example' }), ['a.example:443']);
  assert.deepEqual(ask({ OLLAMA_BASE_URL: 'https://a.example', OLLAMA_HOST: 'b.example' }), ['b.example:11434']);
  assert.deepEqual(tool.getRuntimeConfig().networkAccess, ['127.0.0.1:11434']);
});

test('parameters', async () => {
  for (const [params, says] of [
    [{ method: 'pull' }, /pull/],
    [{ method: 'chat', message: 'x' }, /chat needs model/],
    [{ method: 'chat', model: 'm' }, /message or messages/],
    [{ method: 'generate', model: 'm', prompt: '' }, /generate needs prompt/],
    [{ method: 'embed', model: 'm' }, /embed needs input/],
  ]) await assert.rejects(call(params), failed('INVALID_PARAMETERS', says));
  assert.equal(requests.length, 0);
});
