// The cells of an Excel workbook.

import { fail } from './fail.js';
import { relations } from './office.js';
import { attribute, tokens } from './xml.js';

const DATES = new Set([14, 15, 16, 17, 18, 19, 20, 21, 22, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 45, 46, 47, 50, 51, 52, 53, 54, 55, 56, 57, 58]);
const MAX_COLUMNS = 16384;

/**
 * xlsx is the sheets of a workbook: a list of {name, hidden, rows, rowCount,
 * columnCount, truncated}. Rows are lists of strings, numbers, booleans and
 * null; dates are ISO text. only names one sheet.
 */
export async function xlsx(zip, { maxRows, only, progress }) {
  const book = await zip.text('xl/workbook.xml');
  if (book === undefined) throw fail('PARSE_ERROR', 'parse error: the workbook has no xl/workbook.xml');
  const links = await relations(zip, 'xl/workbook.xml');
  const sheets = [];
  let since1904 = false;
  for (const token of tokens(book)) {
    if (token.kind !== 'open') continue;
    if (token.local === 'workbookPr') since1904 = /^(1|true)$/.test(token.attributes.get('date1904') ?? '');
    if (token.local === 'sheet') sheets.push({ name: token.attributes.get('name'), hidden: /hidden/i.test(token.attributes.get('state') ?? ''), part: links.get(token.attributes.get('r:id') ?? attribute(token, 'id'))?.target });
  }
  const wanted = only === undefined ? sheets : sheets.filter(({ name }) => name === only);
  if (only !== undefined && wanted.length === 0) throw fail('SHEET_NOT_FOUND', `no sheet ${JSON.stringify(only)}: there are ${sheets.map(({ name }) => name).join(', ')}`);
  const strings = await shared(zip);
  const dates = await styles(zip);
  const out = [];
  for (const [i, { name, hidden, part }] of wanted.entries()) {
    const source = part && /worksheets?\//i.test(part) ? await zip.text(part) : undefined;
    if (source !== undefined) out.push({ name, hidden, ...cells(source, { strings, dates, since1904, maxRows }) });
    progress?.(i + 1, wanted.length, name);
  }
  return out;
}

async function shared(zip) {
  const source = await zip.text('xl/sharedStrings.xml');
  const out = [];
  let text = '';
  let inText = false;
  let phonetic = 0;
  for (const token of source ? tokens(source) : []) {
    if (token.kind === 'text') {
      if (inText && phonetic === 0) text += token.text;
    } else if (token.local === 't') inText = token.kind === 'open' && !token.empty;
    else if (token.local === 'rPh') phonetic += token.kind === 'close' ? -1 : token.empty ? 0 : 1;
    else if (token.local === 'si') {
      if (token.kind === 'close' || token.empty) {
        out.push(text);
        text = '';
      }
    }
  }
  return out;
}

// styles says for each style of cells whether its numbers are dates.
async function styles(zip) {
  const source = await zip.text('xl/styles.xml');
  const formats = new Map();
  const out = [];
  let inCells = false;
  for (const token of source ? tokens(source) : []) {
    if (token.local === 'cellXfs') inCells = token.kind === 'open' && !token.empty;
    if (token.kind !== 'open') continue;
    if (token.local === 'numFmt') formats.set(Number(token.attributes.get('numFmtId')), token.attributes.get('formatCode') ?? '');
    else if (token.local === 'xf' && inCells) {
      const id = Number(token.attributes.get('numFmtId'));
      const code = (formats.get(id) ?? '').replace(/"[^"]*"|\\.|_.|\[(?!h+\]|m+\]|s+\])[^\]]*\]/gi, '');
      out.push(formats.has(id) ? /[ymdhs]/i.test(code) && !/^general$/i.test(code) : DATES.has(id));
    }
  }
  return out;
}

function cells(source, { strings, dates, since1904, maxRows }) {
  const rows = [];
  let rowCount = 0;
  let columnCount = 0;
  let row = 0;
  let column = 0;
  let cell;
  let field = '';
  const finish = () => {
    const value = valueOf(cell, { strings, dates, since1904 });
    if (value !== null) {
      rowCount = Math.max(rowCount, row);
      columnCount = Math.max(columnCount, column);
      if (row <= maxRows && column <= MAX_COLUMNS) {
        while (rows.length < row) rows.push([]);
        const list = rows[row - 1];
        while (list.length < column) list.push(null);
        list[column - 1] = value;
      }
    }
    cell = undefined;
  };
  for (const token of tokens(source)) {
    if (token.kind === 'text') {
      if (cell && (field === 'v' || field === 't')) cell[field] += token.text;
    } else if (token.kind === 'open') {
      if (token.local === 'row') {
        row = Number(token.attributes.get('r')) || row + 1;
        column = 0;
      } else if (token.local === 'c') {
        const at = /^([A-Z]{1,3})(\d+)$/.exec(token.attributes.get('r') ?? '');
        column = at ? [...at[1]].reduce((n, c) => n * 26 + c.charCodeAt(0) - 64, 0) : column + 1;
        if (at) row = Number(at[2]);
        cell = { type: token.attributes.get('t') ?? 'n', style: Number(token.attributes.get('s') ?? 0), v: '', t: '' };
        if (token.empty) finish();
      } else field = token.empty ? '' : token.local;
    } else if (token.local === 'c') {
      if (cell) finish();
    } else field = '';
  }
  return { rows, rowCount, columnCount, ...(rowCount > maxRows && { truncated: true }) };
}

function valueOf({ type, style, v, t }, { strings, dates, since1904 }) {
  if (type === 'inlineStr') return t === '' ? null : t;
  if (v === '') return null;
  if (type === 's') return strings[Number(v)] ?? null;
  if (type === 'b') return v.trim() === '1';
  if (type !== 'n') return v;
  const n = Number(v);
  if (!Number.isFinite(n)) return v;
  return dates[style] ? date(n, since1904) : n;
}

// date is a serial number as ISO text: a day, a time, or both. Day 60 is the
// February 29, 1900 that Excel has and the calendar has not.
function date(n, since1904) {
  if (n < 0 || n > 2958466) return n;
  const days = Math.floor(n);
  const ms = Math.round((n - days) * 86400) * 1000;
  const clock = (iso) => iso.slice(11, 19);
  if (!since1904 && days === 0) return clock(new Date(ms).toISOString());
  const first = since1904 ? Date.UTC(1904, 0, 1) : Date.UTC(1899, 11, days < 60 ? 31 : 30);
  const iso = new Date(first + days * 86400000 + ms).toISOString();
  return ms === 0 ? iso.slice(0, 10) : iso.slice(0, 19);
}
