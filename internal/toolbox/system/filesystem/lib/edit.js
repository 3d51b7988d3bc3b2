// Edits of a text: each replaces one place that is named by what stands there.
// Nothing here gives a caller's text to String.replace, where $& and $1 would
// mean something.

import { fail } from './fail.js';

/**
 * apply makes edits one after another and returns the new text. An edit whose
 * text is not there throws NO_MATCH, one that is there several times CONFLICT;
 * then nothing was changed.
 */
export function apply(text, edits, shown) {
  let now = text;
  const notes = [];
  edits.forEach((edit, i) => {
    const which = edits.length > 1 ? `edit ${i + 1} of ${edits.length}` : 'the edit';
    const { from, to, insert, how } = place(now, edit, shown, which);
    if (edit.replaceAll && how === 'exact') now = from.reduceRight((done, at) => done.slice(0, at) + insert + done.slice(at + to), now);
    else now = now.slice(0, from) + insert + now.slice(to);
    if (how === 'spaces') notes.push(`${which} matched with other indentation or trailing blanks`);
  });
  return { text: now, notes };
}

function place(text, edit, shown, which) {
  if (edit.oldText === '') {
    if (text === '') return { from: 0, to: 0, insert: edit.newText };
    throw fail('INVALID_EDIT', `invalid edit: oldText of ${which} is empty, and ${shown} is not`);
  }
  const crlf = text.includes('\r\n');
  let { oldText, newText } = edit;
  let found = all(text, oldText);
  if (found.length === 0 && crlf && !oldText.includes('\r')) {
    oldText = toCRLF(oldText);
    found = all(text, oldText);
  }
  if (found.length === 0 && !crlf && oldText.includes('\r\n')) {
    oldText = oldText.split('\r\n').join('\n');
    newText = newText.split('\r\n').join('\n');
    found = all(text, oldText);
  }
  if (crlf && onlyCRLF(text) && !newText.includes('\r')) newText = toCRLF(newText);
  // Two places that overlap are two places.
  if (found.length === 1 && !edit.replaceAll) {
    const again = text.indexOf(oldText, found[0] + 1);
    if (again >= 0) found.push(again);
  }
  if (found.length === 1 && !edit.replaceAll) return { from: found[0], to: found[0] + oldText.length, insert: newText, how: 'one' };
  if (found.length >= 1 && edit.replaceAll) return { from: found, to: oldText.length, insert: newText, how: 'exact' };
  if (found.length > 1) throw conflict(text, found, shown, which);
  return loose(text, edit, newText, shown, which);
}

// all finds the places of a text that do not overlap.
function all(text, wanted) {
  const out = [];
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) out.push(at);
  return out;
}

function toCRLF(text) {
  return text.split('\n').join('\r\n');
}

function onlyCRLF(text) {
  return text.split('\n').length === text.split('\r\n').length;
}

function lineOf(text, at) {
  let line = 1;
  for (let i = text.indexOf('\n'); i >= 0 && i < at; i = text.indexOf('\n', i + 1)) line++;
  return line;
}

function conflict(text, found, shown, which) {
  const lines = found.slice(0, 8).map((at) => lineOf(text, at));
  return fail('CONFLICT', `conflict: oldText of ${which} occurs ${found.length} times in ${shown} (lines ${lines.join(', ')}${found.length > 8 ? ', …' : ''}); give more of the lines around it, or replaceAll`);
}

// loose compares whole lines without the blanks at both ends. It must be one
// place; the new lines get the indentation that is there.
function loose(text, edit, newText, shown, which) {
  const wanted = edit.oldText.replace(/\r?\n$/, '').split(/\r?\n/).map((line) => line.trim());
  const starts = [0];
  for (let i = text.indexOf('\n'); i >= 0; i = text.indexOf('\n', i + 1)) starts.push(i + 1);
  const line = (n) => text.slice(starts[n], n + 1 < starts.length ? starts[n + 1] : text.length);
  const places = [];
  if (wanted.some((w) => w !== '')) {
    const trimmed = starts.map((_, n) => line(n).trim());
    for (let n = 0; n + wanted.length <= trimmed.length; n++) {
      if (wanted.every((w, k) => w === trimmed[n + k])) places.push(n);
    }
  }
  if (places.length === 0) throw missing(text, edit.oldText, shown, which);
  if (places.length > 1) throw conflict(text, places.map((n) => starts[n]), shown, which);
  const first = places[0];
  const last = first + wanted.length - 1;
  const end = starts[last] + line(last).replace(/\r?\n$/, '').length;
  const here = /^[ \t]*/.exec(line(first))[0];
  const given = /^[ \t]*/.exec(edit.oldText)[0];
  const closed = /\n$/.test(edit.oldText) ? newText.replace(/\r?\n$/, '') : newText;
  const insert = closed.split('\n').map((l) => {
    if (l.trim() === '') return l;
    return l.startsWith(given) ? here + l.slice(given.length) : l;
  }).join('\n');
  // Without any new line the old ones go with their line end.
  const to = newText === '' && /\n$/.test(edit.oldText) ? starts[last] + line(last).length : end;
  return { from: starts[first], to, insert, how: 'spaces' };
}

// missing says where the first line of what was looked for stands, if it does.
function missing(text, oldText, shown, which) {
  const first = oldText.split(/\r?\n/).find((line) => line.trim() !== '')?.trim() ?? '';
  const lines = text.split('\n');
  const near = first ? lines.findIndex((line) => line.includes(first)) : -1;
  const hint = near >= 0 ? `; its first line is line ${near + 1}, what follows differs` : '; read the file again';
  return fail('NO_MATCH', `no match: oldText of ${which} is not in ${shown}${hint}`);
}
