// A unified diff of two texts.

const MAX_DISTANCE = 1500; // lines; beyond it the middle counts as replaced

/** unified is the diff of two texts with three lines of context, '' if they are equal. */
export function unified(before, after, name, context = 3) {
  if (before === after) return '';
  const a = lines(before);
  const b = lines(after);
  const out = [`--- a/${name}`, `+++ b/${name}`];
  for (const hunk of hunks(edits(a, b, context), context)) out.push(...show(hunk));
  return `${out.join('\n')}\n`;
}

function lines(text) {
  const out = text.split('\n').map((line) => `${line}\n`);
  const last = out.pop().slice(0, -1);
  if (last !== '') out.push(last);
  return out;
}

// edits is the list of the lines from the first change to the last, with their
// context: ' ' both, '-' before, '+' after, each with its number in both texts.
function edits(a, b, context) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const out = [];
  let x = Math.max(0, start - context);
  let y = x;
  const push = (kind) => {
    out.push({ kind, x, y, line: kind === '+' ? b[y] : a[x] });
    if (kind !== '+') x++;
    if (kind !== '-') y++;
  };
  while (x < start) push(' ');
  for (const kind of middle(a.slice(start, a.length - end), b.slice(start, b.length - end))) push(kind);
  const last = Math.min(a.length, a.length - end + context);
  while (x < last) push(' ');
  return out;
}

// middle is the shortest way from a to b (Myers, "An O(ND) Difference
// Algorithm", 1986), as a list of kinds.
function middle(a, b) {
  const replaced = () => [...a.map(() => '-'), ...b.map(() => '+')];
  if (a.length === 0 || b.length === 0) return replaced();
  const max = Math.min(a.length + b.length, MAX_DISTANCE);
  const v = new Int32Array(2 * max + 3);
  const trace = [];
  for (let d = 0; d <= max; d++) {
    trace.push(v.slice(max - d, max + d + 3));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && v[max + k] < v[max + k + 2]) ? v[max + k + 2] : v[max + k] + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++;
        y++;
      }
      v[max + k + 1] = x;
      if (x >= a.length && y >= b.length) return back(trace, a.length, b.length);
    }
  }
  return replaced();
}

function back(trace, x, y) {
  const out = [];
  for (let d = trace.length - 1; d > 0; d--) {
    const at = (k) => trace[d][k + d + 1];
    const k = x - y;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const from = at(down ? k + 1 : k - 1);
    for (; x > (down ? from : from + 1); x--) out.push(' ');
    out.push(down ? '+' : '-');
    x = from;
    y = from - (down ? k + 1 : k - 1);
  }
  for (; x > 0; x--) out.push(' ');
  return out.reverse();
}

function hunks(all, context) {
  const out = [];
  let last = -1;
  all.forEach((edit, i) => {
    if (edit.kind === ' ') return;
    if (out.length > 0 && i - last <= context * 2) out.at(-1).to = i + 1;
    else out.push({ from: i, to: i + 1 });
    last = i;
  });
  return out.map(({ from, to }) => all.slice(Math.max(0, from - context), to + context));
}

function show(hunk) {
  const before = hunk.filter(({ kind }) => kind !== '+').length;
  const after = hunk.filter(({ kind }) => kind !== '-').length;
  const range = (first, count) => (count === 1 ? `${first + 1}` : `${count === 0 ? first : first + 1},${count}`);
  const out = [`@@ -${range(hunk[0].x, before)} +${range(hunk[0].y, after)} @@`];
  // Of a change the lines that go stand before those that come.
  for (let i = 0; i < hunk.length;) {
    if (hunk[i].kind === ' ') {
      out.push(...one(hunk[i++]));
      continue;
    }
    const from = i;
    while (i < hunk.length && hunk[i].kind !== ' ') i++;
    const change = hunk.slice(from, i);
    for (const kind of ['-', '+']) for (const edit of change) if (edit.kind === kind) out.push(...one(edit));
  }
  return out;
}

function one({ kind, line }) {
  return line.endsWith('\n') ? [kind + line.slice(0, -1)] : [kind + line, '\\ No newline at end of file'];
}
