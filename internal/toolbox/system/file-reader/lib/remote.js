// Files by http and https. Which hosts can be reached is the sandbox's to say;
// here the list of the user is kept, and sizes and times are.

import { fail } from './fail.js';
import { size } from './text.js';

const MAX_REDIRECTS = 5;
const CACHE_BYTES = 32 * 1024 * 1024;
const cache = new Map(); // URL → {file, at}

/** patterns reads ALLOWED_URLS: a list, a JSON array or text with commas. Without any, all are allowed. */
export function patterns(value) {
  if (value === undefined || value === null || value === '') return ['https://*', 'http://*'];
  let list = value;
  if (typeof value === 'string') {
    const text = value.trim();
    if (text.startsWith('[')) {
      try { list = JSON.parse(text); } catch (error) {
        throw fail('INVALID_CONFIGURATION', `invalid configuration: ALLOWED_URLS is no JSON array (${error.message})`, error);
      }
    } else list = text.split(',').map((part) => part.trim()).filter(Boolean);
  }
  if (!Array.isArray(list) || !list.every((item) => typeof item === 'string')) throw fail('INVALID_CONFIGURATION', 'invalid configuration: ALLOWED_URLS is no list of texts');
  return list;
}

/** matches compares a URL with a pattern: https://*, https://*.example.com/docs/*, example.com. */
export function matches(url, pattern) {
  const parts = /^(?:(https?|\*):\/\/)?([^/]+)(\/.*)?$/.exec(pattern.trim());
  if (!parts) return false;
  const [, scheme = '*', host, path] = parts;
  if (scheme !== '*' && `${scheme}:` !== url.protocol) return false;
  const wanted = host.toLowerCase();
  const here = wanted.includes(':') ? url.host : url.hostname;
  if (wanted !== '*' && wanted !== here && !(wanted.startsWith('*.') && here.endsWith(wanted.slice(1)))) return false;
  if (path === undefined || path === '/' || path === '/*') return true;
  const asked = url.pathname + url.search;
  if (path.endsWith('*')) return asked.startsWith(path.slice(0, -1));
  return asked === path || url.pathname === path || url.pathname.startsWith(`${path.replace(/\/$/, '')}/`);
}

function check(url, allowed) {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw fail('INVALID_URL', `invalid URL: ${url.protocol} is not supported, only http, https and file`);
  if (!allowed.some((pattern) => matches(url, pattern))) throw fail('URL_NOT_ALLOWED', `URL not allowed: ${url.origin}${url.pathname} is none of ALLOWED_URLS (${allowed.join(', ')})`);
}

/**
 * download gets {bytes, contentType, url, fromCache}. Redirects are followed
 * where the list allows them; more than limit bytes are refused.
 */
export async function download(start, { allowed, limit, timeout, useCache, cacheTimeout, signal, progress }) {
  let url = start;
  check(url, allowed);
  const known = cache.get(url.href);
  if (useCache && known && Date.now() - known.at < cacheTimeout && known.file.bytes.length <= limit) return { ...known.file, fromCache: true };
  const clock = AbortSignal.timeout(timeout);
  const stop = signal ? AbortSignal.any([signal, clock]) : clock;
  try {
    for (let hops = 0; ; hops++) {
      const response = await fetch(url, { redirect: 'manual', signal: stop, headers: { 'user-agent': 'toolyard-file-reader/1.0', 'accept': '*/*' } });
      const to = response.headers.get('location');
      if (response.status >= 300 && response.status < 400 && to) {
        await response.body?.cancel();
        if (hops >= MAX_REDIRECTS) throw fail('NETWORK_ERROR', `network error: ${start.href} redirects more than ${MAX_REDIRECTS} times`);
        if (!URL.canParse(to, url)) throw fail('NETWORK_ERROR', `network error: ${url.href} redirects to something that is no URL`);
        url = new URL(to, url);
        check(url, allowed);
        continue;
      }
      if (!response.ok) {
        await response.body?.cancel();
        throw refusal(response.status, url);
      }
      const file = { bytes: await body(response, { limit, url, progress }), contentType: response.headers.get('content-type') ?? '', url: url.href };
      remember(start.href, file);
      return { ...file, fromCache: false };
    }
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (clock.aborted) throw fail('NETWORK_ERROR', `network error: timeout, ${start.host} did not send all within ${timeout} ms`, error);
    if (typeof error.code === 'string' && /^[A-Z_]+$/.test(error.code) && !(error instanceof TypeError)) throw error;
    throw fail('NETWORK_ERROR', `network error: ${url.host} cannot be reached (${reason(error)}); if it was not granted: toolyard toolbox grant file-reader --net ${url.hostname}`, error);
  }
}

function reason(error) {
  const causes = [];
  for (let e = error; e && causes.length < 4; e = e.cause ?? e.errors?.[0]) causes.push(e.code ?? e.message);
  return causes.filter(Boolean).at(-1);
}

function refusal(status, url) {
  if (status === 404 || status === 410) return fail('FILE_NOT_FOUND', `no such file: ${url.href} is not there (HTTP ${status})`);
  if (status === 401 || status === 403 || status === 407) return fail('PERMISSION_DENIED', `permission denied: ${url.host} refuses ${url.pathname} (HTTP ${status})`);
  return fail('NETWORK_ERROR', `network error: ${url.host} answered HTTP ${status} for ${url.pathname}`);
}

async function body(response, { limit, url, progress }) {
  const tooLarge = () => fail('FILE_TOO_LARGE', `file too large: ${url.href} has more than ${size(limit)}; raise maxSize`);
  const expected = response.headers.get('content-encoding') ? undefined : Number(response.headers.get('content-length')) || undefined;
  if (expected > limit) {
    await response.body?.cancel();
    throw tooLarge();
  }
  const parts = [];
  let have = 0;
  for await (const part of response.body ?? []) {
    have += part.length;
    if (have > limit) throw tooLarge();
    parts.push(part);
    progress?.(have, expected, 'downloading');
  }
  return Buffer.concat(parts);
}

function remember(key, file) {
  cache.delete(key);
  if (file.bytes.length > CACHE_BYTES / 4) return;
  cache.set(key, { file, at: Date.now() });
  let total = 0;
  for (const { file: kept } of cache.values()) total += kept.bytes.length;
  for (const [old, { file: kept }] of cache) {
    if (total <= CACHE_BYTES && cache.size <= 100) break;
    cache.delete(old);
    total -= kept.bytes.length;
  }
}
