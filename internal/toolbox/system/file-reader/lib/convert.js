// From bytes to what a model can read.

import { list } from './archive.js';
import { csv, objects } from './csv.js';
import { isText } from './detect.js';
import { canonical, choose, decode } from './encoding.js';
import { charset, htmlToText } from './html.js';
import { dimensions } from './image.js';
import { faultOf, placeOf } from './json.js';
import { docx, epub, opendocument, pptx } from './office.js';
import { fail } from './fail.js';
import { rtf } from './rtf.js';
import { xlsx } from './sheet.js';
import { size } from './text.js';
import { toObject } from './xml.js';
import { parseYAML } from './yaml.js';
import { Zip } from './zip.js';

const MAX_BASE64 = 3 * 1024 * 1024;

const AUTO = {
  json: 'json', ndjson: 'json', csv: 'table', xlsx: 'table', image: 'image', audio: 'media', video: 'media', archive: 'list', binary: 'metadata', packed: 'metadata',
};

/**
 * convert makes content of a file: {content, format, conversion, encoding, …}.
 * file is {bytes, name, contentType}, kind what detect said of it.
 */
export async function convert(file, kind, options) {
  const { type } = kind;
  let target = options.convertTo ?? 'auto';
  if (target === 'video' || target === 'audio') target = 'media';
  if (type === 'pdf' && !['base64', 'metadata'].includes(target)) throw fail('USE_PDF_READER', `use pdf-reader: ${file.name} is a PDF document`);
  if (target === 'auto') target = type === 'yaml' ? 'yaml' : AUTO[type] ?? 'text';
  try {
    return await TARGETS[target](file, kind, options);
  } catch (error) {
    // What a damaged file says of its sizes may lie outside of it.
    if (error.code !== 'ERR_OUT_OF_RANGE' && error.code !== 'ERR_BUFFER_OUT_OF_BOUNDS') throw error;
    throw fail('PARSE_ERROR', `parse error: ${file.name} is damaged (${error.message})`, error);
  }
}

const cannot = (file, kind, what) => fail('CANNOT_CONVERT', `cannot convert ${file.name} to ${what}: it is ${described(kind)}`);

function described({ kind, type, mimeType }) {
  if (type === 'ole') return 'a document of an old Office format (.doc, .xls, .ppt); save it as .docx, .xlsx or .pptx, or as PDF';
  if (type === 'packed') return `a ${kind ?? mimeType}; unpack it first`;
  return `${/^[aeiou]/i.test(kind ?? type) ? 'an' : 'a'} ${kind ?? type} file (${mimeType})`;
}

/** decoded is a text file as text: by what was asked for, what the server or the document says, or what its bytes look like. */
export function decoded(file, kind, { encoding } = {}) {
  const bytes = file.bytes;
  let asked = encoding && encoding !== 'auto' ? encoding : undefined;
  if (!asked) {
    const served = /charset\s*=\s*"?([\w.:-]+)/i.exec(file.contentType ?? '')?.[1];
    const said = ['html', 'xml'].includes(kind.type) ? charset(bytes) : undefined;
    asked = [served, said].find((label) => label && known(label));
    // What is said is often wrong where it says UTF-8.
    if (asked && canonical(asked) === 'utf-8') asked = undefined;
  }
  const found = choose(bytes, asked);
  return { ...found, text: decode(bytes, found.encoding) };
}

function known(label) {
  try { return Boolean(canonical(label)); } catch { return false; }
}

