// Zip archives in memory, by their central directory. Nothing is written
// anywhere, and nothing grows larger than it was allowed to.

import { promisify } from 'node:util';
import { inflateRaw } from 'node:zlib';
import { fail } from './fail.js';

const inflate = promisify(inflateRaw);
const MAX_ENTRIES = 100_000;
const END = 0x06054b50;
const END64 = 0x06064b50;
const LOCATOR64 = 0x07064b50;
const CENTRAL = 0x02014b50;
const LOCAL = 0x04034b50;

const broken = (what) => fail('PARSE_ERROR', `parse error: the zip archive is damaged (${what})`);

export class Zip {
  constructor(bytes) {
    this.bytes = bytes;
    this.entries = directory(bytes);
    this.byName = new Map(this.entries.map((entry) => [entry.name, entry]));
  }

  has(name) {
    return this.byName.has(name);
  }

  /** read is the content of an entry, undefined if there is none; at most limit bytes. */
  async read(name, limit = 64 * 1024 * 1024) {
    const entry = this.byName.get(name);
    if (!entry) return undefined;
    if (entry.encrypted) throw fail('PARSE_ERROR', `parse error: ${name} in the archive is encrypted`);
    if (entry.size > limit) throw fail('FILE_TOO_LARGE', `file too large: ${name} in the archive has ${entry.size} bytes, at most ${limit} are read`);
    const at = entry.offset;
    if (at + 30 > this.bytes.length || this.bytes.readUInt32LE(at) !== LOCAL) throw broken(`no entry at ${at}`);
    const from = at + 30 + this.bytes.readUInt16LE(at + 26) + this.bytes.readUInt16LE(at + 28);
    const packed = this.bytes.subarray(from, from + entry.compressed);
    if (packed.length < entry.compressed) throw broken(`${name} is cut off`);
    if (entry.method === 0) return packed;
    if (entry.method !== 8) throw fail('PARSE_ERROR', `parse error: ${name} is compressed in a way that is not known (${entry.method})`);
    let out;
    try {
      out = await inflate(packed, { maxOutputLength: Math.max(1, Math.min(limit, entry.size)) });
    } catch (error) {
      throw broken(`${name}: ${error.code === 'ERR_BUFFER_TOO_LARGE' ? 'it is larger than it says' : error.message}`);
    }
    if (out.length !== entry.size) throw broken(`${name} has another size than it says`);
    return out;
  }

  /** text is an entry as UTF-8 or, with a mark, UTF-16; undefined if there is none. */
  async text(name, limit) {
    const bytes = await this.read(name, limit);
    if (!bytes) return undefined;
    const wide = bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf-16le' : bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf-16be' : 'utf-8';
    return new TextDecoder(wide).decode(bytes);
  }
}

function directory(bytes) {
  const end = findEnd(bytes);
  let count = bytes.readUInt16LE(end + 10);
  let at = bytes.readUInt32LE(end + 16);
  if ((count === 0xffff || at === 0xffffffff) && end >= 20 && bytes.readUInt32LE(end - 20) === LOCATOR64) {
    const at64 = Number(bytes.readBigUInt64LE(end - 12));
    if (!(at64 + 56 <= bytes.length) || bytes.readUInt32LE(at64) !== END64) throw broken('no zip64 directory');
    count = Number(bytes.readBigUInt64LE(at64 + 32));
    at = Number(bytes.readBigUInt64LE(at64 + 48));
  }
  if (count > MAX_ENTRIES) throw fail('FILE_TOO_LARGE', `file too large: the archive has ${count} entries, at most ${MAX_ENTRIES} are read`);
  const out = [];
  for (let i = 0; i < count; i++) {
    if (!(at + 46 <= bytes.length) || bytes.readUInt32LE(at) !== CENTRAL) throw broken('its directory is cut off');
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((k) => bytes.readUInt16LE(at + k));
    const name = bytes.subarray(at + 46, at + 46 + nameLength);
    const extra = bytes.subarray(at + 46 + nameLength, at + 46 + nameLength + extraLength);
    out.push(wide(extra, {
      name: nameOf(name, (bytes.readUInt16LE(at + 8) & 0x800) !== 0),
      encrypted: (bytes.readUInt16LE(at + 8) & 1) !== 0,
      method: bytes.readUInt16LE(at + 10),
      modified: time(bytes.readUInt16LE(at + 14), bytes.readUInt16LE(at + 12)),
      compressed: bytes.readUInt32LE(at + 20),
      size: bytes.readUInt32LE(at + 24),
      offset: bytes.readUInt32LE(at + 42),
    }));
    at += 46 + nameLength + extraLength + commentLength;
  }
  return out;
}

// findEnd looks for the last record from behind, over a comment that may follow it.
function findEnd(bytes) {
  for (let at = bytes.length - 22; at >= Math.max(0, bytes.length - 22 - 0xffff); at--) {
    if (bytes.readUInt32LE(at) === END && at + 22 + bytes.readUInt16LE(at + 20) <= bytes.length) return at;
  }
  throw broken('it has no directory');
}

function nameOf(bytes, utf8) {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return utf8 ? bytes.toString('utf8') : new TextDecoder('gb18030').decode(bytes);
  }
}

// wide takes sizes that do not fit 32 bits from the zip64 field.
function wide(extra, entry) {
  for (let at = 0; at + 4 <= extra.length;) {
    const [id, length] = [extra.readUInt16LE(at), extra.readUInt16LE(at + 2)];
    if (id === 1) {
      let k = at + 4;
      for (const field of ['size', 'compressed', 'offset']) {
        if (entry[field] !== 0xffffffff || k + 8 > Math.min(at + 4 + length, extra.length)) continue;
        entry[field] = Number(extra.readBigUInt64LE(k));
        k += 8;
      }
    }
    at += 4 + length;
  }
  return entry;
}

function time(date, clock) {
  const two = (n) => String(n).padStart(2, '0');
  if (date === 0) return null;
  return `${1980 + (date >> 9)}-${two((date >> 5) & 15)}-${two(date & 31)}T${two(clock >> 11)}:${two((clock >> 5) & 63)}:${two((clock & 31) * 2)}`;
}
