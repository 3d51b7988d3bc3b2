// The text of Rich Text Format.

const SKIPPED = new Set(['fonttbl', 'colortbl', 'stylesheet', 'info', 'pict', 'object', 'themedata', 'colorschememapping', 'datastore', 'latentstyles', 'listtable', 'listoverridetable', 'generator', 'filetbl', 'revtbl', 'rsidtbl', 'xmlnstbl', 'fldinst', 'header', 'footer', 'headerl', 'headerr', 'footerl', 'footerr', 'bkmkstart', 'bkmkend', 'mmathPr']);
const WORDS = { par: '\n', line: '\n', sect: '\n', page: '\n', row: '\n', cell: ' | ', tab: '\t', emdash: '—', endash: '–', lquote: '‘', rquote: '’', ldblquote: '“', rdblquote: '”', bullet: '•', emspace: ' ', enspace: ' ' };
const PAGES = { 932: 'shift_jis', 936: 'gb18030', 949: 'euc-kr', 950: 'big5', 1250: 'windows-1250', 1251: 'windows-1251', 1252: 'windows-1252', 1253: 'windows-1253', 1254: 'windows-1254', 65001: 'utf-8' };
const CHARSETS = { 0: 1252, 128: 932, 129: 949, 134: 936, 136: 950, 161: 1253, 162: 1254, 204: 1251, 238: 1250 };

/** rtf is the text of a document, which is given byte for byte as Latin-1. */
export function rtf(source) {
  const out = [];
  const fonts = new Map();
  let page = Number(/\\ansicpg(\d+)/.exec(source)?.[1] ?? 1252);
  for (const [, font, set] of source.matchAll(/\{\\f(\d+)[^{}]*?\\fcharset(\d+)/g)) if (CHARSETS[set]) fonts.set(Number(font), CHARSETS[set]);
  let state = { skip: false, uc: 1, page };
  const stack = [];
  let bytes = [];
  let ignore = 0;
  const flush = () => {
    if (bytes.length === 0) return;
    out.push(new TextDecoder(PAGES[state.page] ?? 'windows-1252').decode(Uint8Array.from(bytes)));
    bytes = [];
  };
  const say = (text) => {
    flush();
    if (!state.skip) out.push(text);
  };
  const pattern = /\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z'])|([{}])|([\r\n]+)|([^\\{}\r\n]+)/g;
  for (const [, word, number, hex, symbol, brace, , text] of source.matchAll(pattern)) {
    if (brace === '{') {
      flush();
      stack.push({ ...state });
      ignore = 0;
    } else if (brace === '}') {
      flush();
      state = stack.pop() ?? state;
      ignore = 0;
    } else if (hex !== undefined) {
      if (ignore > 0) ignore--;
      else if (!state.skip) bytes.push(parseInt(hex, 16));
    } else if (word !== undefined) {
      flush();
      if (SKIPPED.has(word)) state.skip = true;
      else if (word === 'ansicpg') state.page = page = Number(number);
      else if (word === 'f') state.page = fonts.get(Number(number)) ?? page;
      else if (word === 'uc') state.uc = Math.max(0, Number(number));
      else if (word === 'u') {
        say(String.fromCharCode(Number(number) & 0xffff));
        ignore = state.uc;
      } else if (Object.hasOwn(WORDS, word)) say(WORDS[word]);
    } else if (symbol !== undefined) {
      if (symbol === '*') state.skip = true;
      else if (symbol === '~') say('\u00a0');
      else if (symbol === '_') say('-');
      else if (symbol === '\\' || symbol === '{' || symbol === '}') say(symbol);
      else if (symbol === '\n' || symbol === '\r') say('\n');
    } else if (text !== undefined) {
      const kept = text.slice(Math.min(ignore, text.length));
      ignore -= text.length - kept.length;
      if (!kept || state.skip) continue;
      // A byte of two may have a plain letter as its second.
      if (bytes.length > 0) for (const c of kept) bytes.push(c.charCodeAt(0));
      else out.push(/[\u0080-\u00ff]/.test(kept) ? new TextDecoder(PAGES[state.page] ?? 'windows-1252').decode(Buffer.from(kept, 'latin1')) : kept);
    }
  }
  flush();
  return out.join('').replace(/[ \t]+\n/g, '\n').replace(/\n{3,}/g, '\n\n').trim();
}
