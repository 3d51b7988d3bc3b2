// Globs, matched without regular expressions: no pattern takes longer than its
// length times that of the path.

const MAX_ALTERNATIVES = 256;

/**
 * glob compiles a pattern into a function of a path with slashes. A pattern
 * without a slash speaks of the last name, at any depth; one with a slash of the
 * whole path. * and ? stay within a name, ** goes across, [a-z] and {a,b} work
 * as in a shell.
 */
export function glob(pattern) {
  const tests = alternatives(pattern.replace(/^\.\//, '').replace(/\/+$/, '')).map((one) => {
    const parts = one.replace(/^\//, '').split('/').map((part) => (part === '**' ? part : tokens(part)));
    if (!one.includes('/') && parts[0] !== '**') return (path) => name(parts[0], path.slice(path.lastIndexOf('/') + 1));
    return (path) => segments(parts, path.split('/'));
  });
  return (path) => tests.some((test) => test(path));
}

/** search compiles what a person looks for: a glob, or a part of a name in any case. */
export function search(pattern) {
  if (/[*?[{]/.test(pattern) || pattern.includes('/')) return glob(pattern);
  const wanted = pattern.toLowerCase();
  return (path) => path.slice(path.lastIndexOf('/') + 1).toLowerCase().includes(wanted);
}

/** excludes compiles patterns of what to leave out; dir/** leaves out dir as well. */
export function excludes(patterns = []) {
  const tests = patterns.filter(Boolean).map((pattern) => glob(pattern.replace(/\/\*\*$/, '') || pattern));
  return (path) => tests.some((test) => test(path));
}

// {a,b} is written out; what is not closed is meant as it stands.
function alternatives(pattern) {
  let todo = [pattern];
  const done = [];
  while (todo.length > 0) {
    const next = [];
    for (const one of todo) {
      const found = braces(one);
      if (!found) done.push(one);
      else for (const part of found.parts) next.push(one.slice(0, found.from) + part + one.slice(found.to));
    }
    if (done.length + next.length > MAX_ALTERNATIVES) {
      const error = new Error(`invalid pattern: ${pattern} stands for more than ${MAX_ALTERNATIVES} patterns`);
      error.code = 'INVALID_PATTERN';
      throw error;
    }
    todo = next;
  }
  return done;
}

function braces(text) {
  const from = text.indexOf('{');
  if (from < 0) return undefined;
  const parts = [];
  let depth = 0;
  let start = from + 1;
  for (let i = from; i < text.length; i++) {
    if (text[i] === '{') depth++;
    else if (text[i] === ',' && depth === 1) {
      parts.push(text.slice(start, i));
      start = i + 1;
    } else if (text[i] === '}' && --depth === 0) {
      parts.push(text.slice(start, i));
      return parts.length > 1 ? { from, to: i + 1, parts } : undefined;
    }
  }
  return undefined;
}

// tokens are the pieces of a name's pattern: a character, '?' and '*' as
// symbols, or a set [abc].
const ANY = Symbol('?');
const MANY = Symbol('*');

function tokens(pattern) {
  const out = [];
  const chars = [...pattern];
  for (let i = 0; i < chars.length; i++) {
    const c = chars[i];
    if (c === '\\' && i + 1 < chars.length) out.push(chars[++i]);
    else if (c === '*') { if (out.at(-1) !== MANY) out.push(MANY); }
    else if (c === '?') out.push(ANY);
    else if (c === '[') {
      const end = chars.indexOf(']', chars[i + 1] === '!' || chars[i + 1] === '^' ? i + 3 : i + 2);
      if (end < 0) out.push(c);
      else {
        out.push(set(chars.slice(i + 1, end)));
        i = end;
      }
    } else out.push(c);
  }
  return out;
}

function set(chars) {
  const not = chars[0] === '!' || chars[0] === '^';
  const rest = not ? chars.slice(1) : chars;
  const ranges = [];
  for (let i = 0; i < rest.length; i++) {
    if (rest[i + 1] === '-' && i + 2 < rest.length) {
      ranges.push([rest[i], rest[i + 2]]);
      i += 2;
    } else ranges.push([rest[i], rest[i]]);
  }
  return (c) => ranges.some(([a, b]) => a <= c && c <= b) !== not;
}

function one(token, c) {
  return token === ANY || (typeof token === 'function' ? token(c) : token === c);
}

// name matches by going back to the last star only, which is enough.
function name(pattern, text) {
  const chars = [...text];
  let p = 0;
  let star = -1;
  let from = 0;
  for (let i = 0; i < chars.length;) {
    if (p < pattern.length && pattern[p] === MANY) {
      star = p++;
      from = i;
    } else if (p < pattern.length && one(pattern[p], chars[i])) {
      p++;
      i++;
    } else if (star >= 0) {
      p = star + 1;
      i = ++from;
    } else return false;
  }
  while (p < pattern.length && pattern[p] === MANY) p++;
  return p === pattern.length;
}

function segments(pattern, names) {
  let p = 0;
  let deep = -1;
  let from = 0;
  for (let i = 0; i < names.length;) {
    if (p < pattern.length && pattern[p] === '**') {
      deep = p++;
      from = i;
    } else if (p < pattern.length && name(pattern[p], names[i])) {
      p++;
      i++;
    } else if (deep >= 0) {
      p = deep + 1;
      i = ++from;
    } else return false;
  }
  while (p < pattern.length && pattern[p] === '**') p++;
  return p === pattern.length;
}
