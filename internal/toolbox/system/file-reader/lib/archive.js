// What is in archives, without unpacking them.

import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { fail } from './fail.js';
import { Zip } from './zip.js';

const MAX_ENTRIES = 5000;
const MAX_UNPACKED = 1024 * 1024 * 1024; // bytes of a packed tar that are gone through

/** list is the entries of a zip, tar or gzip file: {format, entries, total, truncated}. */
export async function list(bytes, name, signal) {
  if (bytes.readUInt16BE(0) === 0x504b) {
    const { entries } = new Zip(bytes);
    return cut('zip', entries.map((e) => ({ path: e.name, type: e.name.endsWith('/') ? 'directory' : 'file', size: e.size, compressed: e.compressed, modified: e.modified, ...(e.encrypted && { encrypted: true }) })));
  }
  if (bytes.readUInt16BE(0) === 0x1f8b) {
    const source = Readable.from([bytes]).pipe(createGunzip());
    source.on('error', () => {});
    const entries = await tar(source, signal).catch((error) => {
      if (error.code !== 'NOT_TAR') throw error;
      return undefined;
    });
    if (entries) return { ...cut('tar.gz', entries), ...(entries.stopped && { truncated: true }) };
    const size = bytes.readUInt32LE(bytes.length - 4);
    return { format: 'gzip', entries: [{ path: name.replace(/\.gz$/i, ''), type: 'file', size, compressed: bytes.length }], total: 1 };
  }
  return cut('tar', await tar(Readable.from(pieces(bytes)), signal));
}

function cut(format, entries) {
  return { format, entries: entries.slice(0, MAX_ENTRIES), total: entries.length, ...(entries.length > MAX_ENTRIES && { truncated: true }) };
}

function* pieces(bytes) {
  for (let at = 0; at < bytes.length; at += 1 << 20) yield bytes.subarray(at, at + (1 << 20));
}

/** isTar says whether bytes begin with the header of a tar archive. */
export function isTar(bytes) {
  if (bytes.length < 512) return false;
  const sum = parseInt(bytes.toString('latin1', 148, 156), 8);
  let real = 8 * 32;
  for (let i = 0; i < 512; i++) if (i < 148 || i >= 156) real += bytes[i];
  return sum === real;
}

// tar goes through a stream of 512-byte blocks; of contents only the names that
// are too long for a header are kept.
async function tar(source, signal) {
  const entries = [];
  let rest = Buffer.alloc(0);
  let skip = 0;
  let wanted; // a long name that is being read: {bytes, kind}
  let next = {};
  let total = 0;
  let first = true;
  try {
    for await (const chunk of source) {
      signal?.throwIfAborted();
      total += chunk.length;
      if (total > MAX_UNPACKED || entries.length > MAX_ENTRIES * 20) {
        entries.stopped = true;
        break;
      }
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      for (;;) {
        if (skip > 0) {
          const n = Math.min(skip, rest.length);
          rest = rest.subarray(n);
          skip -= n;
          if (skip > 0) break;
        }
        if (wanted) {
          const padded = Math.ceil(wanted.size / 512) * 512;
          if (rest.length < padded) break;
          Object.assign(next, longName(rest.subarray(0, wanted.size), wanted.flag));
          rest = rest.subarray(padded);
          wanted = undefined;
        }
        if (rest.length < 512) break;
        const block = rest.subarray(0, 512);
        if (block.every((b) => b === 0)) {
          if (first) throw fail('NOT_TAR', 'no tar archive');
          rest = rest.subarray(512);
          continue;
        }
        if (!isTar(block)) {
          if (first) throw fail('NOT_TAR', 'no tar archive');
          throw fail('PARSE_ERROR', 'parse error: the tar archive is damaged');
        }
        first = false;
        rest = rest.subarray(512);
        const { flag, ...entry } = header(block);
        const { size } = entry;
        if ('xLK'.includes(flag) && size < 1 << 20) {
          wanted = { flag, size };
          continue;
        }
        if (flag !== 'g') {
          entries.push({ ...entry, ...next });
          next = {};
        }
        skip = Math.ceil(size / 512) * 512;
      }
    }
  } catch (error) {
    if (error.code?.startsWith?.('Z_') && entries.length === 0) throw fail('PARSE_ERROR', `parse error: the gzip archive is damaged (${error.message})`, error);
    if (!error.code?.startsWith?.('Z_')) throw error;
    entries.stopped = true;
  }
  if (first) throw fail('NOT_TAR', 'no tar archive');
  return entries;
}

const KINDS = { 0: 'file', '\0': 'file', 7: 'file', 1: 'hard link', 2: 'symlink', 3: 'device', 4: 'device', 5: 'directory', 6: 'fifo' };

function header(block) {
  const text = (from, to) => {
    const end = block.indexOf(0, from);
    return block.toString('utf8', from, end < 0 || end > to ? to : end);
  };
  const flag = String.fromCharCode(block[156]);
  const prefix = text(257, 262) === 'ustar' && block[263] === 0x30 ? text(345, 500) : '';
  const name = text(0, 100);
  const target = text(157, 257);
  const time = number(block, 136, 148);
  return {
    flag,
    path: prefix ? `${prefix}/${name}` : name,
    type: KINDS[flag] ?? flag,
    size: number(block, 124, 136),
    modified: time > 0 && time < 1e11 ? new Date(time * 1000).toISOString() : null,
    ...(target && { target }),
  };
}

function number(block, from, to) {
  if (block[from] & 0x80) return Number(BigInt(`0x${block.toString('hex', from + 1, to)}`));
  const n = parseInt(block.toString('latin1', from, to).replace(/\0.*$/, '').trim(), 8);
  return Number.isFinite(n) ? n : 0;
}

function longName(bytes, flag) {
  if (flag === 'L') return { path: bytes.toString('utf8').replace(/\0+$/, '') };
  if (flag === 'K') return { target: bytes.toString('utf8').replace(/\0+$/, '') };
  const out = {};
  for (let at = 0; at < bytes.length;) {
    const space = bytes.indexOf(0x20, at);
    const length = space < 0 ? 0 : parseInt(bytes.toString('latin1', at, space), 10);
    if (!(length > 0)) break;
    const [key, value] = bytes.toString('utf8', space + 1, at + length - 1).split(/=(.*)/s);
    if (key === 'path') out.path = value;
    else if (key === 'linkpath') out.target = value;
    else if (key === 'size' && /^\d+$/.test(value)) out.size = Number(value);
    at += length;
  }
  return out;
}
