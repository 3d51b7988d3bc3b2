// Paths that cannot leave the allowed directories, not even when somebody swaps
// a directory for a symbolic link between the check and the use.
//
// A path is checked twice: as text by the runtime (resolvePath), and again as
// what was really opened. On Linux a directory is opened first and everything
// below it is named through /proc/self/fd, which is openat in all but name.
// Elsewhere the real path of the parent and O_NOFOLLOW have to do; there the
// sandbox is what stands behind them.

import { constants, existsSync, mkdirSync, realpathSync } from 'node:fs';
import { lstat, mkdir, open, readlink, realpath, rename, unlink } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { fail } from './fail.js';

const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL } = constants;
const O_NOFOLLOW = constants.O_NOFOLLOW ?? 0;
const O_NONBLOCK = constants.O_NONBLOCK ?? 0;
const O_DIRECTORY = constants.O_DIRECTORY ?? 0;
const byDescriptor = process.platform === 'linux' && existsSync('/proc/self/fd');

const REASONS = {
  ENOENT: ['FILE_NOT_FOUND', 'no such file or directory'],
  ENOTDIR: ['NOT_A_DIRECTORY', 'not a directory'],
  EISDIR: ['IS_A_DIRECTORY', 'is a directory'],
  EACCES: ['PERMISSION_DENIED', 'permission denied'],
  EPERM: ['PERMISSION_DENIED', 'permission denied'],
  EROFS: ['PERMISSION_DENIED', 'permission denied (read-only file system)'],
  ELOOP: ['PATH_OUTSIDE_SCOPE', 'a symbolic link that must not be followed'],
  EEXIST: ['ALREADY_EXISTS', 'already exists'],
  ENOTEMPTY: ['DIRECTORY_NOT_EMPTY', 'directory not empty'],
  ENOSPC: ['DISK_FULL', 'no space left on the disk'],
  EDQUOT: ['DISK_FULL', 'no space left on the disk (quota)'],
  ENAMETOOLONG: ['INVALID_PATH', 'invalid path: a name in it is too long'],
  ENXIO: ['NOT_A_FILE', 'not a regular file'],
};

/** explain turns an error of the file system into one that names the path as it was given. */
export function explain(error, shown) {
  const reason = REASONS[error?.code];
  return reason && error.syscall ? fail(reason[0], `${reason[1]}: ${shown}`, error) : error;
}

/** inside reports whether a path is a directory or lies below it. */
export function inside(dir, file) {
  return file === dir || file.startsWith(dir.endsWith(path.sep) ? dir : dir + path.sep);
}

/**
 * Guard opens what lies in the allowed directories, and nothing else. It is
 * made anew for each call, because configure may change the directories.
 * descriptors says whether files are named through /proc/self/fd.
 */
export class Guard {
  constructor(host, { descriptors = byDescriptor } = {}) {
    this.host = host;
    this.descriptors = descriptors;
    const dirs = host.getAllowedDirectories().map((dir) => path.resolve(dir));
    this.dirs = dirs;
    this.roots = dirs.map((dir) => {
      // The tool's own data/ may not be there yet; no other directory is made.
      if (host.__toolDir && inside(path.resolve(host.__toolDir), dir)) {
        try { mkdirSync(dir, { recursive: true }); } catch { /* it stays missing, and says so when used */ }
      }
      try { return realpathSync(dir); } catch { return dir; }
    });
  }

  /** allowed reports whether a real path may be touched. */
  allowed(real) {
    return this.roots.some((root) => inside(root, real));
  }

  refuse(shown, why = '') {
    return fail('PATH_OUTSIDE_SCOPE', `${shown} is outside the allowed directories${why} (allowed: ${this.dirs.join(', ') || 'none'})`);
  }

  /** lexical is the absolute path that a caller's words name; links are not followed yet. */
  lexical(input) {
    if (typeof input !== 'string' || input === '') throw fail('INVALID_PATH', 'invalid path: it is empty');
    if (input.includes('\0')) throw fail('INVALID_PATH', 'invalid path: it contains a NUL character');
    if (process.platform !== 'win32' && /^[A-Za-z]:[\\/]/.test(input)) {
      throw fail('INVALID_PATH', `invalid path: ${input} is a Windows path, and this machine is none`);
    }
    const resolve = this.host.resolvePath ?? this.host.resolvePromptManagerPath;
    let found;
    if (resolve) {
      try { found = resolve.call(this.host, input); } catch (error) {
        throw fail('PATH_OUTSIDE_SCOPE', this.refuse(input).message, error);
      }
    } else {
      const home = input.replace(/^~(?=$|\/)/, () => os.homedir());
      found = path.resolve(this.dirs[0] ?? '/', home);
    }
    if (!this.dirs.some((dir) => inside(dir, found)) && !this.allowed(found)) throw this.refuse(input);
    return found;
  }

  /** real is the path behind all links of something that exists. */
  async real(input) {
    const lexical = this.lexical(input);
    let found;
    try { found = await realpath(lexical); } catch (error) { throw explain(error, input); }
    if (!this.allowed(found)) throw this.refuse(input, ', because of a symbolic link');
    return found;
  }

  /** verify closes a handle and throws unless what it has opened is allowed. */
  async verify(handle, expected, shown) {
    try {
      if (this.descriptors) {
        const opened = await readlink(`/proc/self/fd/${handle.fd}`);
        if (!this.allowed(opened)) throw this.refuse(shown, ', because of a symbolic link');
        return;
      }
      const [now, here, there] = [await realpath(expected), await handle.stat(), await lstat(expected)];
      if (!this.allowed(now) || here.ino !== there.ino || here.dev !== there.dev) {
        throw this.refuse(shown, ', because of a symbolic link');
      }
    } catch (error) {
      await handle.close();
      throw explain(error, shown);
    }
  }