const TARGETS = {
  async text(file, kind, options) {
    const reader = READERS[kind.type];
    if (reader) return reader(file, kind, options);
    if (!isText(kind.type)) {
      if (!options.encoding || options.encoding === 'auto' || kind.zip) throw cannot(file, kind, 'text');
    }
    return TARGETS.raw(file, kind, options);
  },

  async raw(file, kind, options) {
    if (!isText(kind.type) && kind.type !== 'rtf' && (!options.encoding || options.encoding === 'auto')) throw cannot(file, kind, 'text');
    const { text, encoding, confidence } = decoded(file, kind, options);
    return { content: text, format: 'text', conversion: 'text_decode', encoding, confidence };
  },

  async json(file, kind, options) {
    if (kind.type === 'csv') {
      const table = await TARGETS.table(file, kind, options);
      return { ...table, content: objects(table.content), format: 'json', conversion: 'csv_to_json' };
    }
    if (kind.type === 'xlsx') {
      const { content, ...rest } = await TARGETS.table(file, kind, options);
      const sheets = content.sheets.map(({ name, rows }) => [name, objects({ columns: (rows[0] ?? []).map((c) => String(c ?? '')), rows: rows.slice(1) })]);
      return { ...rest, content: Object.fromEntries(sheets), format: 'json', conversion: 'xlsx_to_json' };
    }
    if (kind.type === 'xml') return { ...await TARGETS.xml(file, kind, options), format: 'json', conversion: 'xml_to_json' };
    const decodedText = await TARGETS.raw(file, kind, options);
    const { content: text, ...rest } = decodedText;
    if (kind.type === 'ndjson') return { ...rest, ...lines(text, options.maxRows), format: 'json', conversion: 'ndjson_parse' };
    if (kind.type === 'yaml') return { ...rest, content: parseYAML(text), format: 'json', conversion: 'yaml_to_json' };
    try {
      return { ...rest, content: JSON.parse(text), format: 'json', conversion: 'json_parse' };
    } catch (error) {
      const failure = fail('PARSE_ERROR', `parse error: invalid JSON in ${file.name}, ${place(text, error)}`, error);
      if (options.convertTo === 'json') throw failure;
      return { ...decodedText, warnings: [failure.message] };
    }
  },

  async yaml(file, kind, options) {
    try {
      return await TARGETS.json(file, kind, options);
    } catch (error) {
      if (error.code !== 'PARSE_ERROR') throw error;
      return { ...await TARGETS.raw(file, kind, options), warnings: [error.message] };
    }
  },

  async xml(file, kind, options) {
    if (kind.type !== 'xml' && kind.type !== 'html' && kind.type !== 'text') throw cannot(file, kind, 'XML');
    const { content, ...rest } = await TARGETS.raw(file, kind, options);
    return { ...rest, content: toObject(content), format: 'xml', conversion: 'xml_parse' };
  },

  async table(file, kind, options) {
    if (kind.type === 'xlsx') {
      const sheets = await xlsx(kind.zip, { maxRows: options.maxRows ?? 1000, only: options.sheet, progress: options.progress });
      return { content: { sheets }, format: 'table', conversion: 'xlsx_to_table', truncated: sheets.some((sheet) => sheet.truncated) };
    }
    if (!isText(kind.type)) throw cannot(file, kind, 'a table');
    const { content, ...rest } = await TARGETS.raw(file, kind, options);
    const tabs = kind.mimeType === 'text/tab-separated-values' ? '\t' : undefined;
    const { warnings, ...table } = csv(content, { delimiter: options.delimiter ?? tabs, header: options.header !== false, maxRows: options.maxRows ?? 1000 });
    return { ...rest, content: table, format: 'table', conversion: 'csv_to_table', warnings, truncated: table.rowCount > table.rows.length };
  },

  async image(file, kind) {
    const svg = kind.mimeType === 'image/svg+xml';
    if (kind.type !== 'image' && !svg) throw cannot(file, kind, 'an image');
    const { bytes } = file;
    if (bytes.length > MAX_BASE64) throw fail('FILE_TOO_LARGE', `file too large: an image of ${size(bytes.length)} does not fit into a result, at most ${size(MAX_BASE64)} do`);
    const found = dimensions(bytes, kind.mimeType);
    const description = `${kind.mimeType}, ${size(bytes.length)}${found ? `, ${found.width} × ${found.height} pixels` : ''}`;
    return { content: { base64: bytes.toString('base64'), mimeType: kind.mimeType, dimensions: found, size: bytes.length, description }, format: 'image', conversion: 'image_base64' };
  },

  async media(file, kind) {
    if (kind.type !== 'audio' && kind.type !== 'video') throw cannot(file, kind, 'audio or video');
    return { ...await TARGETS.metadata(file, kind), format: kind.type, conversion: 'media_metadata' };
  },

  async list(file, kind, { signal }) {
    return { content: await list(file.bytes, file.name, signal), format: 'list', conversion: 'archive_list' };
  },

  async base64(file, kind) {
    const { bytes } = file;
    if (bytes.length > MAX_BASE64) throw fail('FILE_TOO_LARGE', `file too large: ${size(bytes.length)} do not fit into a result as base64, at most ${size(MAX_BASE64)} do`);
    return { content: { base64: bytes.toString('base64'), mimeType: kind.mimeType, size: bytes.length }, format: 'binary', conversion: 'binary_base64' };
  },

  async metadata(file, kind) {
    return { content: { type: kind.type, mimeType: kind.mimeType, size: file.bytes.length, description: `${kind.kind ?? kind.type}, ${kind.mimeType}, ${size(file.bytes.length)}` }, format: 'metadata', conversion: 'metadata' };
  },
};

