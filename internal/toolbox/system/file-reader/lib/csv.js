// Tables as text: RFC 4180 and what people make of it.

const DELIMITERS = [',', ';', '\t', '|'];

/**
 * csv reads a table: {delimiter, columns, rows, rowCount, warnings}. Of the rows
 * at most maxRows are kept, and all are counted. Without a header the columns
 * are numbers.
 */
export function csv(text, { delimiter, header = true, maxRows = 1000 } = {}) {
  const named = /^sep=(.)\r?\n/.exec(text);
  const source = named ? text.slice(named[0].length) : text;
  const sign = delimiter ?? named?.[1] ?? guess(source);
  const warnings = [];
  let columns;
  let width = 0;
  let ragged = 0;
  let rowCount = 0;
  const rows = [];
  for (const record of records(source, sign, warnings)) {
    if (header && !columns) {
      columns = record;
      width = record.length;
      continue;
    }
    rowCount++;
    if (width === 0) width = record.length;
    if (record.length !== width) ragged++;
    if (rows.length < maxRows) rows.push(record);
  }
  if (ragged > 0) warnings.push(`${ragged} of ${rowCount} rows have another number of fields`);
  columns ??= Array.from({ length: width }, (_, i) => String(i + 1));
  return { delimiter: sign, columns, rows, rowCount, warnings };
}

/** objects makes an object of each row; columns without a name get their number, names that come twice a suffix. */
export function objects({ columns, rows }) {
  const names = [];
  for (const [i, column] of columns.entries()) {
    const plain = column.trim() || `column ${i + 1}`;
    let name = plain;
    for (let n = 2; names.includes(name); n++) name = `${plain} ${n}`;
    names.push(name);
  }
  return rows.map((row) => Object.fromEntries(row.map((value, i) => [names[i] ?? `column ${i + 1}`, value])));
}

// guess takes the delimiter that divides the first lines most evenly.
function guess(text) {
  const sample = text.slice(0, 64 * 1024);
  let best = ',';
  let most = 0;
  for (const sign of DELIMITERS) {
    const counts = [];
    for (const record of records(sample, sign, [])) {
      if (counts.push(record.length) >= 20) break;
    }
    if (counts.length > 1 && sample.length < text.length) counts.pop();
    const same = counts.filter((n) => n === counts[0]).length / counts.length;
    const score = counts[0] > 1 ? same * 10 + Math.min(counts[0], 9) / 10 : 0;
    if (score > most) [best, most] = [sign, score];
  }
  return best;
}

function* records(text, delimiter, warnings) {
  let record = [];
  let at = 0;
  while (at < text.length) {
    let field;
    if (text[at] === '"') {
      const parts = [];
      let from = at + 1;
      for (;;) {
        const end = text.indexOf('"', from);
        if (end < 0) {
          parts.push(text.slice(from));
          warnings.push('a quoted field does not end');
          at = text.length;
          break;
        }
        if (text[end + 1] === '"') {
          parts.push(text.slice(from, end + 1));
          from = end + 2;
          continue;
        }
        parts.push(text.slice(from, end));
        at = end + 1;
        break;
      }
      const rest = plain(text, at, delimiter);
      field = parts.join('') + text.slice(at, rest);
      at = rest;
    } else {
      const end = plain(text, at, delimiter);
      field = text.slice(at, end);
      at = end;
    }
    record.push(field);
    if (text[at] === delimiter) {
      at++;
      if (at === text.length) record.push('');
      else continue;
    }
    if (at >= text.length || text[at] === '\r' || text[at] === '\n') {
      if (text[at] === '\r' && text[at + 1] === '\n') at++;
      at++;
      // A line without anything is no row.
      if (record.length > 1 || record[0] !== '') yield record;
      record = [];
    }
  }
}

function plain(text, from, delimiter) {
  let at = from;
  while (at < text.length && text[at] !== delimiter && text[at] !== '\n' && text[at] !== '\r') at++;
  return at;
}
