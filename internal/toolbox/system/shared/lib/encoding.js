// What encoding a text has, and how to go there and back.
//
// A byte order mark decides. Else valid UTF-8 is UTF-8, zeros in every other
// byte are UTF-16, and what is left is decoded in each likely legacy encoding:
// the one whose characters are the common ones of its language wins. How much
// it wins by is the confidence, from 0 to 1.

import { isAscii } from 'node:buffer';

const SAMPLE = 64 * 1024;

const COMMON_HANZI = '的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运测试编码字符号件读写错误您好吗请谢再见早晚每页行列空值名称描述价城姓岁';
const COMMON_TRADITIONAL = '這個們來為國說時會對於著過發後裡種經麼學現當沒動還進樣從實軍無與長機關點業將兩間問並應戰頭體見產話內給門兒東聲員論處義幾認條氣題爾別變總電數報結務場計資許統區隊決馬書則聽卻達強難權設記類據邊張該規萬術領確傳師觀讓識帶導爭運灣臺測試編碼讀寫錯誤請謝號頁稱價歲開檔繁';
const COMMON_HANGUL = '이다는의가을를에고하지한로기사어은들대시도자그리해인라나서있일수아보정게부장전주구과상제여원만스동으면공조소성신생무비화경선안세마교것미우유거모관저중발차분연방영물요위문음실내오합입단용회개국감진명계산각니습까없않와터트드르너려며데야줄말글파';
const CYRILLIC = 'оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфё';
const CYRILLIC_COMMON = 'оеаинтсрвлкмдпу';
const ACCENTED = 'éèêëàâäáãåæçíìîïñóòôöõøœúùûüýÿßÉÈÀÁÂÄÅÆÇÍÑÓÖØÚÜŒšŠžŽ';
const PUNCTUATION = new Set('，。、；：？！「」『』（）《》“”‘’…—　·');

const hanzi = new Set(COMMON_HANZI + COMMON_TRADITIONAL);
const hangul = new Set(COMMON_HANGUL);
const cyrillic = new Set(CYRILLIC);
const cyrillicCommon = new Set(CYRILLIC_COMMON);
const accented = new Set(ACCENTED);

const NAMES = {
  'utf8': 'utf-8', 'utf-8-bom': 'utf-8', 'utf-8-sig': 'utf-8', 'ascii': 'utf-8', 'us-ascii': 'utf-8',
  'utf16': 'utf-16le', 'utf-16': 'utf-16le', 'utf16le': 'utf-16le', 'utf16be': 'utf-16be', 'ucs-2': 'utf-16le', 'ucs2': 'utf-16le',
  'utf32': 'utf-32le', 'utf-32': 'utf-32le', 'utf-32le': 'utf-32le', 'utf-32be': 'utf-32be',
  'gb2312': 'gbk', 'cp936': 'gbk', 'ms936': 'gbk', 'euc-cn': 'gbk', 'gb-18030': 'gb18030',
  'cp950': 'big5', 'cp932': 'shift_jis', 'shiftjis': 'shift_jis', 'shift-jis': 'shift_jis', 'windows-31j': 'shift_jis',
  'cp949': 'euc-kr', 'uhc': 'euc-kr', 'euckr': 'euc-kr', 'eucjp': 'euc-jp', 'latin1': 'windows-1252', 'latin-1': 'windows-1252',
};

/** canonical is the name of an encoding as TextDecoder has it; it throws for one that nobody knows. */
export function canonical(label) {
  const name = String(label).trim().toLowerCase().replace(/_/g, (c) => (/^shift_/i.test(label) ? c : '-'));
  const known = NAMES[name] ?? name;
  if (known.startsWith('utf-32')) return known;
  try {
    return new TextDecoder(known).encoding;
  } catch {
    const error = new Error(`unsupported encoding: ${label} (try utf-8, utf-16le, gb18030, big5, shift_jis, euc-jp, euc-kr or windows-1252)`);
    error.code = 'UNSUPPORTED_ENCODING';
    throw error;
  }
}

const MARKS = [
  ['utf-32le', [0xff, 0xfe, 0, 0]], ['utf-32be', [0, 0, 0xfe, 0xff]], ['utf-8', [0xef, 0xbb, 0xbf]],
  ['utf-16le', [0xff, 0xfe]], ['utf-16be', [0xfe, 0xff]], ['gb18030', [0x84, 0x31, 0x95, 0x33]],
];

/** mark is the byte order mark that bytes begin with: {encoding, length}, or undefined. */
export function mark(bytes) {
  const found = MARKS.find(([, sign]) => sign.every((b, i) => bytes[i] === b));
  return found && { encoding: found[0], length: found[1].length };
}