  /** file opens a regular file for reading: {handle, stat, path}. The caller closes the handle. */
  async file(input) {
    const target = await this.real(input);
    let handle;
    try { handle = await open(target, O_RDONLY | O_NOFOLLOW | O_NONBLOCK); } catch (error) { throw explain(error, input); }
    await this.verify(handle, target, input);
    const stat = await handle.stat();
    if (!stat.isFile()) {
      await handle.close();
      throw stat.isDirectory()
        ? fail('IS_A_DIRECTORY', `is a directory: ${input}`)
        : fail('NOT_A_FILE', `not a regular file: ${input}`);
    }
    return { handle, stat, path: target };
  }

  /** directory opens a directory that exists: {handle, path, at(name)}. The caller closes the handle. */
  async directory(input) {
    return this.openDirectory(await this.real(input), input);
  }

  async openDirectory(target, shown) {
    let handle;
    try { handle = await open(target, O_RDONLY | O_DIRECTORY | O_NOFOLLOW); } catch (error) {
      throw explain(error.code === 'ELOOP' ? Object.assign(error, { code: 'ENOTDIR' }) : error, shown);
    }
    await this.verify(handle, target, shown);
    const base = this.descriptors ? `/proc/self/fd/${handle.fd}` : target;
    return { handle, path: target, at: (name) => (name === '' ? base : `${base}/${name}`) };
  }

  /**
   * parent opens the directory that something is or will be in: {handle, path,
   * at(name), name, stat}. stat is what is there now, undefined if nothing is.
   * With follow a link as last element counts as what it leads to; with create
   * missing directories are made.
   */
  async parent(input, { follow = false, create = false } = {}) {
    let lexical = this.lexical(input);
    if (this.dirs.includes(lexical)) throw fail('INVALID_PATH', `invalid path: ${input} is an allowed directory itself`);
    if (follow) {
      const found = await lstat(lexical).catch(() => undefined);
      if (found?.isSymbolicLink()) {
        const target = await realpath(lexical).catch(() => undefined);
        if (!target) throw fail('PATH_OUTSIDE_SCOPE', `a symbolic link that must not be followed: ${input} leads to nothing`);
        if (!this.allowed(target)) throw this.refuse(input, ', because of a symbolic link');
        lexical = target;
      }
    }
    const dir = await this.ensure(path.dirname(lexical), input, create);
    const name = path.basename(lexical);
    let stat;
    try { stat = await lstat(dir.at(name)); } catch (error) {
      if (error.code !== 'ENOENT') {
        await dir.handle.close();
        throw explain(error, input);
      }
    }
    return { ...dir, name, stat };
  }

  /** ensure opens a directory by its absolute path, and makes what is missing of it if it may. */
  async ensure(lexical, shown, create) {
    const missing = [];
    let there = lexical;
    let found;
    for (;;) {
      try {
        found = await realpath(there);
        break;
      } catch (error) {
        if (error.code !== 'ENOENT' || there === path.dirname(there)) throw explain(error, shown);
        if (await lstat(there).catch(() => undefined)) {
          throw fail('PATH_OUTSIDE_SCOPE', `a symbolic link that must not be followed: ${there} leads to nothing`);
        }
        missing.unshift(path.basename(there));
        there = path.dirname(there);
      }
    }
    if (!this.allowed(found)) throw this.refuse(shown, missing.length ? '' : ', because of a symbolic link');
    if (missing.length && !create) {
      throw fail('FILE_NOT_FOUND', `no such file or directory: ${path.join(there, missing[0])}`);
    }
    let dir = await this.openDirectory(found, shown);
    for (const name of missing) {
      const next = path.join(dir.path, name);
      try {
        await mkdir(dir.at(name)).catch((error) => { if (error.code !== 'EEXIST') throw error; });
        const deeper = await this.openDirectory(this.descriptors ? dir.at(name) : next, shown);
        deeper.path = next;
        await dir.handle.close();
        dir = deeper;
      } catch (error) {
        await dir.handle.close().catch(() => {});
        throw explain(error, shown);
      }
    }
    return dir;
  }
}

/** temporary is a name for a file that is about to be renamed. */
export function temporary() {
  return `.toolyard-${randomBytes(9).toString('hex')}.tmp`;
}

/**
 * replace writes a file whole or not at all, through a new file beside it that
 * is renamed onto it; an existing file keeps its mode, and its owner if that
 * is possible. dir is what Guard.parent returned.
 */
export async function replace(dir, bytes, shown, signal) {
  if (dir.stat?.isDirectory()) throw fail('IS_A_DIRECTORY', `is a directory: ${shown}`);
  if (dir.stat && !dir.stat.isFile() && !dir.stat.isSymbolicLink()) throw fail('NOT_A_FILE', `not a regular file: ${shown}`);
  const name = temporary();
  let handle;
  try {
    if (dir.stat?.isFile()) await (await open(dir.at(dir.name), O_WRONLY | O_NOFOLLOW | O_NONBLOCK)).close();
    handle = await open(dir.at(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666);
    await handle.writeFile(bytes, { signal });
    if (dir.stat?.isFile()) {
      const made = await handle.stat();
      if (made.uid !== dir.stat.uid || made.gid !== dir.stat.gid) {
        await handle.chown(dir.stat.uid, dir.stat.gid).catch(() => {});
      }
      await handle.chmod(dir.stat.mode & 0o777);
    }
    await handle.sync();
    await handle.close();
    handle = undefined;
    await rename(dir.at(name), dir.at(dir.name));
    await dir.handle.sync().catch(() => {});
  } catch (error) {
    await handle?.close().catch(() => {});
    await unlink(dir.at(name)).catch(() => {});
    throw explain(error, shown);
  }
}
