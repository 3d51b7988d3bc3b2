// XML, read piece by piece. Of a document type nothing is taken, so no entity
// can grow and none can name a file.

import { fail } from './fail.js';

const NAMED = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
const MAX_DEPTH = 500;

/** unescape resolves the five entities of XML and numbers; others stay as they are. */
export function unescape(text) {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(\w+));/g, (whole, decimal, hex, name) => {
    if (name) return Object.hasOwn(NAMED, name) ? NAMED[name] : whole;
    const n = decimal ? Number(decimal) : parseInt(hex, 16);
    return n > 0 && n <= 0x10ffff && !(n >= 0xd800 && n <= 0xdfff) ? String.fromCodePoint(n) : '\ufffd';
  });
}

/**
 * tokens goes through a document: {kind: 'open', name, local, attributes, empty},
 * {kind: 'close', name, local}, {kind: 'text', text}. local is the name without
 * its prefix. It throws PARSE_ERROR for what is no XML.
 */
export function* tokens(source) {
  for (let at = 0; at < source.length;) {
    const open = source.indexOf('<', at);
    if (open !== at) {
      yield { kind: 'text', text: unescape(source.slice(at, open < 0 ? source.length : open)) };
      if (open < 0) return;
    }
    if (source.startsWith('<!--', open)) at = after(source, '-->', open + 4, 'a comment');
    else if (source.startsWith('<![CDATA[', open)) {
      at = after(source, ']]>', open + 9, 'CDATA');
      yield { kind: 'text', text: source.slice(open + 9, at - 3) };
    } else if (source.startsWith('<?', open)) at = after(source, '?>', open + 2, 'an instruction');
    else if (source.startsWith('<!', open)) at = doctype(source, open);
    else {
      const end = tagEnd(source, open);
      yield tag(source.slice(open + 1, end), source, open);
      at = end + 1;
    }
  }
}

function wrong(source, at, what) {
  const before = source.slice(0, at);
  return fail('PARSE_ERROR', `parse error: invalid XML, ${what} (line ${before.split('\n').length}, column ${at - before.lastIndexOf('\n')})`);
}

function after(source, end, from, what) {
  const at = source.indexOf(end, from);
  if (at < 0) throw wrong(source, from, `${what} does not end`);
  return at + end.length;
}

function doctype(source, open) {
  let depth = 0;
  for (let at = open; at < source.length; at++) {
    if (source[at] === '[') depth++;
    else if (source[at] === ']') depth--;
    else if (source[at] === '>' && depth <= 0) return at + 1;
  }
  throw wrong(source, open, 'a declaration does not end');
}

// tagEnd finds the > of a tag, not one in an attribute.
function tagEnd(source, open) {
  let quote = '';
  for (let at = open + 1; at < source.length; at++) {
    const c = source[at];
    if (quote) {
      if (c === quote) quote = '';
    } else if (c === '"' || c === "'") quote = c;
    else if (c === '>') return at;
    else if (c === '<') break;
  }
  throw wrong(source, open, 'a tag does not end');
}

const NAME = /^[^\s=/<>"'&]+/;

function tag(inner, source, open) {
  const closing = inner.startsWith('/');
  const empty = inner.endsWith('/');
  const body = inner.slice(closing ? 1 : 0, empty ? -1 : undefined);
  const name = NAME.exec(body)?.[0];
  if (!name) throw wrong(source, open, 'a tag has no name');
  const local = name.slice(name.indexOf(':') + 1);
  if (closing) return { kind: 'close', name, local };
  const attributes = new Map();
  for (const [, key, double, single] of body.slice(name.length).matchAll(/([^\s=/<>"']+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    attributes.set(key, unescape(double ?? single));
  }
  return { kind: 'open', name, local, attributes, empty };
}

/** attribute is one by its name, with or without a prefix. */
export function attribute(token, name) {
  if (token.attributes.has(name)) return token.attributes.get(name);
  for (const [key, value] of token.attributes) if (key.slice(key.indexOf(':') + 1) === name) return value;
  return undefined;
}

/**
 * toObject turns a document into plain values: an element with only text is a
 * string; others are objects with their children by name, lists where a name
 * comes again, attributes as "@name" and text beside children as "#text".
 */
export function toObject(source) {
  const root = { children: empty(), text: '' };
  const stack = [root];
  for (const token of tokens(source)) {
    const top = stack.at(-1);
    if (token.kind === 'text') top.text += token.text;
    else if (token.kind === 'open') {
      if (stack.length > MAX_DEPTH) throw fail('PARSE_ERROR', `parse error: invalid XML, more than ${MAX_DEPTH} elements inside each other`);
      const element = { name: token.name, children: empty(), text: '' };
      for (const [key, value] of token.attributes) put(element.children, `@${key}`, value);
      if (token.empty) put(top.children, token.name, value(element));
      else stack.push(element);
    } else {
      if (stack.length === 1 || top.name !== token.name) throw fail('PARSE_ERROR', `parse error: invalid XML, </${token.name}> closes ${top.name ? `<${top.name}>` : 'nothing'}`);
      stack.pop();
      put(stack.at(-1).children, top.name, value(top));
    }
  }
  if (stack.length > 1) throw fail('PARSE_ERROR', `parse error: invalid XML, <${stack.at(-1).name}> does not end`);
  if (Object.keys(root.children).length === 0) throw fail('PARSE_ERROR', 'parse error: invalid XML, it has no element');
  return root.children;
}

const empty = () => ({});

function put(object, key, value) {
  if (!Object.hasOwn(object, key)) Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  else if (Array.isArray(object[key])) object[key].push(value);
  else object[key] = [object[key], value];
}

function value({ children, text }) {
  const words = text.trim();
  if (Object.keys(children).length === 0) return words;
  if (words) put(children, '#text', words);
  return children;
}
