// Speaks Ollama's API (https://docs.ollama.com/api): JSON requests, and answers that are
// JSON or a stream of JSON objects, one a line.

export const DEFAULT_HOST = 'http://127.0.0.1:11434';

const ANSWER_LIMIT = 16 * 1024 * 1024; // bytes of an answer that is no stream
const LINE_LIMIT = 4 * 1024 * 1024;    // characters of one line of a stream
const TEXT_LIMIT = 3 * 1024 * 1024;    // characters that a stream may say altogether

export function fail(code, message, more) {
  const { cause, ...rest } = more ?? {};
  const error = new Error(message, cause === undefined ? undefined : { cause });
  return Object.assign(error, rest, { code });
}

/** address reads OLLAMA_HOST as Ollama does: a host, host:port or an http(s) address, with or without a path. */
export function address(given) {
  const text = String(given ?? '').trim() || DEFAULT_HOST;
  const bare = !/^[a-z][a-z0-9+.-]*:\/\//i.test(text);
  let url;
  try { url = new URL(bare ? `http://${text}` : text); } catch { url = undefined; }
  if (!url || !/^https?:$/.test(url.protocol) || url.hostname === '') {
    throw fail('INVALID_HOST', `invalid host: ${JSON.stringify(redacted(text))} is no host, host:port or http address`);
  }
  if (bare && url.port === '' && !/:80(\/|$)/.test(text)) url.port = '11434';
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1'; // what a server listens on is nowhere to connect to
  const login = url.username || url.password ? `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}` : undefined;
  url.username = url.password = url.search = url.hash = '';
  return {
    base: url.href.replace(/\/+$/, ''),
    entry: `${url.hostname}:${url.port || (url.protocol === 'https:' ? 443 : 80)}`, // as a network grant is written
    login,
  };
}

const redacted = (text) => text.replace(/\/\/[^/@]*@/, '//');

/** Server is one Ollama server. idle is how many milliseconds it may say nothing. */
export class Server {
  constructor({ host, key, idle, signal }) {
    Object.assign(this, address(host), { key, idle, signal });
  }

