// Text out of open files, without reading more of them than is needed.

import { binaryKind, choose, decode } from './encoding.js';
import { fail } from './fail.js';

const CHUNK = 64 * 1024;

/** size is a number of bytes for people. */
export function size(bytes) {
  const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];
  let n = bytes;
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return unit === 0 ? `${bytes} bytes` : `${n.toFixed(n < 10 ? 1 : 0)} ${units[unit]}`;
}

/** span reads bytes [from, to) of an open file, fewer at its end. */
export async function span(handle, from, to, signal) {
  const out = Buffer.allocUnsafe(Math.max(0, to - from));
  let have = 0;
  while (have < out.length) {
    signal?.throwIfAborted();
    const { bytesRead } = await handle.read(out, have, Math.min(out.length - have, 1 << 20), from + have);
    if (bytesRead === 0) break;
    have += bytesRead;
  }
  return out.subarray(0, have);
}

/** whole reads all of an open file; one that grows while it is read ends at the limit. */
export async function whole({ handle, stat }, limit, shown, signal, hint = 'read a part of it with head or tail') {
  if (stat.size > limit) {
    throw fail('FILE_TOO_LARGE', `file too large: ${shown} has ${size(stat.size)}, at most ${size(limit)} are read at once; ${hint}`);
  }
  // Files of /proc and the like say 0 and are not empty.
  return span(handle, 0, stat.size > 0 ? stat.size : limit, signal);
}

/** refuseBinary throws for what is no text. */
export function refuseBinary(bytes, shown, total) {
  const kind = binaryKind(bytes);
  if (kind) throw fail('BINARY_FILE', `binary file: ${shown} is no text (${kind}, ${size(total)})`);
}

/**
 * text reads an open file as text: {text, encoding, confidence, mark}. Of a
 * binary file without an encoding that was asked for it throws BINARY_FILE.
 */
export async function text(file, shown, { encoding, limit, signal }) {
  const bytes = await whole(file, limit, shown, signal);
  if (!encoding || encoding === 'auto') refuseBinary(bytes, shown, bytes.length);
  const found = choose(bytes, encoding);
  return { ...found, text: decode(bytes, found.encoding), bytes };
}

// newline says how a line ends in an encoding: its width in bytes, and which
// byte of it is 0x0A. In all the others that byte is nothing but a line feed.
function newline(encoding) {
  if (encoding === 'utf-16le') return { width: 2, at: 0 };
  if (encoding === 'utf-16be') return { width: 2, at: 1 };
  if (encoding === 'utf-32le') return { width: 4, at: 0 };
  if (encoding === 'utf-32be') return { width: 4, at: 3 };
  return { width: 1, at: 0 };
}

function isNewline(bytes, i, { width, at }) {
  for (let k = 0; k < width; k++) if (bytes[i + k] !== (k === at ? 10 : 0)) return false;
  return true;
}

async function opening(file, shown, { encoding, signal }) {
  const start = await span(file.handle, 0, Math.min(file.stat.size, CHUNK), signal);
  if (!encoding || encoding === 'auto') refuseBinary(start, shown, file.stat.size);
  return choose(start, encoding, start.length === file.stat.size);
}

function tooLong(shown, limit) {
  return fail('FILE_TOO_LARGE', `file too large: the lines asked for of ${shown} have more than ${size(limit)}; ask for fewer`);
}

/** head is the first lines of an open file, without the last one's end. */
export async function head(file, count, shown, options) {
  const found = await opening(file, shown, options);
  const line = newline(found.encoding);
  const parts = [];
  let left = count;
  let have = 0;
  for (let at = 0; at < file.stat.size && left > 0;) {
    const part = await span(file.handle, at, Math.min(at + CHUNK, file.stat.size), options.signal);
    if (part.length === 0) break;
    let end = part.length;
    for (let i = 0; i + line.width <= part.length; i += line.width) {
      if (isNewline(part, i, line) && --left === 0) {
        end = i;
        break;
      }
    }
    have += end;
    if (have > options.limit) throw tooLong(shown, options.limit);
    parts.push(part.subarray(0, end));
    at += part.length;
  }
  return { ...found, text: trimEnd(decodeParts(parts, found, options), left > 0) };
}

/** tail is the last lines of an open file, without the last one's end. */
export async function tail(file, count, shown, options) {
  const found = await opening(file, shown, options);
  const line = newline(found.encoding);
  const end = file.stat.size - ((file.stat.size - 0) % line.width);
  const parts = [];
  let left = count;
  let have = 0;
  for (let to = end; to > 0 && left > 0;) {
    const from = Math.max(0, to - CHUNK);
    const part = await span(file.handle, from, to, options.signal);
    let start = 0;
    for (let i = part.length - line.width; i >= 0; i -= line.width) {
      const last = from + i + line.width === end;
      if (!last && isNewline(part, i, line) && --left === 0) {
        start = i + line.width;
        break;
      }
    }
    have += part.length - start;
    if (have > options.limit) throw tooLong(shown, options.limit);
    parts.unshift(part.subarray(start));
    to = from;
  }
  return { ...found, text: trimEnd(decodeParts(parts, found, options), true) };
}

// A part from the middle may be in the encoding of the whole or, where the
// beginning was plain ASCII, in one that only the part itself shows.
function decodeParts(parts, found, { encoding }) {
  const bytes = Buffer.concat(parts);
  const asked = encoding && encoding !== 'auto';
  if (!asked && found.encoding === 'utf-8' && found.mark === 0) found.encoding = choose(bytes, undefined).encoding;
  return decode(bytes, found.encoding);
}

function trimEnd(text, whole) {
  if (text.endsWith('\r\n')) return text.slice(0, -2);
  if (text.endsWith('\n') && whole) return text.slice(0, -1);
  return text.endsWith('\r') && !whole ? text.slice(0, -1) : text;
}

/** lineEnds says which line ends a text has: lf, crlf, mixed or none. */
export function lineEnds(text) {
  const all = (text.match(/\n/g) ?? []).length;
  const crlf = (text.match(/\r\n/g) ?? []).length;
  if (all === 0) return 'none';
  return crlf === 0 ? 'lf' : crlf === all ? 'crlf' : 'mixed';
}
