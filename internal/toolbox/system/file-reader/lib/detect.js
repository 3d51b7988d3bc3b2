// What a file is: by its first bytes, then by its name, then by what a server
// called it. type is what the tool does with it, mimeType what others call it.

import { binaryKind } from './encoding.js';
import { isTar } from './archive.js';
import { Zip } from './zip.js';

const OOXML = 'application/vnd.openxmlformats-officedocument.';
const EXTENSIONS = {
  '.md': ['markdown', 'text/markdown'], '.markdown': ['markdown', 'text/markdown'], '.txt': ['text', 'text/plain'], '.text': ['text', 'text/plain'],
  '.log': ['log', 'text/plain'], '.out': ['log', 'text/plain'], '.json': ['json', 'application/json'], '.jsonc': ['config', 'application/json'], '.json5': ['config', 'application/json5'],
  '.geojson': ['json', 'application/geo+json'], '.webmanifest': ['json', 'application/manifest+json'], '.ndjson': ['ndjson', 'application/x-ndjson'], '.jsonl': ['ndjson', 'application/x-ndjson'],
  '.ipynb': ['notebook', 'application/x-ipynb+json'], '.yaml': ['yaml', 'application/yaml'], '.yml': ['yaml', 'application/yaml'],
  '.toml': ['config', 'application/toml'], '.ini': ['config', 'text/plain'], '.cfg': ['config', 'text/plain'], '.conf': ['config', 'text/plain'], '.env': ['config', 'text/plain'], '.properties': ['config', 'text/plain'],
  '.csv': ['csv', 'text/csv'], '.tsv': ['csv', 'text/tab-separated-values'], '.tab': ['csv', 'text/tab-separated-values'],
  '.html': ['html', 'text/html'], '.htm': ['html', 'text/html'], '.xhtml': ['html', 'application/xhtml+xml'],
  '.xml': ['xml', 'application/xml'], '.xsd': ['xml', 'application/xml'], '.xsl': ['xml', 'application/xml'], '.rss': ['xml', 'application/rss+xml'], '.atom': ['xml', 'application/atom+xml'], '.svg': ['xml', 'image/svg+xml'], '.plist': ['xml', 'application/xml'],
  '.css': ['css', 'text/css'], '.scss': ['css', 'text/x-scss'], '.less': ['css', 'text/x-less'], '.rtf': ['rtf', 'application/rtf'],
  '.png': ['image', 'image/png'], '.jpg': ['image', 'image/jpeg'], '.jpeg': ['image', 'image/jpeg'], '.gif': ['image', 'image/gif'], '.webp': ['image', 'image/webp'], '.bmp': ['image', 'image/bmp'], '.ico': ['image', 'image/x-icon'], '.avif': ['image', 'image/avif'], '.tif': ['image', 'image/tiff'], '.tiff': ['image', 'image/tiff'], '.heic': ['image', 'image/heic'],
  '.mp3': ['audio', 'audio/mpeg'], '.wav': ['audio', 'audio/wav'], '.flac': ['audio', 'audio/flac'], '.aac': ['audio', 'audio/aac'], '.ogg': ['audio', 'audio/ogg'], '.m4a': ['audio', 'audio/mp4'], '.wma': ['audio', 'audio/x-ms-wma'], '.opus': ['audio', 'audio/opus'],
  '.mp4': ['video', 'video/mp4'], '.m4v': ['video', 'video/mp4'], '.mov': ['video', 'video/quicktime'], '.avi': ['video', 'video/x-msvideo'], '.mkv': ['video', 'video/x-matroska'], '.webm': ['video', 'video/webm'], '.wmv': ['video', 'video/x-ms-wmv'], '.flv': ['video', 'video/x-flv'],
  '.tar': ['archive', 'application/x-tar'], '.tgz': ['archive', 'application/gzip'], '.gz': ['archive', 'application/gzip'], '.zip': ['archive', 'application/zip'], '.jar': ['archive', 'application/java-archive'],
  '.7z': ['packed', 'application/x-7z-compressed'], '.rar': ['packed', 'application/vnd.rar'], '.bz2': ['packed', 'application/x-bzip2'], '.xz': ['packed', 'application/x-xz'], '.zst': ['packed', 'application/zstd'],
};
const CODE = new Set('js mjs cjs ts mts cts jsx tsx py pyi java c cc cpp cxx h hpp hh go rs php rb swift kt kts scala sh bash zsh fish ps1 bat cmd pl pm lua r jl dart cs fs vb sql graphql proto vue svelte astro ex exs erl hs clj lisp el asm s zig nim tf gradle cmake make mk dockerfile patch diff'.split(' '));
const CODE_NAMES = new Set(['makefile', 'dockerfile', 'rakefile', 'gemfile', 'jenkinsfile', 'cmakelists.txt', 'go.mod', 'go.sum']);
const BINARY = {
  'PDF document': ['pdf', 'application/pdf'], 'PNG image': ['image', 'image/png'], 'JPEG image': ['image', 'image/jpeg'], 'GIF image': ['image', 'image/gif'], 'WebP image': ['image', 'image/webp'],
  'WAV audio': ['audio', 'audio/wav'], 'FLAC audio': ['audio', 'audio/flac'], 'MP3 audio': ['audio', 'audio/mpeg'], 'Ogg media': ['audio', 'audio/ogg'],
  'gzip archive': ['archive', 'application/gzip'], 'empty zip archive': ['archive', 'application/zip'],
  'bzip2 archive': ['packed', 'application/x-bzip2'], 'xz archive': ['packed', 'application/x-xz'], 'zstd archive': ['packed', 'application/zstd'], '7z archive': ['packed', 'application/x-7z-compressed'], 'RAR archive': ['packed', 'application/vnd.rar'],
  'Office document (OLE)': ['ole', 'application/x-ole-storage'],
};
const TEXTUAL = new Set(['text', 'markdown', 'log', 'code', 'config', 'css', 'json', 'ndjson', 'notebook', 'yaml', 'csv', 'html', 'xml']);