const SIGNATURES = [
  ['PDF document', '25504446'], ['PNG image', '89504e47'], ['JPEG image', 'ffd8ff'], ['GIF image', '47494638'],
  ['zip archive', '504b0304'], ['empty zip archive', '504b0506'], ['gzip archive', '1f8b08'], ['bzip2 archive', '425a68'],
  ['xz archive', 'fd377a585a00'], ['zstd archive', '28b52ffd'], ['7z archive', '377abcaf271c'], ['RAR archive', '526172211a07'],
  ['ELF program', '7f454c46'], ['WebAssembly module', '0061736d'], ['SQLite database', '53514c69746520666f726d6174203300'],
  ['Office document (OLE)', 'd0cf11e0a1b11ae1'], ['Java class', 'cafebabe'], ['Ogg media', '4f676753'], ['FLAC audio', '664c6143'], ['MP3 audio', '494433'],
];

/** binaryKind says what bytes are that are no text; '' if they may be one. */
export function binaryKind(bytes) {
  if (mark(bytes)) return '';
  const head = Buffer.from(bytes.subarray(0, 16)).toString('hex');
  const sign = SIGNATURES.find(([, hex]) => head.startsWith(hex));
  if (sign && (sign[0] === 'PDF document' || !/^(GIF|bzip2|Ogg|FLAC|MP3)/.test(sign[0]) || !printable(bytes.subarray(0, 512)))) return sign[0];
  const form = Buffer.from(bytes.subarray(0, 12)).toString('latin1');
  if (form.startsWith('RIFF') && form.slice(8) === 'WEBP') return 'WebP image';
  if (form.startsWith('RIFF') && form.slice(8) === 'WAVE') return 'WAV audio';
  if (form.slice(4, 8) === 'ftyp') return 'MP4 media';
  if (wide(bytes)) return '';
  const sample = bytes.subarray(0, SAMPLE);
  let control = 0;
  for (const b of sample) {
    if (b === 0) return 'binary data';
    if (b < 32 && b !== 9 && b !== 10 && b !== 13 && b !== 12 && b !== 8 && b !== 27) control++;
  }
  return control > sample.length / 20 ? 'binary data' : '';
}

// printable: a text may well begin with "GIF8" or "ID3".
function printable(bytes) {
  return bytes.every((b) => b > 31 || b === 9 || b === 10 || b === 13);
}

// wide recognises UTF-16 without a mark: text that is mostly Latin has zeros in
// every second byte, and none in the others.
function wide(bytes) {
  const n = Math.min(bytes.length, 4096) & ~1;
  if (n < 4) return '';
  let even = 0;
  let odd = 0;
  for (let i = 0; i < n; i += 2) {
    if (bytes[i] === 0) even++;
    if (bytes[i + 1] === 0) odd++;
    const low = bytes[i] === 0 ? bytes[i + 1] : bytes[i + 1] === 0 ? bytes[i] : 32;
    if (low < 9 || (low > 13 && low < 27)) return ''; // no text has such characters
  }
  const pairs = n / 2;
  if (odd > pairs * 0.3 && even < pairs * 0.02) return 'utf-16le';
  if (even > pairs * 0.3 && odd < pairs * 0.02) return 'utf-16be';
  return '';
}

// utf8 counts the sequences of UTF-8 that are right, and the bytes that are not.
// What the end of the sample cuts off counts as neither.
function utf8(bytes) {
  let right = 0;
  let wrong = 0;
  for (let i = 0; i < bytes.length;) {
    const b = bytes[i];
    if (b < 0x80) { i++; continue; }
    const n = b >= 0xc2 && b <= 0xdf ? 1 : b >= 0xe0 && b <= 0xef ? 2 : b >= 0xf0 && b <= 0xf4 ? 3 : 0;
    let k = 0;
    while (k < n && i + k + 1 < bytes.length && (bytes[i + k + 1] & 0xc0) === 0x80) k++;
    const second = bytes[i + 1];
    const odd = n > 1 && k > 0 && ((b === 0xe0 && second < 0xa0) || (b === 0xed && second > 0x9f) || (b === 0xf0 && second < 0x90) || (b === 0xf4 && second > 0x8f));
    if (n === 0 || odd) { wrong++; i++; continue; }
    if (k < n) {
      if (i + k + 1 >= bytes.length) break;
      wrong++;
      i += k + 1;
      continue;
    }
    right++;
    i += n + 1;
  }
  return { right, wrong };
}

