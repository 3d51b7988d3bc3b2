// The part of YAML 1.2 that files of settings use: mappings, lists, flow
// collections, all kinds of scalars, several documents. What it does not do
// (anchors, tags, complex keys) is an error that says so, never a guess.

import { fail } from './fail.js';

const MAX_DEPTH = 100;
const MAX_LINES = 2000; // of one quoted text or flow collection

/** parseYAML is the value of a document, or a list of the values of several. */
export function parseYAML(text) {
  const documents = [];
  let lines = [];
  let number = 0;
  const finish = () => {
    if (lines.some(({ text: t }) => content(t) !== '')) documents.push(new Document(lines).parse());
    lines = [];
  };
  let explicit = false;
  for (const raw of text.replace(/^\ufeff/, '').replace(/\r?\n$/, '').split(/\r?\n/)) {
    number++;
    if (/^---(\s|$)/.test(raw)) {
      if (explicit && !lines.some(({ text: t }) => content(t) !== '')) documents.push(null);
      finish();
      explicit = true;
      const rest = raw.slice(3);
      if (content(rest) !== '') lines.push({ text: `   ${rest}`, number });
    } else if (/^\.\.\.(\s|$)/.test(raw)) {
      finish();
      explicit = false;
    } else if (/^%/.test(raw) && lines.length === 0) continue;
    else lines.push({ text: raw, number });
  }
  finish();
  return documents.length > 1 ? documents : documents[0] ?? null;
}

// content is a line without indentation; '' for a blank one or a comment.
function content(text) {
  const trimmed = text.trim();
  return trimmed.startsWith('#') ? '' : trimmed;
}

function indentOf(text) {
  return /^ */.exec(text)[0].length;
}

class Document {
  constructor(lines) {
    this.lines = lines;
    this.at = 0;
  }

  error(what, line = this.lines[Math.min(this.at, this.lines.length - 1)]) {
    return fail('PARSE_ERROR', `parse error: YAML, ${what} (line ${line?.number ?? 1})`);
  }

  parse() {
    this.skip();
    const value = this.block(-1, 0);
    this.skip();
    if (this.at < this.lines.length) throw this.error('this line does not belong to what is before it');
    return value;
  }

  skip() {
    while (this.at < this.lines.length && content(this.lines[this.at].text) === '') this.at++;
  }

  get line() {
    return this.lines[this.at];
  }

  // block reads the node that begins at this line, deeper than parent.
  block(parent, depth) {
    this.skip();
    if (depth > MAX_DEPTH) throw this.error(`it is nested more than ${MAX_DEPTH} deep`);
    const { line } = this;
    if (!line) return null;
    const indent = indentOf(line.text);
    if (/^ *\t/.test(line.text)) throw this.error('a tab is no indentation');
    if (indent <= parent) return null;
    const text = line.text.slice(indent);
    if (/^-(\s|$)/.test(text)) return this.sequence(indent, depth);
    if (this.key(text)) return this.mapping(indent, depth);
    return this.inline(text, indent, parent, depth);
  }

  sequence(indent, depth) {
    const out = [];
    for (;;) {
      this.skip();
      const { line } = this;
      if (!line || indentOf(line.text) !== indent || !/^-(\s|$)/.test(line.text.slice(indent))) {
        if (line && indentOf(line.text) > indent) throw this.error('the indentation fits nothing');
        return out;
      }
      // The item is read as if the dash were a blank.
      const rest = line.text.slice(indent + 1);
      if (content(rest) === '') {
        this.at++;
        out.push(this.block(indent, depth + 1));
      } else {
        if (/^\s*\t/.test(rest)) throw this.error('a tab is no indentation');
        this.lines[this.at] = { ...line, text: `${' '.repeat(indent + 1)}${rest}` };
        out.push(this.block(indent, depth + 1));
      }
    }
  }