  /** ask gives the JSON of an answer. */
  async ask(path, body) {
    return this.#watched(path, async (alive) => {
      const answer = await this.#send(path, body, alive);
      const text = await this.#text(answer, ANSWER_LIMIT, alive);
      return parse(text, path);
    });
  }

  /** stream hands each object of an answer to see and returns the last one, which is done. */
  async stream(path, body, see) {
    return this.#watched(path, async (alive) => {
      const answer = await this.#send(path, { ...body, stream: true }, alive);
      const decoder = new TextDecoder();
      let rest = '';
      let said = 0;
      const line = (text) => {
        if (text.trim() === '') return undefined;
        const piece = parse(text, path);
        if (typeof piece.error === 'string') throw refusal(piece.error, answer.status, this.base);
        see(piece);
        said += text.length;
        if (said > TEXT_LIMIT * 16) throw fail('ANSWER_TOO_LONG', `answer too long: ${path} has sent ${said} characters and goes on`);
        return piece.done === true ? piece : undefined;
      };
      for await (const bytes of answer.body ?? []) {
        alive();
        rest += decoder.decode(bytes, { stream: true });
        const lines = rest.split('\n');
        rest = lines.pop();
        if (rest.length > LINE_LIMIT) throw fail('INVALID_RESPONSE', `invalid response: ${path} sent a line of more than ${LINE_LIMIT} characters`);
        for (const text of lines) {
          const last = line(text);
          if (last) return last;
        }
      }
      const last = line(rest + decoder.decode());
      if (!last) throw fail('STREAM_CUT', `stream cut: ${this.base} ended its answer before it was done`);
      return last;
    });
  }

  async #send(path, body, alive) {
    const headers = { accept: 'application/json' };
    if (body !== undefined) headers['content-type'] = 'application/json';
    if (this.key) headers.authorization = `Bearer ${this.key}`;
    else if (this.login) headers.authorization = `Basic ${Buffer.from(this.login).toString('base64')}`;
    const answer = await fetch(this.base + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      redirect: 'manual', // or the key would go where nobody has granted anything
      signal: alive.signal,
    });
    alive();
    if (answer.ok) return answer;
    if (answer.status === 403 && /^network: /.test(answer.statusText)) { // said by the sandbox
      await answer.body?.cancel();
      throw fail('NETWORK_NOT_GRANTED', `network not granted: ${answer.statusText.slice(9)}; to grant it: toolyard toolbox grant ollama-remote --net ${this.entry}`);
    }
    const text = await this.#text(answer, 64 * 1024, alive).catch(() => '');
    let said = text.trim().slice(0, 500);
    let json = false;
    try {
      said = String(JSON.parse(text).error ?? said);
      json = true;
    } catch { /* then it is not Ollama that answers, or something before it */ }
    if (answer.status === 404 && !json) throw fail('INVALID_RESPONSE', `invalid response: ${this.base} has no ${path} (404 ${said.slice(0, 80)}); it may be no Ollama server`);
    throw refusal(said, answer.status, this.base, answer.headers.get('retry-after'));
  }

  async #text(answer, limit, alive) {
    const parts = [];
    let size = 0;
    for await (const part of answer.body ?? []) {
      alive();
      size += part.length;
      if (size > limit) throw fail('ANSWER_TOO_LONG', `answer too long: ${this.base} sent more than ${limit} bytes`);
      parts.push(part);
    }
    return Buffer.concat(parts, size).toString('utf8');
  }

  /** watched runs do, and ends it when nothing has come for the idle time or the call is cancelled. */
  async #watched(path, run) {
    const control = new AbortController();
    const late = fail('TIMEOUT', `timeout: ${this.base} has said nothing for ${this.idle / 1000} s`);
    let timer;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => control.abort(late), this.idle);
    };
    alive.signal = this.signal ? AbortSignal.any([this.signal, control.signal]) : control.signal;
    alive();
    try {
      return await run(alive);
    } catch (error) {
      if (this.signal?.aborted) throw this.signal.reason;
      if (control.signal.aborted) throw late;
      if (error.code && /^[A-Z_]+$/.test(error.code) && !/^(UND_|ECONN|ENOT|EAI)/.test(error.code)) throw error;
      throw broken(error, this.base, this.entry);
    } finally {
      clearTimeout(timer);
      control.abort();
    }
  }
}

function parse(text, path) {
  let value;
  try { value = JSON.parse(text); } catch { /* said below */ }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw fail('INVALID_RESPONSE', `invalid response: ${path} sent no JSON object but ${JSON.stringify(text.slice(0, 80))}`);
  }
  return value;
}

/** refusal makes an error of what the server said. */
function refusal(said, status, base, retryAfter) {
  const what = said || 'no reason given';
  if (status === 401 || status === 403) return fail('UNAUTHORIZED', `unauthorized: ${base} answered ${status} (${what})`);
  if (status === 404 || /model.*not found|not found.*pull/i.test(what)) return fail('MODEL_NOT_FOUND', `model not found: ${what}`);
  if (status === 429) return fail('RATE_LIMITED', `rate limited: ${base} answered 429 (${what})${retryAfter ? `, try again after ${retryAfter} s` : ''}`);
  if (status >= 300 && status < 400) return fail('INVALID_RESPONSE', `invalid response: ${base} redirects (${status}), which is not followed`);
  if (status >= 400 && status < 500) return fail('BAD_REQUEST', `bad request: ${base} answered ${status} (${what})`);
  return fail('API_ERROR', `api error: ${base} answered ${status} (${what})`);
}

/** broken makes an error of a connection that failed. */
function broken(error, base, entry) {
  const cause = error.cause?.code ?? error.code ?? error.cause?.message ?? error.message;
  if (error.message === 'terminated' || /^UND_ERR_SOCKET|ECONNRESET|UND_ERR_RES/.test(cause)) {
    return fail('STREAM_CUT', `stream cut: ${base} closed the connection in the middle (${cause})`, { cause: error });
  }
  return fail('CONNECTION_FAILED', `connection failed: ${base} cannot be reached (${cause}); it has to run, and the network to be granted: toolyard toolbox grant ollama-remote --net ${entry}`, { cause: error });
}