const READERS = {
  async html(file, kind, options) {
    const { text, encoding, confidence } = decoded(file, kind, options);
    const page = htmlToText(text);
    return { content: page.text, format: 'text', conversion: 'html_to_text', encoding, confidence, title: page.title || undefined };
  },
  docx: async (file, kind) => ({ content: await docx(kind.zip), format: 'text', conversion: 'docx_to_text' }),
  async pptx(file, kind) {
    const { text, slides } = await pptx(kind.zip);
    return { content: text, format: 'text', conversion: 'pptx_to_text', slides };
  },
  opendocument: async (file, kind) => ({ content: await opendocument(kind.zip), format: 'text', conversion: 'opendocument_to_text' }),
  async epub(file, kind, { progress }) {
    const { text, chapters } = await epub(kind.zip, progress);
    return { content: text, format: 'text', conversion: 'epub_to_text', chapters };
  },
  async xlsx(file, kind, options) {
    const { content, truncated } = await TARGETS.table(file, kind, options);
    const text = content.sheets.map(({ name, rows }) => `## ${name}\n${rows.map((row) => row.map((c) => (c === null ? '' : String(c))).join('\t')).join('\n')}`).join('\n\n');
    return { content: text, format: 'text', conversion: 'xlsx_to_text', truncated };
  },
  rtf: async (file) => ({ content: rtf(file.bytes.toString('latin1')), format: 'text', conversion: 'rtf_to_text' }),
  async notebook(file, kind, options) {
    const { content } = await TARGETS.raw(file, kind, options);
    return { content: notebook(content, file.name), format: 'text', conversion: 'notebook_to_text' };
  },
  async archive(file, kind, options) {
    const zip = kind.zip ?? (kind.mimeType === 'application/zip' ? new Zip(file.bytes) : undefined);
    const { content } = await TARGETS.list(file, { ...kind, zip }, options);
    return { content: content.entries.map((e) => `${e.path}${e.size === undefined ? '' : `\t${e.size}`}`).join('\n'), format: 'text', conversion: 'archive_list', truncated: content.truncated };
  },
};

// lines reads JSON line by line; lines that are none are named.
function lines(text, maxRows = 1000) {
  const content = [];
  const warnings = [];
  let count = 0;
  for (const [i, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    count++;
    try {
      const value = JSON.parse(line);
      if (content.length < maxRows) content.push(value);
    } catch (error) {
      if (warnings.length < 10) warnings.push(`line ${i + 1} is no JSON: ${error.message}`);
    }
  }
  if (count > 0 && content.length === 0) throw fail('PARSE_ERROR', `parse error: invalid JSON, ${warnings[0]}`);
  return { content, warnings, rowCount: count, truncated: count - warnings.length > content.length };
}

// place says where in a text JSON went wrong.
function place(text, error) {
  const at = faultOf(text);
  if (at < 0) return error.message;
  return `${at >= text.trimEnd().length ? 'it ends too early' : `${JSON.stringify(text.slice(at, at + 20))} is unexpected`} (${placeOf(text, at)})`;
}

// notebook shows the cells of a Jupyter notebook and what they printed.
function notebook(text, name) {
  let book;
  try { book = JSON.parse(text); } catch (error) { throw fail('PARSE_ERROR', `parse error: invalid JSON in ${name}, ${place(text, error)}`, error); }
  const joined = (value) => (Array.isArray(value) ? value.join('') : String(value ?? ''));
  const language = book.metadata?.kernelspec?.language ?? book.metadata?.language_info?.name ?? '';
  return (Array.isArray(book.cells) ? book.cells : []).map((cell) => {
    const source = joined(cell.source);
    if (cell.cell_type !== 'code') return source;
    const out = (Array.isArray(cell.outputs) ? cell.outputs : []).map((o) => joined(o.text ?? o.data?.['text/plain'] ?? (o.ename ? `${o.ename}: ${o.evalue}` : ''))).filter(Boolean).join('\n');
    return `\`\`\`${language}\n${source}\n\`\`\`${out ? `\n\nOutput:\n${out.trimEnd()}` : ''}`;
  }).join('\n\n');
}