/** extension is the end of a name, with its dot, in small letters. */
export function extension(name) {
  const base = name.slice(Math.max(name.lastIndexOf('/'), name.lastIndexOf('\\')) + 1);
  const dot = base.lastIndexOf('.');
  return dot > 0 ? base.slice(dot).toLowerCase() : base.startsWith('.env') ? '.env' : '';
}

/** isText says whether a type is read as text. */
export const isText = (type) => TEXTUAL.has(type);

/** detect is what bytes with a name are: {type, mimeType, extension, kind, zip}. */
export function detect(bytes, name, contentType = '') {
  const ext = extension(name);
  const served = contentType.split(';', 1)[0].trim().toLowerCase();
  const named = EXTENSIONS[ext];
  if (bytes.subarray(0, 5).toString('latin1') === '{\\rtf') return { type: 'rtf', mimeType: 'application/rtf', extension: ext };
  const kind = binaryKind(bytes);
  if (kind === 'zip archive') return { ...inZip(bytes), extension: ext, kind };
  if (kind === 'MP4 media') {
    const [type, mimeType] = named && ['video', 'audio', 'image'].includes(named[0]) ? named : mp4(bytes);
    return { type, mimeType, extension: ext, kind };
  }
  if (kind && BINARY[kind]) return { type: BINARY[kind][0], mimeType: BINARY[kind][1], extension: ext, kind };
  if (isTar(bytes)) return { type: 'archive', mimeType: 'application/x-tar', extension: ext, kind: 'tar archive' };
  if (kind) {
    const [type, mimeType] = named && !TEXTUAL.has(named[0]) && named[0] !== 'archive' ? named : ['binary', served || 'application/octet-stream'];
    return { type, mimeType, extension: ext, kind };
  }
  if (named && TEXTUAL.has(named[0])) return { type: named[0], mimeType: named[1], extension: ext };
  const base = name.slice(name.lastIndexOf('/') + 1).toLowerCase();
  if (CODE.has(ext.slice(1)) || CODE_NAMES.has(base)) return { type: 'code', mimeType: 'text/plain', extension: ext };
  return { ...byContent(bytes, served), extension: ext };
}

function mp4(bytes) {
  const brand = bytes.toString('latin1', 8, 12);
  if (brand.startsWith('avif')) return EXTENSIONS['.avif'];
  if (/^(heic|heix|mif1)/.test(brand)) return EXTENSIONS['.heic'];
  return brand.startsWith('M4A') ? EXTENSIONS['.m4a'] : brand.startsWith('qt') ? EXTENSIONS['.mov'] : EXTENSIONS['.mp4'];
}

// inZip looks for the part that each kind of document has.
function inZip(bytes) {
  let zip;
  try { zip = new Zip(bytes); } catch { return { type: 'archive', mimeType: 'application/zip' }; }
  const has = (name) => zip.has(name);
  if (has('[Content_Types].xml')) {
    if (zip.entries.some(({ name }) => /^word\/document\d*\.xml$/.test(name))) return { type: 'docx', mimeType: `${OOXML}wordprocessingml.document`, zip };
    if (has('xl/workbook.xml')) return { type: 'xlsx', mimeType: `${OOXML}spreadsheetml.sheet`, zip };
    if (has('ppt/presentation.xml')) return { type: 'pptx', mimeType: `${OOXML}presentationml.presentation`, zip };
  }
  if (has('META-INF/container.xml') && zip.entries.some(({ name }) => name.endsWith('.opf'))) return { type: 'epub', mimeType: 'application/epub+zip', zip };
  if (has('content.xml') && has('mimetype')) return { type: 'opendocument', mimeType: 'application/vnd.oasis.opendocument', zip };
  return { type: 'archive', mimeType: 'application/zip', zip };
}

function byContent(bytes, served) {
  const head = Buffer.from(bytes.subarray(0, 1024)).toString('utf8').replace(/^\ufeff/, '').trimStart();
  if (/^<!doctype html|^<html[\s>]/i.test(head) || served === 'text/html') return { type: 'html', mimeType: 'text/html' };
  if (/^<\?xml\s/.test(head) || /[/+]xml$/.test(served)) return { type: 'xml', mimeType: served.endsWith('xml') ? served : 'application/xml' };
  if (/ndjson|jsonl/.test(served)) return { type: 'ndjson', mimeType: served };
  if (/[/+]json$/.test(served)) return { type: 'json', mimeType: served };
  if (/yaml/.test(served)) return { type: 'yaml', mimeType: served };
  if (served === 'text/csv' || served === 'text/tab-separated-values') return { type: 'csv', mimeType: served };
  if (served === 'text/markdown') return { type: 'markdown', mimeType: served };
  if (/^[[{]/.test(head) && bytes.length < 16 * 1024 * 1024) {
    try {
      JSON.parse(bytes.toString('utf8'));
      return { type: 'json', mimeType: 'application/json' };
    } catch { /* text that begins like it */ }
  }
  return { type: 'text', mimeType: served.startsWith('text/') ? served : 'text/plain' };
}
