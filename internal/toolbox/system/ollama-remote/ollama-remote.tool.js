// Talks to an Ollama server.

import { address, DEFAULT_HOST, fail, Server } from './lib/server.js';

const PROGRESS_EVERY = 250;    // ms
const FIELD_LIMIT = 20_000;    // characters of one text in what show gives
const PARTIAL_LIMIT = 4_000;   // characters of an answer that was cut off

const REQUIRED = {
  list_models: [],
  list: [],
  show: ['model'],
  chat: ['model'],
  generate: ['model', 'prompt'],
  embed: ['model', 'input'],
  running: [],
  version: [],
};

export default {
  getMetadata() {
    return {
      id: 'ollama-remote',
      name: 'Ollama remote',
      description: 'Talks to an Ollama server: lists and describes its models, chats, completes text, and makes embeddings. Use it when another language model should answer, judge or translate something, when text must not leave the own network, or when embeddings are needed. Do not use it to install models.',
      version: '1.0.0',
      category: 'ai',
      author: 'Toolyard',
      tags: ['ollama', 'llm', 'chat', 'embedding', 'model'],
      scenarios: [
        'See which models an Ollama server has and what each can do',
        'Ask a model a question, with a system prompt, a temperature or earlier messages',
        'Have a model answer as JSON that fits a schema',
        'Make embeddings of one or several texts',
      ],
      limitations: [
        'Needs an Ollama server that runs, and the network granted for its host',
        'The answer comes when it is whole; until then there is progress',
        'Models are not pulled, copied or removed',
        'An answer may take up to 5 minutes, if that much time is granted',
      ],
    };
  },

  getSchema() {
    return {
      parameters: {
        type: 'object',
        properties: {
          method: { type: 'string', enum: Object.keys(REQUIRED), default: 'list_models', description: 'What to do. list is list_models; running lists the models that are loaded.' },
          model: { type: 'string', minLength: 1, maxLength: 300, description: 'Name of the model, such as "llama3.2" or "qwen3:8b".' },
          message: { type: 'string', minLength: 1, description: 'chat: what to say.' },
          messages: {
            type: 'array',
            minItems: 1,
            maxItems: 1000,
            description: 'chat: the conversation so far; message, if given, comes after it.',
            items: {
              type: 'object',
              properties: {
                role: { type: 'string', enum: ['system', 'user', 'assistant', 'tool'], description: 'Who says it.' },
                content: { type: 'string', description: 'What is said.' },
                images: { type: 'array', items: { type: 'string' }, description: 'Images as base64.' },
              },
              required: ['role', 'content'],
            },
          },
          system_prompt: { type: 'string', description: 'chat, generate: instructions for the model.' },
          prompt: { type: 'string', minLength: 1, description: 'generate: the text to complete.' },
          suffix: { type: 'string', description: 'generate: the text after what is to be filled in.' },
          images: { type: 'array', items: { type: 'string' }, maxItems: 20, description: 'chat with message, generate: images as base64, for models that see.' },
          input: {
            oneOf: [{ type: 'string', minLength: 1 }, { type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1, maxItems: 1000 }],
            description: 'embed: one text or several.',
          },
          temperature: { type: 'number', minimum: 0, maximum: 2, description: 'chat, generate: 0 is always the likeliest word. Without it the model\'s own.' },
          max_tokens: { type: 'integer', minimum: 1, maximum: 1000000, description: 'chat, generate: the longest answer.' },
          format: {
            oneOf: [{ type: 'string', enum: ['json'] }, { type: 'object' }],
            description: 'chat, generate: "json", or a JSON Schema that the answer has to fit.',
          },
          think: { type: 'boolean', description: 'chat, generate: let a model that can think do so; its thoughts come apart from the answer.' },
          options: { type: 'object', description: 'chat, generate, embed: further options of Ollama, such as {"num_ctx": 8192, "seed": 1}.' },
          keep_alive: { type: 'string', maxLength: 20, description: 'How long the model stays loaded, such as "10m".' },
          only_remote: { type: 'boolean', default: false, description: 'list_models: only models that run in Ollama\'s cloud.' },
        },
        required: ['method'],
        examples: [
          { method: 'list_models' },
          { method: 'chat', model: 'llama3.2', message: 'Say hello in French.', temperature: 0 },
          { method: 'embed', model: 'nomic-embed-text', input: ['one text', 'another'] },
        ],
      },
      environment: {
        type: 'object',
        properties: {
          OLLAMA_HOST: { type: 'string', description: `The server: host, host:port or http address. Without it OLLAMA_BASE_URL, else ${DEFAULT_HOST}.`, examples: [DEFAULT_HOST] },
          OLLAMA_BASE_URL: { type: 'string', description: 'The same under its older name.' },
          OLLAMA_API_KEY: { type: 'string', format: 'password', description: 'Sent as a bearer token, if the server wants one. Secret.' },
          OLLAMA_TIMEOUT: { type: 'string', pattern: '^[0-9]{1,4}$', default: '120', description: 'Seconds that the server may say nothing, for instance while it loads a model.' },
        },
        required: [],
      },
    };
  },

  getDependencies() {
    return { './lib/server.js': 'local' };
  },

  getBusinessErrors() {
    const known = (code, description, match, solution, retryable = false) => ({ code, description, match, solution, retryable });
    return [
      known('CONNECTION_FAILED', 'The server cannot be reached.', /^connection failed:/i, 'Check that Ollama runs there, OLLAMA_HOST, and that the network is granted for it.', true),
      known('NETWORK_NOT_GRANTED', 'The network is not granted for that host.', /^network not granted:/i, 'Ask the user to grant the host to the tool, as the message says.'),
      known('STREAM_CUT', 'The answer broke off.', /^stream cut:/i, 'Try again; if it happens again the server\'s log says why.', true),
      known('TIMEOUT', 'The server said nothing for too long.', /^timeout:/i, 'Try again when the model is loaded, use a smaller one, or set OLLAMA_TIMEOUT higher.', true),
      known('UNAUTHORIZED', 'The server wants another key.', /^unauthorized:/i, 'Set OLLAMA_API_KEY with configure.'),
      known('RATE_LIMITED', 'Too many requests.', /^rate limited:/i, 'Wait and try again.', true),
      known('MODEL_NOT_FOUND', 'The server does not have the model.', /^model not found:/i, 'Choose a model that list_models shows, or have it pulled on the server.'),
      known('BAD_REQUEST', 'The server does not accept the request.', /^bad request:/i, 'Check the parameters; show tells what the model can do.'),
      known('API_ERROR', 'The server failed.', /^api error:/i, 'Try again; if it happens again the server\'s log says why.', true),
      known('INVALID_RESPONSE', 'What answers is no Ollama server, or a broken one.', /^invalid response:/i, 'Check OLLAMA_HOST.'),
      known('ANSWER_TOO_LONG', 'The answer does not end.', /^answer too long:/i, 'Set max_tokens.'),
      known('INVALID_HOST', 'OLLAMA_HOST is no address.', /^invalid host:/i, 'Set OLLAMA_HOST with configure, such as "http://192.168.1.5:11434".'),
      known('INVALID_PARAMETERS', 'Parameters are missing or wrong.', /^invalid parameters?:/i, 'Read the manual of the tool for its parameters.'),
    ];
  },

  getRuntimeConfig() {
    let entry;
    try { entry = address(hostOf(this?.api?.environment)).entry; } catch { entry = address().entry; }
    return { sandboxType: 'nodejs', networkAccess: [entry], maxExecutionTime: 300_000 };
  },

  async execute(params) {
    const args = this.checked(params);
    const { environment, signal, logger } = this.api ?? {};
    signal?.throwIfAborted();
    const server = new Server({
      host: hostOf(environment),
      key: environment?.get('OLLAMA_API_KEY'),
      idle: 1000 * (Number(environment?.get('OLLAMA_TIMEOUT')) || 120),
      signal,
    });
    logger?.debug?.(`ollama-remote ${args.method}`, { server: server.base, model: args.model });
    return METHODS[args.method].call(this, server, args);
  },

  /** checked is the parameters of a call, or an error that names all that is wrong with them. */
  checked(params) {
    const args = { method: 'list_models', ...params };
    const verdict = this.validateParameters?.(args, this.getSchema().parameters);
    const faults = verdict && !verdict.valid ? [...verdict.errors] : [];
    if (faults.length === 0) {
      if (!Object.hasOwn(REQUIRED, args.method)) faults.push(`method ${JSON.stringify(args.method)} is none of ${Object.keys(REQUIRED).join(', ')}`);
      else faults.push(...REQUIRED[args.method].filter((name) => args[name] === undefined || args[name] === null || args[name] === '').map((name) => `${args.method} needs ${name}`));
      if (args.method === 'chat' && !args.message && !(args.messages?.length > 0)) faults.push('chat needs message or messages');
    }
    if (faults.length > 0) throw fail('INVALID_PARAMETERS', `invalid parameters: ${faults.map((f) => f?.message ?? f).join('; ')}`);
    return args;
  },
};

