// Directories: lists, trees and searches, all of them bounded. Symbolic links
// are shown and never followed.

import { lstat, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { excludes, search } from './glob.js';
import { fail } from './fail.js';
import { explain } from './paths.js';

const MAX_ENTRIES = 10_000;  // of one list
const MAX_VISITED = 500_000; // of one search
const MAX_DEPTH = 64;

const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);

function typeOf(entry) {
  if (entry.isDirectory()) return 'directory';
  if (entry.isFile()) return 'file';
  return entry.isSymbolicLink() ? 'symlink' : 'other';
}

/** names reads a directory of the guard, sorted by name. */
async function names(guard, dir, shown) {
  try {
    return (await readdir(dir.at(''), { withFileTypes: true })).sort(byName);
  } catch (error) {
    throw explain(error, shown);
  }
}

// behind says what a link leads to, if that may be known.
async function behind(guard, file) {
  try {
    const target = await realpath(file);
    if (!guard.allowed(target)) return undefined;
    return await stat(target);
  } catch {
    return undefined;
  }
}

/** list is what is in a directory: {name, type}, and with sizes {size, modified}. */
export async function list(guard, input, { sizes = false, sortBy = 'name', signal, progress } = {}) {
  const dir = await guard.directory(input);
  try {
    const found = await names(guard, dir, input);
    const shown = found.slice(0, MAX_ENTRIES);
    const out = [];
    for (const [i, entry] of shown.entries()) {
      signal?.throwIfAborted();
      if (i % 1000 === 999) progress?.(i + 1, shown.length, 'reading the directory');
      out.push(await describe(guard, dir, entry, sizes));
    }
    if (sizes && sortBy === 'size') out.sort((a, b) => (b.size ?? -1) - (a.size ?? -1) || byName(a, b));
    if (found.length <= MAX_ENTRIES) return out;
    return { entries: out, truncated: true, total: found.length, hint: 'search_files finds names in large directories' };
  } finally {
    await dir.handle.close();
  }
}

async function describe(guard, dir, entry, sizes) {
  let type = typeOf(entry);
  const out = { name: entry.name, type };
  let info;
  if (type === 'symlink') {
    info = await behind(guard, path.join(dir.path, entry.name));
    if (info) out.type = type = info.isDirectory() ? 'directory' : info.isFile() ? 'file' : 'other';
    out.symlink = true;
  }
  if (!sizes) return out;
  info ??= await lstat(dir.at(entry.name)).catch(() => undefined);
  out.size = type === 'file' && info ? info.size : null;
  out.modified = info ? info.mtime.toISOString() : null;
  return out;
}

/**
 * tree is a directory with all below it, broad first: when the limit is
 * reached, it is the deepest that is missing, and the directories that were not
 * looked into say so.
 */
export async function tree(guard, input, { excludePatterns, maxDepth = MAX_DEPTH, maxEntries = 5000, signal, progress }) {
  const out = excludes(excludePatterns);
  const top = await guard.real(input);
  const root = [];
  const queue = [{ file: top, relative: '', depth: 1, children: root }];
  let count = 0;
  while (queue.length > 0) {
    const { file, relative, depth, children, node } = queue.shift();
    signal?.throwIfAborted();
    if (depth > maxDepth || count >= maxEntries) {
      node.truncated = true;
      continue;
    }
    let dir;
    let found;
    try {
      dir = await guard.openDirectory(file, relative || input);
      found = await names(guard, dir, relative || input);
    } catch (error) {
      if (!node) throw error;
      node.error = error.message;
      continue;
    } finally {
      await dir?.handle.close();
    }
    for (const entry of found) {
      const below = relative ? `${relative}/${entry.name}` : entry.name;
      if (out(below)) continue;
      if (count >= maxEntries) {
        const left = { name: `(more of ${relative || '.'})`, type: 'truncated' };
        children.push(left);
        break;
      }
      count++;
      if (count % 500 === 0) progress?.(count, maxEntries, 'reading directories');
      const child = { name: entry.name, type: typeOf(entry) };
      if (child.type === 'directory') {
        child.children = [];
        queue.push({ file: path.join(file, entry.name), relative: below, depth: depth + 1, children: child.children, node: child });
      }
      children.push(child);
    }
  }
  return root;
}

/** find is the paths below a directory that match a pattern, files and directories. */
export async function find(guard, input, { pattern, excludePatterns, maxResults = 1000, signal, progress }) {
  const match = search(pattern);
  const out = excludes(excludePatterns);
  const top = await guard.real(input);
  if (!(await stat(top)).isDirectory()) throw fail('NOT_A_DIRECTORY', `not a directory: ${input}`);
  const matches = [];
  const stack = [{ file: top, relative: '', depth: 0 }];
  let visited = 0;
  const cut = (hint) => ({ matches, truncated: true, hint });
  while (stack.length > 0) {
    const { file, relative, depth } = stack.pop();
    signal?.throwIfAborted();
    let dir;
    let found;
    try {
      dir = await guard.openDirectory(file, relative || input);
      found = await names(guard, dir, relative || input);
    } catch (error) {
      if (relative === '') throw error;
      continue; // what may not be read is not found
    } finally {
      await dir?.handle.close();
    }
    const below = [];
    for (const entry of found) {
      if (++visited > MAX_VISITED) return cut(`stopped after ${MAX_VISITED} entries; search a smaller directory or exclude some`);
      if (visited % 2000 === 0) progress?.(visited, undefined, `${matches.length} found`);
      const name = relative ? `${relative}/${entry.name}` : entry.name;
      if (out(name)) continue;
      if (match(name)) {
        if (matches.length >= maxResults) return cut(`more than ${maxResults} match; use a narrower pattern or raise maxResults`);
        matches.push(path.join(top, name));
      }
      if (entry.isDirectory() && depth < MAX_DEPTH) below.push({ file: path.join(file, entry.name), relative: name, depth: depth + 1 });
    }
    stack.push(...below.reverse());
  }
  return matches;
}
