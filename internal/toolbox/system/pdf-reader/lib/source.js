// The bytes of a PDF: a file in the allowed directories, or a URL if the network is granted.

import { open } from 'node:fs/promises';
import { constants } from 'node:fs';
import { fail } from './fail.js';

const LIMIT = 100 * 1024 * 1024; // bytes

/** bytesOf reads where, as resolve finds it. */
export async function bytesOf(where, resolve, signal) {
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(where)) return download(where, signal);
  return readFile(resolve(where), where, signal);
}

async function readFile(path, name, signal) {
  let file;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') throw fail('FILE_NOT_FOUND', `no such file: ${name}`, error);
    if (error.code === 'EACCES' || error.code === 'EPERM') throw fail('PERMISSION_DENIED', `permission denied: ${name} may not be read`, error);
    throw fail('INVALID_PATH', `invalid path: ${name} cannot be opened (${error.code ?? error.message})`, error);
  }
  try {
    const info = await file.stat();
    if (!info.isFile()) throw fail('INVALID_PATH', `invalid path: ${name} is ${info.isDirectory() ? 'a directory' : 'no regular file'}`);
    if (info.size > LIMIT) throw tooLarge(name);
    signal?.throwIfAborted();
    return new Uint8Array(await file.readFile());
  } finally {
    await file.close();
  }
}

const tooLarge = (name) => fail('FILE_TOO_LARGE', `file too large: ${name} has more than ${LIMIT / 1024 / 1024} MB`);

async function download(where, signal) {
  let url;
  try { url = new URL(where); } catch { url = undefined; }
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw fail('INVALID_PATH', `invalid path: ${JSON.stringify(where)} is no http or https address`);
  }
  const shown = `${url.protocol}//${url.host}${url.pathname}`; // a query may hold a secret
  try {
    const answer = await fetch(url, { signal, redirect: 'follow' });
    if (!answer.ok) {
      await answer.body?.cancel();
      if (answer.status === 403 && /^network: /.test(answer.statusText)) { // said by the sandbox
        throw fail('NETWORK_NOT_GRANTED', `network not granted: ${answer.statusText.slice(9)}; to grant it: toolyard toolbox grant pdf-reader --net ${url.host}`);
      }
      throw fail('DOWNLOAD_FAILED', `download failed: ${shown} answered ${answer.status} ${answer.statusText}`.trimEnd());
    }
    const parts = [];
    let size = 0;
    for await (const part of answer.body ?? []) {
      size += part.length;
      if (size > LIMIT) throw tooLarge(shown);
      parts.push(part);
    }
    return new Uint8Array(Buffer.concat(parts, size));
  } catch (error) {
    if (['DOWNLOAD_FAILED', 'FILE_TOO_LARGE', 'NETWORK_NOT_GRANTED'].includes(error.code) || signal?.aborted) throw error;
    const cause = error.cause?.code ?? error.cause?.message ?? error.message;
    throw fail('DOWNLOAD_FAILED', `download failed: ${shown} cannot be reached (${cause}); the network must be granted: toolyard toolbox grant pdf-reader --net ${url.host}`, error);
  }
}