function share(text, points) {
  let sum = 0;
  let count = 0;
  for (const c of text) {
    if (c < '\u0080') continue;
    count++;
    sum += points(c, c.codePointAt(0));
  }
  return count ? sum / count : 0;
}

const chinese = (c) => (hanzi.has(c) || PUNCTUATION.has(c) ? 1 : 0);
const SCORES = {
  'gb18030': (text) => share(text, chinese),
  'big5': (text) => share(text, chinese),
  'shift_jis': (text) => share(text, (c, n) => (n >= 0xff61 && n <= 0xff9f ? 0.05 : japanese(c, n))),
  'euc-jp': (text) => share(text, japanese),
  'euc-kr': (text) => share(text, (c, n) => (hangul.has(c) ? 1 : n >= 0xac00 && n <= 0xd7a3 ? 0.2 : 0)),
  'windows-1251': (text) => slavic(text),
  'koi8-r': (text) => slavic(text),
  'windows-1252': (text) => western(text),
};

function japanese(c, n) {
  if (n >= 0x3041 && n <= 0x3096) return 1;
  if ((n >= 0x30a1 && n <= 0x30fc) || PUNCTUATION.has(c)) return 0.9;
  return hanzi.has(c) ? 0.5 : n >= 0x4e00 && n <= 0x9fff ? 0.2 : 0;
}

function slavic(text) {
  const score = share(text, (c) => (cyrillicCommon.has(c) ? 1 : cyrillic.has(c) ? 0.7 : cyrillic.has(c.toLowerCase()) ? 0.4 : 0));
  const swapped = (text.match(/[а-яё][А-ЯЁ]/g) ?? []).length;
  return score - (swapped / Math.max(1, text.length)) * 2;
}

// In western text a letter with an accent stands among plain ones.
function western(text) {
  let sum = 0;
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c < '\u0080') continue;
    count++;
    const beside = /[A-Za-z]/.test((text[i - 1] ?? '') + (text[i + 1] ?? ''));
    const crowd = (text[i - 1] ?? '') >= '\u0080' && (text[i + 1] ?? '') >= '\u0080';
    if (accented.has(c)) sum += crowd ? 0 : beside ? 0.95 : 0.4;
    else if ('€“”‘’–—…©®°«»£§·¡¿²³½\u00a0'.includes(c)) sum += crowd ? 0.1 : 0.8;
  }
  return count ? sum / count : 0;
}

/**
 * detect says what encoding bytes are in: {encoding, confidence, mark}. whole
 * says that nothing follows them. It does not tell text from binary data.
 */
export function detect(bytes, whole = true) {
  const sign = mark(bytes);
  if (sign) return { encoding: sign.encoding, confidence: 1, mark: sign.length };
  const two = wide(bytes);
  if (two) return { encoding: two, confidence: 0.9, mark: 0 };
  if (isAscii(bytes)) return { encoding: 'utf-8', confidence: 1, mark: 0 };
  const { right, wrong } = utf8(bytes);
  if (wrong === 0 && (right > 0 || !whole)) return { encoding: 'utf-8', confidence: right > 3 ? 1 : 0.9, mark: 0 };
  if (right > wrong * 10) return { encoding: 'utf-8', confidence: 0.8, mark: 0 };
  return { ...legacy(bytes), mark: 0 };
}

function legacy(bytes) {
  const first = bytes.findIndex((b) => b >= 0x80);
  const from = Math.max(0, bytes.lastIndexOf(0x0a, first) + 1);
  const sample = bytes.subarray(from, from + SAMPLE);
  let best = { encoding: 'windows-1252', confidence: 0.1 };
  for (const [encoding, score] of Object.entries(SCORES)) {
    let text;
    try {
      text = encoding === 'windows-1252' ? western1252(sample) : new TextDecoder(encoding, { fatal: true }).decode(sample, { stream: true });
    } catch { continue; }
    if (/[\u0080-\u009f\ue000-\uf8ff]/.test(text)) continue;
    const confidence = Math.round(Math.min(0.99, Math.max(0, score(text))) * 100) / 100;
    if (confidence > best.confidence) best = { encoding, confidence };
  }
  return best;
}

const HIGH_1252 = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ';

// Some releases of Node decode windows-1252 as if it were ISO 8859-1.
function western1252(bytes) {
  return Buffer.from(bytes).toString('latin1').replace(/[\u0080-\u009f]/g, (c) => HIGH_1252[c.charCodeAt(0) - 0x80]);
}

