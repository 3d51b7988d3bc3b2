// One method that reads files of many kinds, from the disk and by http, and
// turns them into what a model can read.

import { statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { convert } from './lib/convert.js';
import { detect, isText } from './lib/detect.js';
import { fail } from './lib/fail.js';
import { linksIn } from './lib/links.js';
import { Guard } from './lib/paths.js';
import { download, patterns } from './lib/remote.js';
import { head, size, span, tail, whole } from './lib/text.js';

const MAX_FILE = 10 * 1024 * 1024;   // bytes, unless maxSize or MAX_FILE_SIZE says otherwise
const MAX_EVER = 100 * 1024 * 1024;  // bytes, whatever they say
const MAX_TEXT = 1_000_000;          // characters of one result
const MAX_JSON = 3_500_000;          // characters of a result that is data
const MAX_LINKS = 20;
const MAX_NESTED_TEXT = 50_000;
const LOG_LINES = 500;
const TIMEOUT = 25_000;              // ms of a download, less than a call may take

export default {
  getMetadata() {
    return {
      id: 'file-reader',
      name: 'File Reader',
      description: 'Reads a file from the disk or a URL and turns it into text or data: source code and text in any encoding (GBK, Big5, Shift_JIS, UTF-16), HTML, CSV, JSON, YAML, XML, Word, Excel, PowerPoint, OpenDocument, RTF, EPUB, notebooks, images, and the lists of archives. Use it when the kind or the encoding of a file is not plain UTF-8 text, or when it is behind a URL. Do not use it for PDF (pdf-reader), to change files (filesystem), or for pages that need a browser (playwright).',
      version: '1.0.0',
      category: 'utility',
      author: 'Toolyard',
      tags: ['file', 'reader', 'http', 'encoding', 'office', 'csv', 'image'],
      scenarios: [
        'Read a text file whose encoding is unknown, such as an old one in GBK',
        'Get the text of a Word document, the rows of an Excel sheet or the slides of a presentation',
        'Read a web page or a JSON file by its URL',
        'Look at the last lines of a large log',
        'See an image, or what is in an archive',
      ],
      limitations: [
        'Files up to 10 MB, 100 MB with maxSize; of larger text only the ends (head, tail)',
        'Only the allowed directories: by default the tool\'s own data/; configure ALLOWED_DIRECTORIES grants more',
        'URLs only if the network was granted to the tool; scripts of pages do not run',
        'PDF and the old Office formats (.doc, .xls, .ppt) are not read; of audio and video only what they are',
        'YAML with anchors, tags or merge keys comes as text',
      ],
    };
  },

  getSchema() {
    return {
      parameters: {
        type: 'object',
        properties: {
          method: { type: 'string', enum: ['read_file'], default: 'read_file', description: 'The only method.' },
          url: { type: 'string', minLength: 1, maxLength: 8192, description: 'A path, or a URL with file, http or https.' },
          convertTo: { type: 'string', enum: ['auto', 'text', 'raw', 'json', 'table', 'xml', 'image', 'audio', 'video', 'base64', 'metadata'], default: 'auto', description: 'What to make of it. auto takes what suits the file; text is what a person would read; raw is the text as it stands, such as the source of a page.' },
          encoding: { type: 'string', maxLength: 40, default: 'auto', description: 'Encoding of a text, such as gbk, big5, shift_jis or utf-16le; auto detects it.' },
          head: { type: 'integer', minimum: 1, description: 'Only the first N lines of a text on the disk.' },
          tail: { type: 'integer', minimum: 1, description: 'Only the last N lines of a text on the disk.' },
          offset: { type: 'integer', minimum: 0, default: 0, description: 'Leave out so many characters of the text: nextOffset of the part before.' },
          maxLength: { type: 'integer', minimum: 1, maximum: MAX_TEXT, default: MAX_TEXT, description: 'At most so many characters of the text.' },
          maxRows: { type: 'integer', minimum: 1, maximum: 100000, default: 1000, description: 'Tables and JSON lines: at most so many rows; all are counted.' },
          sheet: { type: 'string', maxLength: 100, description: 'Excel: only the sheet of this name.' },
          delimiter: { type: 'string', minLength: 1, maxLength: 1, description: 'CSV: what divides the fields; it is found by itself.' },
          header: { type: 'boolean', default: true, description: 'CSV: whether the first row has the names of the columns.' },
          includeMetadata: { type: 'boolean', default: true, description: 'Say what was detected and done.' },
          maxSize: { type: 'integer', minimum: 1, maximum: MAX_EVER, description: 'The most bytes that a file may have; 10 MB by default.' },
          timeout: { type: 'integer', minimum: 1, maximum: 600000, description: 'Milliseconds that a download may take; 25,000 by default.' },
          basePath: { type: 'string', maxLength: 8192, description: 'The file, directory (ending in /) or URL that a relative url begins at.' },
          extractLinks: { type: 'boolean', default: false, description: 'Read the files that a text links to as well.' },
          maxDepth: { type: 'integer', minimum: 1, maximum: 10, default: 3, description: 'extractLinks: how many links deep.' },
          useCache: { type: 'boolean', default: true, description: 'A URL that was read a moment ago is not loaded again. Files on the disk are always read anew.' },
          cacheTimeout: { type: 'integer', minimum: 0, default: 600000, description: 'Milliseconds that a URL counts as read a moment ago.' },
        },
        required: ['url'],
      },
      environment: {
        type: 'object',
        properties: {
          ALLOWED_DIRECTORIES: { type: 'string', description: 'Directories that may be read: a JSON array, or separated by commas. Without it only the tool\'s own data/.' },
          ALLOWED_URLS: { type: 'string', default: '["https://*", "http://*"]', description: 'URLs that may be read, as a JSON array with wildcards, such as https://*.example.com/docs/*.' },
          MAX_FILE_SIZE: { type: 'string', default: String(MAX_FILE), description: 'The most bytes that a file may have, unless maxSize says otherwise.' },
          DEFAULT_TIMEOUT: { type: 'string', default: String(TIMEOUT), description: 'Milliseconds that a download may take, unless timeout says otherwise.' },
        },
        required: [],
      },
    };
  },

  getDependencies() {
    const files = ['archive', 'convert', 'csv', 'detect', 'encoding', 'fail', 'html', 'image', 'json', 'links', 'office', 'paths', 'remote', 'rtf', 'sheet', 'text', 'xml', 'yaml', 'zip'];
    return Object.fromEntries(files.map((name) => [`./lib/${name}.js`, 'local']));
  },

  getBusinessErrors() {
    const known = (code, description, match, solution, retryable = false) => ({ code, description, match, solution, retryable });
    return [
      known('USE_PDF_READER', 'The file is a PDF document.', /^use pdf-reader:/i, 'Call the tool pdf-reader with the same path or URL.'),
      known('INVALID_URL', 'The URL is not usable.', /invalid URL/i, 'Give a path, or a URL with file, http or https.'),
      known('INVALID_PATH', 'The path is not usable.', /invalid path/i, 'Check the path.'),
      known('URL_NOT_ALLOWED', 'The URL is not among those that the user allows.', /URL not allowed/i, 'Ask the user to add it with configure ALLOWED_URLS.'),
      known('PATH_OUTSIDE_SCOPE', 'The path is outside the allowed directories.', /outside the allowed directories|symbolic link that must not be followed/i, 'Use an allowed directory, or grant this one with configure ALLOWED_DIRECTORIES.'),
      known('FILE_TOO_LARGE', 'The file or the result is too large.', /^file too large:/i, 'Raise maxSize, read a part with head or tail, or fewer rows with maxRows.'),
      known('UNSUPPORTED_ENCODING', 'The encoding is not known.', /^unsupported encoding:/i, 'Name another encoding, such as utf-8 or gbk.'),
      known('SHEET_NOT_FOUND', 'The workbook has no such sheet.', /^no sheet/i, 'Use one of the names in the message.'),
      known('CANNOT_CONVERT', 'The file cannot become what was asked for.', /^cannot convert|^binary file:/i, 'Leave convertTo out, or use metadata or base64.'),
      known('PARSE_ERROR', 'The file is damaged, or not what its name says.', /^parse error:/i, 'Read it with convertTo raw to see what it is.'),
      known('NETWORK_ERROR', 'The server could not be reached or did not answer well.', /^network error:/i, 'Try again later; if the tool has no network, ask the user to grant it.', true),
      known('FILE_NOT_FOUND', 'The file does not exist.', /no such file|ENOENT/i, 'Check the path or URL.'),
      known('IS_A_DIRECTORY', 'The path is a directory.', /is a directory|EISDIR/i, 'Name a file; filesystem lists directories.'),
      known('NOT_A_DIRECTORY', 'A part of the path is a file.', /not a directory|ENOTDIR/i, 'Check the path.'),
      known('NOT_A_FILE', 'The path is a device, a socket or a pipe.', /not a regular file/i, 'Name a regular file.'),
      known('PERMISSION_DENIED', 'The file system or the server does not permit it.', /permission denied|EACCES|EPERM/i, 'Ask the user for access.'),
      known('INVALID_CONFIGURATION', 'A variable of the tool is wrong.', /^invalid configuration:/i, 'Correct it with configure.'),
      known('INVALID_PARAMETERS', 'Parameters are missing or wrong.', /^invalid parameters?:/i, 'Read the tool\'s manual.'),
    ];
  },

  getRuntimeConfig() {
    return { sandboxType: 'nodejs', networkAccess: true };
  },

  async execute(params) {
    const args = this.checked(params);
    await this.initializeFilesystem?.();
    const { signal } = this.api ?? {};
    signal?.throwIfAborted();
    const reading = new Reading(this, args);
    const result = await reading.read(args.url, args.basePath);
    if (args.extractLinks && typeof result.content === 'string') {
      const nested = await reading.follow(result);
      if (nested.length > 0) result.nestedLinks = nested;
      if (result.metadata) result.metadata.nestedLinksCount = nested.length;
    }
    return result;
  },

  /** checked is the parameters of a call, or an error that names all that is wrong with them. */
  checked(params) {
    const args = params ?? {};
    const verdict = this.validateParameters?.(args, this.getSchema().parameters);
    const faults = verdict && !verdict.valid ? [...verdict.errors] : [];
    if (faults.length === 0) {
      if (typeof args.url !== 'string' || args.url === '') faults.push('url is missing');
      if (args.method !== undefined && args.method !== 'read_file') faults.push(`method ${JSON.stringify(args.method)} is not read_file`);
      if (args.head && args.tail) faults.push('head and tail exclude each other');
    }
    if (faults.length > 0) throw fail('INVALID_PARAMETERS', `invalid parameters: ${faults.map((f) => f?.message ?? f).join('; ')}`);
    return args;
  },
};

// Reading is one call: its limits, and the files that it has read.
class Reading {
  constructor(host, args) {
    this.host = host;
    this.args = args;
    this.guard = new Guard(host);
    this.signal = host.api?.signal;
    this.progress = (...report) => host.api?.progress?.(...report);
    this.limit = Math.min(MAX_EVER, args.maxSize ?? this.number('MAX_FILE_SIZE', MAX_FILE));
  }

  number(name, fallback) {
    const n = Number(this.host.api?.environment?.get?.(name));
    return Number.isFinite(n) && n > 0 ? n : fallback;
  }

  /** locate says where something is: {remote, url} or {remote: false, input}. */
  locate(url, base) {
    let words = url.trim();
    if (base && !/^[a-z][a-z0-9+.-]*:\/\//i.test(words)) {
      if (/^https?:\/\//i.test(base)) {
        if (!URL.canParse(words, base)) throw fail('INVALID_URL', `invalid URL: ${url}`);
        words = new URL(words, base).href;
      } else if (!path.isAbsolute(words) && !words.startsWith('~')) {
        words = path.join(this.directoryOf(base), safeDecode(words));
      }
    }
    const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(words)?.[1].toLowerCase();
    if (scheme === 'http' || scheme === 'https') {
      if (!URL.canParse(words)) throw fail('INVALID_URL', `invalid URL: ${url}`);
      return { remote: true, url: new URL(words) };
    }
    if (scheme === 'file') {
      try { return { remote: false, input: fileURLToPath(words) }; } catch (error) { throw fail('INVALID_URL', `invalid URL: ${url} (${error.message})`, error); }
    }
    if (scheme) throw fail('INVALID_URL', `invalid URL: ${scheme}:// is not supported, only http, https and file`);
    return { remote: false, input: words };
  }

  // directoryOf is the directory of a file, or a directory itself.
  directoryOf(base) {
    let file = base;
    if (/^file:\/\//i.test(base)) {
      try { file = fileURLToPath(base); } catch (error) { throw fail('INVALID_URL', `invalid URL: ${base} (${error.message})`, error); }
    }
    if (file.endsWith('/')) return file;
    const there = this.guard.lexical(file);
    try { if (statSync(there).isDirectory()) return file; } catch { /* then it is the path of a file that is not there */ }
    return path.dirname(file);
  }

  /** read is the result for one file. */
  async read(url, base) {
    const { args } = this;
    const place = this.locate(url, base);
    const file = place.remote ? await this.remote(place.url) : await this.local(place.input);
    const kind = file.kind ?? detect(file.bytes, file.name, file.contentType);
    const made = file.text ?? await convert(file, kind, { ...args, signal: this.signal, progress: this.progress });
    const part = this.cut(made);
    const result = {
      success: true,
      source: { url, resolvedUrl: file.at, type: place.remote ? 'remote' : 'local', path: file.at },
      file: { type: kind.type, mimeType: kind.mimeType, ...(made.encoding && { encoding: made.encoding }), size: file.size },
      content: part.content,
      format: made.format,
    };
    if (args.includeMetadata !== false) result.metadata = metadata(made, part, file, kind);
    return result;
  }

  async local(input) {
    const { args, signal } = this;
    const file = await this.guard.file(input);
    const there = { name: path.basename(file.path), at: file.path, size: file.stat.size, modified: file.stat.mtime.toISOString() };
    try {
      const kind = detect(await span(file.handle, 0, Math.min(64 * 1024, file.stat.size || 64 * 1024), signal), there.name);
      const large = file.stat.size > this.limit;
      const ends = args.head ? 'head' : args.tail || (large && kind.type === 'log') ? 'tail' : '';
      if (ends) {
        if (!isText(kind.type) && !(args.encoding && args.encoding !== 'auto')) throw fail('CANNOT_CONVERT', `cannot convert ${there.name} to lines: it is a ${kind.kind ?? kind.type} file (${kind.mimeType})`);
        const lines = args[ends] ?? LOG_LINES;
        const found = await (ends === 'head' ? head : tail)(file, lines, input, { encoding: args.encoding, limit: MAX_TEXT * 4, signal });
        const warnings = args[ends] ? [] : [`the file has ${size(file.stat.size)}; these are its last ${LOG_LINES} lines`];
        return { ...there, kind, text: { content: found.text, format: 'text', conversion: ends, encoding: found.encoding, confidence: found.confidence, warnings } };
      }
      const bytes = await whole(file, this.limit, input, signal, isText(kind.type) ? 'read a part of it with head or tail' : 'raise maxSize');
      return { ...there, bytes, size: bytes.length };
    } finally {
      await file.handle.close();
    }
  }

  async remote(url) {
    const { args } = this;
    if (args.head || args.tail) throw fail('INVALID_PARAMETERS', 'invalid parameters: head and tail are for files on the disk; use offset and maxLength');
    const file = await download(url, {
      allowed: patterns(this.host.api?.environment?.get?.('ALLOWED_URLS')),
      limit: this.limit,
      timeout: args.timeout ?? this.number('DEFAULT_TIMEOUT', TIMEOUT),
      useCache: args.useCache !== false,
      cacheTimeout: args.cacheTimeout ?? 600000,
      signal: this.signal,
      progress: this.progress,
    });
    const { pathname } = new URL(file.url);
    return { ...file, name: safeDecode(pathname.slice(pathname.lastIndexOf('/') + 1)) || url.hostname, at: file.url, size: file.bytes.length };
  }

  // cut takes the part of a text that was asked for; data is whole or refused.
  cut(made) {
    const { offset = 0, maxLength = MAX_TEXT } = this.args;
    if (typeof made.content !== 'string') {
      if (made.format === 'image' || made.format === 'binary') return { content: made.content, length: 0 };
      const { length } = JSON.stringify(made.content);
      if (length > MAX_JSON) throw fail('FILE_TOO_LARGE', `file too large: the data has ${length} characters, at most ${MAX_JSON} fit into a result; use convertTo raw with offset, or fewer rows`);
      return { content: made.content, length };
    }
    let end = Math.min(made.content.length, offset + maxLength);
    // A character of two units stays in one piece.
    if (end < made.content.length && end > offset + 1 && /[\ud800-\udbff]/.test(made.content[end - 1])) end--;
    const content = made.content.slice(offset, end);
    return { content, length: content.length, ...(end < made.content.length && { nextOffset: end }), total: made.content.length };
  }

  /** follow reads the files that a text links to, each once. */
  async follow(first) {
    const depth = this.args.maxDepth ?? 3;
    const seen = new Set([first.source.resolvedUrl]);
    const out = [];
    let level = [first];
    for (let d = 1; d <= depth && level.length > 0; d++) {
      const next = [];
      for (const from of level) {
        for (const link of linksIn(from.content)) {
          if (out.length >= MAX_LINKS) return out;
          this.signal?.throwIfAborted();
          const found = await this.nested(link, from, d, seen);
          if (!found) continue;
          out.push(found.entry);
          this.progress(out.length, MAX_LINKS, link.url);
          if (found.result && typeof found.result.content === 'string') next.push(found.result);
        }
      }
      level = next;
    }
    return out;
  }

  async nested(link, from, depth, seen) {
    const entry = { url: link.url, text: link.text, type: link.type, depth };
    try {
      const place = this.locate(link.url, from.source.resolvedUrl);
      const key = place.remote ? place.url.href.replace(/#.*$/, '') : this.guard.lexical(place.input);
      if (seen.has(key)) return undefined;
      seen.add(key);
      const inner = new Reading(this.host, { ...this.args, head: undefined, tail: undefined, offset: 0, maxLength: MAX_NESTED_TEXT, convertTo: undefined });
      const result = await inner.read(link.url, from.source.resolvedUrl);
      const { content } = result;
      const fits = typeof content === 'string' || JSON.stringify(content).length <= MAX_NESTED_TEXT;
      return { result, entry: { ...entry, resolvedUrl: result.source.resolvedUrl, size: result.file.size, format: result.format, ...(fits && { content }) } };
    } catch (error) {
      if (this.signal?.aborted) throw error;
      return { entry: { ...entry, error: error.message } };
    }
  }
}

function safeDecode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function metadata(made, part, file, kind) {
  const { title, slides, chapters, rowCount } = made;
  const warnings = (made.warnings ?? []).filter(Boolean);
  const out = {
    detectedType: kind.type,
    conversion: made.conversion,
    originalSize: file.size,
    convertedSize: part.length,
    fromCache: file.fromCache === true,
    nestedLinksCount: 0,
  };
  if (made.encoding) out.encodingConfidence = made.confidence;
  if (file.modified) out.modified = file.modified;
  if (typeof part.content === 'string') out.lines = part.content === '' ? 0 : part.content.split('\n').length - (part.content.endsWith('\n') ? 1 : 0);
  for (const [name, value] of Object.entries({ title, slides, chapters, rowCount })) if (value !== undefined) out[name] = value;
  if (part.nextOffset !== undefined) Object.assign(out, { truncated: true, nextOffset: part.nextOffset, totalLength: part.total });
  else if (made.truncated) out.truncated = true;
  if (warnings.length > 0) out.warnings = warnings;
  return out;
}