  mapping(indent, depth) {
    const out = {};
    const seen = new Set();
    for (;;) {
      this.skip();
      const { line } = this;
      const text = line && indentOf(line.text) === indent ? line.text.slice(indent) : undefined;
      const key = text === undefined || /^-(\s|$)/.test(text) ? undefined : this.key(text);
      if (!key) {
        if (line && indentOf(line.text) >= indent && !(indentOf(line.text) === indent && /^-(\s|$)/.test(text))) throw this.error('there is no key in this line');
        return out;
      }
      if (seen.has(key.name)) throw this.error(`the key ${JSON.stringify(key.name)} is there twice`);
      if (key.name === '<<' && !key.quoted) throw this.error('merge keys (<<) are not supported');
      seen.add(key.name);
      const value = this.valueOf(key.rest, indent, depth);
      Object.defineProperty(out, key.name, { value, enumerable: true, configurable: true, writable: true });
    }
  }

  valueOf(rest, indent, depth) {
    if (/^\s+-(\s|$)/.test(rest)) throw this.error('a list begins in the line of its key');
    if (content(rest) !== '') return this.inline(rest.trimStart(), indent, indent, depth);
    this.at++;
    this.skip();
    const { line } = this;
    // A list may stand as far left as its key.
    if (line && indentOf(line.text) === indent && /^-(\s|$)/.test(line.text.slice(indent))) return this.sequence(indent, depth + 1);
    return this.block(indent, depth + 1);
  }