/** decode turns bytes into text; what is invalid becomes U+FFFD. A mark is left out. */
export function decode(bytes, encoding) {
  const sign = mark(bytes);
  const body = sign && sign.encoding === encoding ? bytes.subarray(sign.length) : bytes;
  if (encoding.startsWith('utf-32')) return decode32(body, encoding === 'utf-32le');
  if (encoding === 'windows-1252') return western1252(body);
  return new TextDecoder(encoding, { ignoreBOM: true }).decode(body);
}

function decode32(bytes, little) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const parts = [];
  for (let i = 0; i + 4 <= bytes.length; i += 4) {
    const n = view.getUint32(i, little);
    parts.push(n > 0x10ffff || (n >= 0xd800 && n <= 0xdfff) ? '\ufffd' : String.fromCodePoint(n));
  }
  return parts.join('');
}

const tables = new Map();

/** encode is the way back. It throws UNSUPPORTED_ENCODING for a character that the encoding does not have. */
export function encode(text, encoding, withMark = false) {
  const sign = withMark ? Buffer.from(MARKS.find(([name]) => name === encoding)?.[1] ?? []) : Buffer.alloc(0);
  return Buffer.concat([sign, body(text, encoding)]);
}

function body(text, encoding) {
  if (encoding === 'utf-8') return Buffer.from(text, 'utf8');
  if (encoding === 'utf-16le') return Buffer.from(text, 'utf16le');
  if (encoding === 'utf-16be') return Buffer.from(text, 'utf16le').swap16();
  if (encoding.startsWith('utf-32')) {
    const points = Array.from(text, (c) => c.codePointAt(0));
    const out = Buffer.alloc(points.length * 4);
    points.forEach((n, i) => (encoding === 'utf-32le' ? out.writeUInt32LE(n, i * 4) : out.writeUInt32BE(n, i * 4)));
    return out;
  }
  const table = tableOf(encoding);
  const out = [];
  for (const c of text) {
    const bytes = c < '\u0080' ? [c.charCodeAt(0)] : table.get(c) ?? beyond(c, encoding);
    if (!bytes) {
      const error = new Error(`unsupported encoding: ${encoding} has no character ${JSON.stringify(c)} (U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')})`);
      error.code = 'UNSUPPORTED_ENCODING';
      throw error;
    }
    for (const b of bytes) out.push(b);
  }
  return Buffer.from(out);
}

// The characters beyond the BMP are numbered through in GB 18030.
function beyond(c, encoding) {
  let n = c.codePointAt(0) - 0x10000;
  if (encoding !== 'gb18030' || n < 0) return undefined;
  n += 189000;
  return [0x81 + Math.floor(n / 12600), 0x30 + (Math.floor(n / 1260) % 10), 0x81 + (Math.floor(n / 10) % 126), 0x30 + (n % 10)];
}

// tableOf turns a decoder round: it decodes every sequence there is.
function tableOf(encoding) {
  const known = tables.get(encoding);
  if (known) return known;
  const table = new Map();
  const decoder = new TextDecoder(encoding, { fatal: true });
  const add = (...bytes) => {
    let c;
    try { c = encoding === 'windows-1252' ? western1252(bytes) : decoder.decode(Uint8Array.from(bytes)); } catch { return; }
    if ([...c].length === 1 && c >= '\u0080' && !table.has(c)) table.set(c, bytes);
  };
  for (let a = 0x80; a <= 0xff; a++) add(a);
  if (/^(gb|big5|shift|euc)/.test(encoding)) {
    for (let a = 0x81; a <= 0xfe; a++) for (let b = 0x40; b <= 0xfe; b++) add(a, b);
  }
  if (encoding === 'euc-jp') for (let a = 0xa1; a <= 0xfe; a++) for (let b = 0xa1; b <= 0xfe; b++) add(0x8f, a, b);
  if (encoding === 'gb18030') {
    for (let a = 0x81; a <= 0x84; a++) for (let b = 0x30; b <= 0x39; b++) for (let c = 0x81; c <= 0xfe; c++) for (let d = 0x30; d <= 0x39; d++) add(a, b, c, d);
  }
  tables.set(encoding, table);
  return table;
}

/**
 * choose is the encoding to read bytes in: the one that was asked for, or what
 * is detected. A mark tells which of the two kinds of UTF-16 and UTF-32 it is.
 */
export function choose(bytes, asked, whole = true) {
  if (!asked || asked === 'auto') return detect(bytes, whole);
  const encoding = canonical(asked);
  const sign = mark(bytes);
  if (sign && sign.encoding.slice(0, 6) === encoding.slice(0, 6)) return { encoding: sign.encoding, confidence: 1, mark: sign.length };
  return { encoding, confidence: 1, mark: 0 };
}
