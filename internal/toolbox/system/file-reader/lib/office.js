// The text of documents that are zip archives of XML: Word, PowerPoint,
// OpenDocument and EPUB.

import { fail } from './fail.js';
import { htmlToText } from './html.js';
import { attribute, tokens } from './xml.js';

/** relations are the targets of a part of a package, by id. */
export async function relations(zip, part) {
  const dir = part.slice(0, part.lastIndexOf('/') + 1);
  const source = await zip.text(`${dir}_rels/${part.slice(dir.length)}.rels`);
  const out = new Map();
  for (const token of source ? tokens(source) : []) {
    if (token.kind !== 'open' || token.local !== 'Relationship') continue;
    const target = token.attributes.get('Target') ?? '';
    out.set(token.attributes.get('Id'), { target: join(dir, target), type: token.attributes.get('Type') ?? '' });
  }
  return out;
}

/** join resolves a path inside an archive. */
export function join(dir, target) {
  const parts = target.startsWith('/') ? [] : dir.split('/').filter(Boolean);
  for (const part of target.split('/')) {
    if (part === '..') parts.pop();
    else if (part && part !== '.') parts.push(part);
  }
  return parts.join('/');
}

async function required(zip, name) {
  const source = await zip.text(name);
  if (source === undefined) throw fail('PARSE_ERROR', `parse error: the document has no ${name}`);
  return source;
}

/** docx is the text of a Word document, with headings, lists and tables in Markdown. */
export async function docx(zip) {
  const main = zip.has('word/document.xml') ? 'word/document.xml' : zip.entries.find(({ name }) => /^word\/document\d*\.xml$/.test(name))?.name;
  const out = [paragraphs(await required(zip, main ?? 'word/document.xml'))];
  for (const [part, title] of [['word/footnotes.xml', 'Footnotes'], ['word/endnotes.xml', 'Endnotes'], ['word/comments.xml', 'Comments']]) {
    const source = await zip.text(part);
    const notes = source ? paragraphs(source) : '';
    if (notes) out.push(`${title}:\n${notes}`);
  }
  return out.filter(Boolean).join('\n\n');
}

// paragraphs reads w: and a: markup alike; both have p, t, br, tab, tbl, tr and tc.
function paragraphs(source) {
  const out = [];
  let line = '';
  let prefix = '';
  let cells;
  let cell;
  let inText = false;
  let skipped = 0;
  for (const token of tokens(source)) {
    if (skipped > 0) {
      // What old programs see instead of a drawing says it a second time.
      if (token.local === 'Fallback') skipped += token.kind === 'close' ? -1 : token.empty ? 0 : 1;
      continue;
    }
    if (token.kind === 'text') {
      if (inText) line += token.text;
      continue;
    }
    const { local } = token;
    if (token.kind === 'open') {
      if (local === 'Fallback' && !token.empty) skipped = 1;
      else if (local === 't') inText = !token.empty;
      else if (local === 'tab' && token.attributes.size === 0) line += '\t';
      else if (local === 'br' || local === 'cr') line += '\n';
      else if (local === 'noBreakHyphen') line += '-';
      else if (local === 'pStyle') prefix = heading(attribute(token, 'val') ?? '') || prefix;
      else if (local === 'numPr' && !prefix) prefix = '- ';
      else if (local === 'tr') cells = [];
      else if (local === 'tc') cell = [];
      continue;
    }
    if (local === 't') inText = false;
    else if (local === 'p') {
      if (cell) cell.push(line.trim());
      else if (line.trim()) out.push(prefix + line.trimEnd());
      else if (out.at(-1) !== '') out.push('');
      line = '';
      prefix = '';
    } else if (local === 'tc') {
      cells?.push((cell ?? []).filter(Boolean).join(' ').replace(/\s*\n\s*/g, ' '));
      cell = undefined;
    } else if (local === 'tr') {
      if (cells) out.push(`| ${cells.join(' | ')} |`);
      cells = undefined;
    } else if (local === 'tbl') out.push('');
  }
  return out.join('\n').trim();
}

function heading(style) {
  if (/^title$/i.test(style)) return '# ';
  const level = /^heading\s?(\d)$/i.exec(style)?.[1];
  return level ? `${'#'.repeat(Math.min(6, Number(level)))} ` : /^list/i.test(style) ? '- ' : '';
}