  // key finds "name:" at the beginning of a text.
  key(text) {
    if (/^[?](\s|$)/.test(text)) throw this.error('keys with ? are not supported');
    if (text[0] === '"' || text[0] === "'") {
      const end = quoteEnd(text, 0);
      if (end < 0) return undefined;
      const after = /^\s*:(?=\s|$)/.exec(text.slice(end));
      return after ? { name: this.quoted(text.slice(0, end)), rest: text.slice(end + after[0].length), quoted: true } : undefined;
    }
    if (/^[[{|>]/.test(text)) return undefined;
    const found = /^(.*?):(?=\s|$)/.exec(text);
    if (!found || / #/.test(found[1])) return undefined;
    const name = found[1].trimEnd();
    if (/^[&*!@`%]/.test(name)) throw this.error(`${JSON.stringify(name[0])} (anchors, aliases, tags) is not supported`);
    return { name, rest: text.slice(found[0].length) };
  }

  // inline reads a value that begins in this line: a scalar or a flow collection.
  inline(text, indent, parent, depth) {
    const first = text[0];
    if (first === '&' || first === '*' || first === '!') throw this.error(`${JSON.stringify(first)} (anchors, aliases, tags) is not supported`);
    if (first === '@' || first === '`' || first === '%') throw this.error(`a plain text cannot begin with ${first}`);
    if (first === '|' || first === '>') return this.literal(text, parent);
    if (first === '"' || first === "'") return this.quotedLines(text);
    if (first === '[' || first === '{') return this.flow(text, depth);
    return this.plain(text, parent);
  }

  plain(text, parent) {
    const parts = [this.uncomment(text)];
    const comment = parts[0].length < text.trimEnd().length;
    if (/:(\s|$)/.test(parts[0])) throw this.error('a second ": " in one line');
    this.at++;
    let blank = 0;
    while (!comment && this.line) {
      const { text: next } = this.line;
      if (next.trim() === '') {
        blank++;
        this.at++;
        continue;
      }
      if (indentOf(next) <= parent || content(next) === '') break;
      if (this.key(next.trim()) && blank === 0) throw this.error('a key in the middle of a text');
      if (this.key(next.trim())) break;
      parts.push(blank > 0 ? '\n'.repeat(blank) : ' ', this.uncomment(next.trim()));
      blank = 0;
      this.at++;
    }
    return scalar(parts.join(''), parts.length > 1);
  }

  uncomment(text) {
    return text.replace(/(^|\s)#.*$/, '').trimEnd();
  }

  quotedLines(start) {
    const { line, at: began } = this;
    let text = start;
    let end = quoteEnd(text, 0);
    let blank = 0;
    while (end < 0) {
      this.at++;
      if (!this.line || this.at - began > MAX_LINES) throw this.error('a quoted text does not end', line);
      const next = this.line.text.trim();
      if (next === '') {
        blank++;
        continue;
      }
      const open = text.replace(/[ \t]+$/, '');
      const escaped = text[0] === '"' && /(^|[^\\])(\\\\)*\\$/.test(open);
      text = escaped ? open.slice(0, -1) + next : open + (blank > 0 ? '\n'.repeat(blank) : ' ') + next;
      blank = 0;
      end = quoteEnd(text, 0);
    }
    if (this.uncomment(text.slice(end)).trim() !== '') throw this.error('something follows a quoted text');
    this.at++;
    return this.quoted(text.slice(0, end));
  }

  quoted(text) {
    const inner = text.slice(1, -1);
    if (text[0] === "'") return inner.split("''").join("'");
    return inner.replace(/\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([^]))/g, (whole, x, u, U, c) => {
      if (c === undefined) {
        const n = parseInt(x ?? u ?? U, 16);
        if (n > 0x10ffff) throw this.error(`${whole} is no character`);
        return u ? String.fromCharCode(n) : String.fromCodePoint(n);
      }
      const plain = { 0: '\0', a: '\x07', b: '\b', t: '\t', n: '\n', v: '\v', f: '\f', r: '\r', e: '\x1b', ' ': ' ', '"': '"', '/': '/', '\\': '\\', N: '\x85', _: '\xa0', L: '\u2028', P: '\u2029', '\t': '\t' }[c];
      if (plain === undefined) throw this.error(`the escape ${whole} is not known`);
      return plain;
    });
  }

  // literal reads a block scalar: | keeps its lines, > folds them.
  literal(text, parent) {
    const head = /^([|>])(?:([+-])?([1-9])?|([1-9])([+-]))\s*(?:#.*)?$/.exec(text);
    if (!head) throw this.error('the head of a block text is not understood');
    const [, style] = head;
    const chomp = head[2] ?? head[5];
    const given = Number(head[3] ?? head[4] ?? 0);
    this.at++;
    const body = [];
    let indent = given ? Math.max(0, parent) + given : 0;
    for (; this.line; this.at++) {
      const { text: line } = this.line;
      if (line.trim() === '' && (indent === 0 || line.length <= indent)) {
        body.push('');
        continue;
      }
      const here = indentOf(line);
      if (indent === 0) indent = here;
      if (here < indent || here <= parent) break;
      body.push(line.slice(indent));
    }
    let trailing = 0;
    while (body.length > 0 && body.at(-1) === '') {
      body.pop();
      trailing++;
    }
    let out = style === '|' ? body.join('\n') : fold(body);
    if (body.length > 0 && chomp !== '-') out += '\n';
    if (chomp === '+') out += '\n'.repeat(trailing);
    return out;
  }

  // flow reads [..] and {..}, over as many lines as they take.
  flow(start, depth) {
    const { line, at: began } = this;
    let text = start;
    let end = flowEnd(text);
    while (end < 0) {
      this.at++;
      if (!this.line || this.at - began > MAX_LINES) throw this.error('a [ or { does not end', line);
      text += ` ${this.uncommentFlow(this.line.text.trim())}`;
      end = flowEnd(text);
    }
    if (this.uncomment(text.slice(end)).trim() !== '') throw this.error('something follows a ] or }');
    const reader = new Flow(text.slice(0, end), this, line, depth);
    const value = reader.value();
    this.at++;
    return value;
  }

  uncommentFlow(text) {
    return /["']/.test(text) ? text : this.uncomment(text);
  }
}

function fold(lines) {
  let out = '';
  let before = 'start';
  let blank = 0;
  for (const line of lines) {
    if (line === '') {
      blank++;
      continue;
    }
    const more = /^[ \t]/.test(line);
    if (before === 'start') out += '\n'.repeat(blank);
    else if (more || before === 'more') out += '\n'.repeat(blank + 1);
    else out += blank > 0 ? '\n'.repeat(blank) : ' ';
    out += line;
    before = more ? 'more' : 'plain';
    blank = 0;
  }
  return out;
}

function quoteEnd(text, from) {
  const quote = text[from];
  for (let i = from + 1; i < text.length; i++) {
    if (quote === '"' && text[i] === '\\') i++;
    else if (text[i] === quote) {
      if (quote === "'" && text[i + 1] === "'") i++;
      else return i + 1;
    }
  }
  return -1;
}

function flowEnd(text) {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if ((c === '"' || c === "'") && /[[{,:\s]/.test(text[i - 1] ?? ' ')) {
      const end = quoteEnd(text, i);
      if (end < 0) return -1;
      i = end - 1;
    } else if (c === '[' || c === '{') depth++;
    else if ((c === ']' || c === '}') && --depth === 0) return i + 1;
  }
  return -1;
}

class Flow {
  constructor(text, document, line, depth) {
    Object.assign(this, { text, document, line, depth, at: 0 });
  }

  error(what) {
    return this.document.error(what, this.line);
  }

  space() {
    while (/\s/.test(this.text[this.at] ?? '')) this.at++;
  }

  value() {
    this.space();
    if (++this.depth > MAX_DEPTH) throw this.error(`it is nested more than ${MAX_DEPTH} deep`);
    const c = this.text[this.at];
    const out = c === '[' ? this.list() : c === '{' ? this.map() : this.scalar();
    this.depth--;
    return out;
  }

  list() {
    const out = [];
    this.at++;
    for (;;) {
      this.space();
      if (this.text[this.at] === ']') {
        this.at++;
        return out;
      }
      const value = this.value();
      this.space();
      if (this.text[this.at] === ':') {
        this.at++;
        out.push({ [String(value)]: this.value() });
        this.space();
      } else out.push(value);
      this.next(']');
    }
  }

  map() {
    const out = {};
    this.at++;
    for (;;) {
      this.space();
      if (this.text[this.at] === '}') {
        this.at++;
        return out;
      }
      const key = this.text[this.at] === '[' || this.text[this.at] === '{' ? undefined : this.scalar(true);
      if (key === undefined) throw this.error('keys that are no text are not supported');
      if (Object.hasOwn(out, key)) throw this.error(`the key ${JSON.stringify(key)} is there twice`);
      this.space();
      let value = null;
      if (this.text[this.at] === ':') {
        this.at++;
        this.space();
        if (!/[,}]/.test(this.text[this.at] ?? '')) value = this.value();
      }
      Object.defineProperty(out, key, { value, enumerable: true, configurable: true, writable: true });
      this.space();
      this.next('}');
    }
  }

  next(end) {
    const c = this.text[this.at];
    if (c === ',') this.at++;
    else if (c !== end) throw this.error(`expected , or ${end}`);
  }

  scalar(key = false) {
    const c = this.text[this.at];
    if (c === '"' || c === "'") {
      const end = quoteEnd(this.text, this.at);
      if (end < 0) throw this.error('a quoted text does not end');
      const out = this.document.quoted(this.text.slice(this.at, end));
      this.at = end;
      return out;
    }
    if (/[&*!]/.test(c ?? '')) throw this.error(`${JSON.stringify(c)} (anchors, aliases, tags) is not supported`);
    const found = /^(?:[^,[\]{}:]|:(?![\s,[\]{}]|$))*/.exec(this.text.slice(this.at))[0];
    this.at += found.length;
    const text = found.trim();
    if (text === '' && !key) throw this.error('a value is missing');
    return key ? text : scalar(text);
  }
}

// scalar is a plain text as the core schema reads it.
function scalar(text, folded = false) {
  if (folded) return text;
  if (/^(~|null|Null|NULL|)$/.test(text)) return null;
  if (/^(true|True|TRUE)$/.test(text)) return true;
  if (/^(false|False|FALSE)$/.test(text)) return false;
  if (/^[-+]?\d+$/.test(text)) {
    const n = Number(text);
    return Number.isSafeInteger(n) ? n : text;
  }
  if (/^0o[0-7]+$/.test(text) || /^0x[0-9a-fA-F]+$/.test(text)) return Number(text);
  if (/^[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$/.test(text)) return Number(text);
  return text;
}