function hostOf(environment) {
  return environment?.get('OLLAMA_HOST') || environment?.get('OLLAMA_BASE_URL') || DEFAULT_HOST;
}

const METHODS = {
  async list_models(server, { only_remote: onlyRemote = false }) {
    const all = listed(await server.ask('/api/tags')).map((m) => ({
      name: m.name ?? m.model,
      size: bytes(m.size),
      sizeBytes: m.size ?? null,
      modifiedAt: m.modified_at ?? null,
      family: m.details?.family ?? null,
      parameters: m.details?.parameter_size ?? null,
      quantization: m.details?.quantization_level ?? null,
      type: m.remote_host || m.remote_model ? 'remote' : 'local', // the server says it; a name tells nothing
    }));
    const list = onlyRemote ? all.filter((m) => m.type === 'remote') : all;
    return {
      success: true,
      total: all.length,
      displayed: list.length,
      models: list,
      ...(all.length === 0 && { message: 'The server has no models. Somebody has to pull one there: ollama pull NAME' }),
    };
  },

  async show(server, { model }) {
    const { tensors: _, ...about } = await server.ask('/api/show', { model });
    const short = (value) => (typeof value === 'string' && value.length > FIELD_LIMIT ? `${value.slice(0, FIELD_LIMIT)}… (${value.length - FIELD_LIMIT} more characters)` : value);
    const info = Object.fromEntries(Object.entries(about.model_info ?? {}).filter(([, v]) => !Array.isArray(v) || v.length <= 16));
    return {
      success: true,
      model,
      capabilities: about.capabilities ?? [],
      details: about.details ?? {},
      parameters: short(about.parameters) ?? null,
      template: short(about.template) ?? null,
      system: short(about.system) ?? null,
      license: short(about.license)?.slice(0, 500) ?? null,
      modelInfo: info,
      modifiedAt: about.modified_at ?? null,
    };
  },

  async chat(server, args) {
    const messages = [
      ...(args.system_prompt ? [{ role: 'system', content: args.system_prompt }] : []),
      ...(args.messages ?? []),
      ...(args.message ? [{ role: 'user', content: args.message, ...(args.images && { images: args.images }) }] : []),
    ];
    const said = await gather(this, server, '/api/chat', { ...common(args), messages }, args, (piece) => piece.message ?? {});
    return { success: true, model: args.model, reply: said.text, ...said.rest };
  },

  async generate(server, args) {
    const body = {
      ...common(args),
      prompt: args.prompt,
      ...(args.suffix !== undefined && { suffix: args.suffix }),
      ...(args.system_prompt && { system: args.system_prompt }),
      ...(args.images && { images: args.images }),
    };
    const said = await gather(this, server, '/api/generate', body, args, (piece) => ({ content: piece.response, thinking: piece.thinking }));
    return { success: true, model: args.model, response: said.text, ...said.rest };
  },

  async embed(server, { model, input, options, keep_alive: keep }) {
    const texts = [input].flat();
    const body = { model, input: texts, ...(options && { options }), ...(keep && { keep_alive: keep }) };
    const { embeddings, prompt_eval_count: tokens = null } = await server.ask('/api/embed', body);
    const good = Array.isArray(embeddings) && embeddings.length === texts.length && embeddings.every((e) => Array.isArray(e) && e.length > 0);
    if (!good) throw fail('INVALID_RESPONSE', `invalid response: ${embeddings?.length ?? 'no'} embeddings came for ${texts.length} texts`);
    return { success: true, model, count: embeddings.length, dimensions: embeddings[0].length, embeddings, usage: { prompt_tokens: tokens } };
  },

  async running(server) {
    return { success: true, models: listed(await server.ask('/api/ps')).map((m) => ({ name: m.name, size: bytes(m.size), inGPU: bytes(m.size_vram), until: m.expires_at ?? null })) };
  },

  async version(server) {
    const { version } = await server.ask('/api/version');
    return { success: true, version: version ?? null, server: server.base };
  },
};
METHODS.list = METHODS.list_models;