/** pptx is the text of a presentation: {text, slides}. */
export async function pptx(zip) {
  const links = await relations(zip, 'ppt/presentation.xml');
  const order = [];
  for (const token of tokens(await required(zip, 'ppt/presentation.xml'))) {
    if (token.kind === 'open' && token.local === 'sldId') order.push(links.get(token.attributes.get('r:id') ?? attribute(token, 'id'))?.target);
  }
  const out = [];
  for (const [i, name] of order.entries()) {
    const source = name && await zip.text(name);
    const text = source ? paragraphs(source) : '';
    const notes = name && [...(await relations(zip, name)).values()].find(({ type }) => type.endsWith('/notesSlide'))?.target;
    const said = notes ? paragraphs(await zip.text(notes) ?? '').replace(/\n?^\d+$/m, '').trim() : '';
    out.push([`## Slide ${i + 1}`, text, said && `Notes: ${said}`].filter(Boolean).join('\n'));
  }
  return { text: out.join('\n\n'), slides: order.length };
}

/** opendocument is the text of a Writer or Impress document, or the rows of a sheet. */
export async function opendocument(zip) {
  const out = [];
  let line = '';
  let depth = 0;
  let cells;
  let repeat = 1;
  for (const token of tokens(await required(zip, 'content.xml'))) {
    if (token.kind === 'text') {
      if (depth > 0) line += token.text;
      continue;
    }
    const { name } = token;
    if (token.kind === 'open') {
      if (name === 'text:h') line += `${'#'.repeat(Math.min(6, Number(attribute(token, 'outline-level')) || 1))} `;
      if ((name === 'text:p' || name === 'text:h') && !token.empty) depth++;
      else if (name === 'text:tab') line += '\t';
      else if (name === 'text:line-break') line += '\n';
      else if (name === 'text:s') line += ' '.repeat(Math.min(1000, Number(attribute(token, 'c')) || 1));
      else if (name === 'text:list-item') line += '- ';
      else if (name === 'table:table' && attribute(token, 'name')) out.push(`## ${attribute(token, 'name')}`);
      else if (name === 'table:table-row' && !token.empty) cells = [];
      else if (name === 'table:table-cell' || name === 'table:covered-table-cell') {
        repeat = Math.min(200, Number(attribute(token, 'number-columns-repeated')) || 1);
        if (cells && token.empty) cells.push(...Array(repeat).fill(''));
      }
      continue;
    }
    if (name === 'text:p' || name === 'text:h') depth--;
    if ((name === 'text:p' || name === 'text:h') && depth === 0) {
      if (cells) line += ' ';
      else {
        out.push(line);
        line = '';
      }
    } else if (name === 'table:table-cell' && cells) {
      cells.push(...Array(repeat).fill(line.trim()));
      line = '';
    } else if (name === 'table:table-row' && cells) {
      if (cells.some(Boolean)) out.push(cells.join('\t').trimEnd());
      cells = undefined;
    }
  }
  return out.join('\n').trim();
}

/** epub is the text of a book: {text, chapters}. */
export async function epub(zip, progress) {
  let book;
  for (const token of tokens(await required(zip, 'META-INF/container.xml'))) {
    if (token.kind === 'open' && token.local === 'rootfile') book ??= token.attributes.get('full-path');
  }
  if (!book) throw fail('PARSE_ERROR', 'parse error: the book does not say where its contents are');
  const files = new Map();
  const spine = [];
  for (const token of tokens(await required(zip, book))) {
    if (token.kind !== 'open') continue;
    if (token.local === 'item') files.set(token.attributes.get('id'), token.attributes.get('href') ?? '');
    else if (token.local === 'itemref') spine.push(token.attributes.get('idref'));
  }
  const dir = book.slice(0, book.lastIndexOf('/') + 1);
  const out = [];
  for (const [i, id] of spine.entries()) {
    const source = files.has(id) ? await zip.text(join(dir, decode(files.get(id)))) : undefined;
    if (source) out.push(htmlToText(source).text);
    progress?.(i + 1, spine.length, 'reading chapters');
  }
  return { text: out.filter(Boolean).join('\n\n'), chapters: spine.length };
}

function decode(href) {
  try { return decodeURIComponent(href); } catch { return href; }
}
