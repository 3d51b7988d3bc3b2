// Moves that never overwrite: what is at the destination when the move happens
// makes it fail, even if it came there a moment ago.

import { constants } from 'node:fs';
import { chmod, copyFile, link, lstat, mkdir, open, readdir, readlink, rename, rm, rmdir, symlink, unlink, utimes } from 'node:fs/promises';
import { fail } from './fail.js';
import { explain, inside, temporary } from './paths.js';
import path from 'node:path';

/** move renames a file, a directory or a link. Both paths are callers' words. */
export async function move(guard, source, destination, { signal, progress } = {}) {
  const from = await guard.parent(source);
  let to;
  try {
    if (!from.stat) throw fail('FILE_NOT_FOUND', `no such file or directory: ${source}`);
    to = await guard.parent(destination, { create: true });
    if (to.stat) throw exists(destination);
    const [a, b] = [path.join(from.path, from.name), path.join(to.path, to.name)];
    if (from.stat.isDirectory() && inside(a, b)) throw fail('INVALID_PATH', `invalid path: ${destination} is inside ${source}`);
    const target = { a: from.at(from.name), b: to.at(to.name), to, signal, progress };
    if (from.stat.isDirectory()) await directory(target);
    else if (from.stat.isSymbolicLink()) await relink(target);
    else if (from.stat.isFile()) await file(target);
    else throw fail('NOT_A_FILE', `not a regular file: ${source}`);
  } catch (error) {
    if (error.code === 'EEXIST' || error.code === 'ENOTEMPTY') throw exists(destination);
    throw explain(error, `${source} → ${destination}`);
  } finally {
    await from.handle.close();
    await to?.handle.close();
  }
}

function exists(destination) {
  return fail('ALREADY_EXISTS', `already exists: ${destination}; move_file never overwrites`);
}

// A second name is made and the first removed: link fails if the name is taken.
async function file({ a, b, to, signal }) {
  try {
    await link(a, b);
  } catch (error) {
    if (error.code === 'EXDEV') {
      const copy = to.at(temporary());
      try {
        await copyOne(a, copy, signal);
        await link(copy, b);
      } finally {
        await unlink(copy).catch(() => {});
      }
    } else if (['EPERM', 'ENOTSUP', 'ENOSYS', 'EMLINK', 'EACCES'].includes(error.code)) {
      // No hard links here: the place is taken first, then replaced.
      await (await open(b, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL)).close();
      try {
        await rename(a, b);
        return;
      } catch (failure) {
        await unlink(b).catch(() => {});
        throw failure;
      }
    } else {
      throw error;
    }
  }
  await unlink(a);
}

async function relink({ a, b }) {
  await symlink(await readlink(a), b);
  await unlink(a);
}

// rename replaces an empty directory and nothing else: ours.
async function directory({ a, b, to, signal, progress }) {
  await mkdir(b);
  try {
    await rename(a, b);
    return;
  } catch (error) {
    if (error.code !== 'EXDEV') {
      await rmdir(b).catch(() => {});
      throw error;
    }
  }
  const copy = to.at(temporary());
  try {
    await copyTree(a, copy, { signal, progress, done: 0 });
    await rename(copy, b);
  } catch (error) {
    await rm(copy, { recursive: true, force: true });
    await rmdir(b).catch(() => {});
    throw error;
  }
  await rm(a, { recursive: true });
}

async function copyOne(a, b, signal) {
  signal?.throwIfAborted();
  await copyFile(a, b, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const { mode, atime, mtime } = await lstat(a);
  await chmod(b, mode & 0o777);
  await utimes(b, atime, mtime);
}

async function copyTree(a, b, state) {
  await mkdir(b);
  for (const entry of await readdir(a, { withFileTypes: true })) {
    const [from, to] = [`${a}/${entry.name}`, `${b}/${entry.name}`];
    if (entry.isDirectory()) await copyTree(from, to, state);
    else if (entry.isSymbolicLink()) await symlink(await readlink(from), to);
    else if (entry.isFile()) await copyOne(from, to, state.signal);
    else throw fail('NOT_A_FILE', `not a regular file: ${entry.name}`);
    if (++state.done % 100 === 0) state.progress?.(state.done, undefined, 'copying');
  }
  await chmod(b, (await lstat(a)).mode & 0o777);
}