/** listed is the list of models of an answer; a server in Go sends null for an empty one. */
function listed({ models }) {
  if (models !== undefined && models !== null && !Array.isArray(models)) throw fail('INVALID_RESPONSE', `invalid response: models is ${typeof models} instead of a list`);
  return (models ?? []).filter((m) => m !== null && typeof m === 'object');
}

function common({ model, temperature, max_tokens: limit, format, think, options, keep_alive: keep }) {
  const all = { ...options, ...(temperature !== undefined && { temperature }), ...(limit !== undefined && { num_predict: limit }) };
  return {
    model,
    ...(Object.keys(all).length > 0 && { options: all }),
    ...(format !== undefined && { format }),
    ...(think !== undefined && { think }),
    ...(keep && { keep_alive: keep }),
  };
}

/** gather gathers an answer and reports how far it has come. An answer that breaks off is in the error. */
async function gather(self, server, path, body, { max_tokens: limit }, contentOf) {
  let text = '';
  let thinking = '';
  let pieces = 0;
  let reported = 0;
  const calls = [];
  try {
    const last = await server.stream(path, body, (piece) => {
      const { content, thinking: thought, tool_calls: asked } = contentOf(piece);
      if (typeof content === 'string') text += content;
      if (typeof thought === 'string') thinking += thought;
      if (Array.isArray(asked)) calls.push(...asked);
      pieces++;
      const now = Date.now();
      if (now - reported >= PROGRESS_EVERY) {
        reported = now;
        self.api.progress(pieces, limit ?? 0, text.slice(-60) || (thinking === '' ? 'waiting' : 'thinking'));
      }
    });
    const second = (ns) => (typeof ns === 'number' ? Math.round(ns / 1e6) / 1000 : null);
    const rest = {
      ...(thinking !== '' && { thinking }),
      ...(calls.length > 0 && { toolCalls: calls }),
      finishReason: last.done_reason ?? null,
      usage: {
        prompt_tokens: last.prompt_eval_count ?? null,
        completion_tokens: last.eval_count ?? null,
        total_tokens: (last.prompt_eval_count ?? 0) + (last.eval_count ?? 0),
      },
      seconds: { total: second(last.total_duration), load: second(last.load_duration), answer: second(last.eval_duration) },
    };
    return { text, rest };
  } catch (error) {
    if (text !== '' && error instanceof Error && /^[A-Z_]+$/.test(error.code ?? '')) {
      error.message += `; ${text.length} characters had come: ${JSON.stringify(text.slice(0, PARTIAL_LIMIT))}`;
    }
    throw error;
  }
}

function bytes(n) {
  if (typeof n !== 'number' || !(n >= 0)) return null;
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  const i = Math.min(units.length - 1, n < 1 ? 0 : Math.floor(Math.log10(n) / 3));
  return `${i === 0 ? n : (n / 1000 ** i).toFixed(1)} ${units[i]}`;
}
