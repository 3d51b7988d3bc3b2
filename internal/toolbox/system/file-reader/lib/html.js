// HTML as text that reads well: headings, lists, links, tables and code in
// Markdown, without scripts, styles and navigation marks.

const SKIPPED = new Set(['script', 'style', 'noscript', 'template', 'svg', 'math', 'iframe', 'object', 'canvas', 'select', 'textarea']);
const BLOCKS = new Set(['address', 'article', 'aside', 'body', 'caption', 'center', 'dd', 'details', 'dialog', 'div', 'dl', 'dt', 'fieldset', 'figcaption', 'figure', 'footer', 'form', 'header', 'hgroup', 'html', 'main', 'nav', 'p', 'section', 'summary', 'table', 'tbody', 'thead', 'tfoot']);
const RAW = new Set(['script', 'style', 'textarea', 'title']);
const NAMED = Object.fromEntries(`amp=& lt=< gt=> quot=" apos=' nbsp=\u00a0 copy=© reg=® trade=™ hellip=… mdash=— ndash=– lsquo=‘ rsquo=’ ldquo=“ rdquo=” sbquo=‚ bdquo=„ laquo=« raquo=» lsaquo=‹ rsaquo=› bull=• middot=· para=¶ sect=§ deg=° plusmn=± times=× divide=÷ frac12=½ frac14=¼ frac34=¾ sup2=² sup3=³ micro=µ euro=€ pound=£ yen=¥ cent=¢ curren=¤ iexcl=¡ iquest=¿ szlig=ß agrave=à aacute=á acirc=â atilde=ã auml=ä aring=å aelig=æ ccedil=ç egrave=è eacute=é ecirc=ê euml=ë igrave=ì iacute=í icirc=î iuml=ï ntilde=ñ ograve=ò oacute=ó ocirc=ô otilde=õ ouml=ö oslash=ø ugrave=ù uacute=ú ucirc=û uuml=ü yacute=ý yuml=ÿ Agrave=À Aacute=Á Acirc=Â Atilde=Ã Auml=Ä Aring=Å AElig=Æ Ccedil=Ç Egrave=È Eacute=É Ecirc=Ê Euml=Ë Iacute=Í Ntilde=Ñ Oacute=Ó Ouml=Ö Oslash=Ø Uacute=Ú Uuml=Ü oelig=œ OElig=Œ scaron=š Scaron=Š larr=← uarr=↑ rarr=→ darr=↓ harr=↔ infin=∞ ne=≠ le=≤ ge=≥ asymp=≈ minus=− alpha=α beta=β gamma=γ delta=δ pi=π sigma=σ omega=ω Delta=Δ Omega=Ω check=✓ star=☆ shy=\u00ad zwj=\u200d zwnj=\u200c thinsp=\u2009 ensp=\u2002 emsp=\u2003`.split(' ').map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));

/** entities resolves the character references of HTML. */
export function entities(text) {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{1,10}));?/g, (whole, decimal, hex, name) => {
    if (name) return Object.hasOwn(NAMED, name) ? NAMED[name] : whole;
    const n = decimal ? Number(decimal) : parseInt(hex, 16);
    return n > 0 && n <= 0x10ffff && !(n >= 0xd800 && n <= 0xdfff) ? String.fromCodePoint(n) : '\ufffd';
  });
}

/** charset is what an HTML or XML document says of its encoding in its first bytes. */
export function charset(bytes) {
  const head = Buffer.from(bytes.subarray(0, 2048)).toString('latin1');
  return /<meta[^>]+charset\s*=\s*["']?\s*([\w.:-]+)/i.exec(head)?.[1] ?? /^<\?xml[^>]+encoding\s*=\s*["']([\w.:-]+)["']/i.exec(head)?.[1];
}

function* tokens(source) {
  for (let at = 0; at < source.length;) {
    const open = source.indexOf('<', at);
    if (open < 0) {
      yield { text: source.slice(at) };
      return;
    }
    if (open > at) yield { text: source.slice(at, open) };
    if (source.startsWith('<!--', open)) {
      const end = source.indexOf('-->', open + 4);
      at = end < 0 ? source.length : end + 3;
      continue;
    }
    const next = source[open + 1] ?? '';
    if (next === '!' || next === '?') {
      const end = source.indexOf('>', open);
      at = end < 0 ? source.length : end + 1;
      continue;
    }
    const name = /^\/?([A-Za-z][^\s/>]*)/.exec(source.slice(open + 1, open + 80));
    if (!name) {
      yield { text: '<' };
      at = open + 1;
      continue;
    }
    const end = tagEnd(source, open + 1);
    const tag = name[1].toLowerCase();
    if (next === '/') yield { close: tag };
    else {
      yield { open: tag, inner: source.slice(open + 1, end) };
      if (RAW.has(tag)) {
        const close = closing(source, tag, end + 1);
        yield { text: source.slice(end + 1, close), raw: true };
        yield { close: tag };
        const gone = source.indexOf('>', close);
        at = gone < 0 ? source.length : gone + 1;
        continue;
      }
    }
    at = end + 1;
  }
}

function closing(source, tag, from) {
  const found = new RegExp(`</${tag}[\\s/>]`, 'gi');
  found.lastIndex = from;
  return found.exec(source)?.index ?? source.length;
}

function tagEnd(source, from) {
  let quote = '';
  for (let at = from; at < source.length; at++) {
    const c = source[at];
    if (quote) {
      if (c === quote) quote = '';
    } else if ((c === '"' || c === "'") && /=\s*$/.test(source.slice(Math.max(from, at - 4), at))) quote = c;
    else if (c === '>') return at;
  }
  return source.length;
}

function attribute(inner, name) {
  const found = new RegExp(`\\s${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)'|([^\\s"'>]+))`, 'i').exec(inner);
  return found ? entities(found[1] ?? found[2] ?? found[3]) : '';
}

/** htmlToText is {title, text} of a document. */
export function htmlToText(source) {
  const page = new Page();
  for (const token of tokens(source)) {
    if (token.open) page.open(token.open, token.inner);
    else if (token.close) page.close(token.close);
    else page.text(entities(token.text));
  }
  return page.end();
}

class Page {
  constructor() {
    this.lines = [];
    this.line = '';
    this.title = '';
    this.skip = [];
    this.lists = [];
    this.links = [];
    this.pre = 0;
    this.row = undefined;
    this.quote = 0;
    this.inTitle = false;
  }

  text(text) {
    if (this.skip.length > 0) return;
    if (this.inTitle) this.title += text;
    else if (this.pre > 0) {
      const [first, ...rest] = text.split(/\r?\n/);
      this.line += first;
      for (const line of rest) {
        this.flush(true);
        this.line = line;
      }
    } else {
      const words = text.replace(/[ \t\r\n\f]+/g, ' ').replace(/\u00ad/g, '');
      this.line += this.line === '' || /\s$/.test(this.line) ? words.trimStart() : words;
    }
  }

  flush(keep = false) {
    if (!keep && /^\s*(-|\d+\.)\s*$/.test(this.line)) return; // an item whose text is still to come
    const line = keep ? this.line : this.line.trimEnd();
    this.line = '';
    if (this.row) {
      if (line.trim()) this.row.push(line.trim());
    } else if (line.trim() || keep) this.lines.push('> '.repeat(this.quote) + line);
  }

  gap() {
    this.flush();
    if (this.line !== '') return;
    if (!this.row && this.lines.length > 0 && this.lines.at(-1) !== '') this.lines.push('');
  }

  open(tag, inner) {
    if (this.skip.length > 0) {
      if (tag === this.skip.at(-1)) this.skip.push(tag);
      return;
    }
    if (SKIPPED.has(tag)) {
      if (!inner.endsWith('/')) this.skip.push(tag);
      return;
    }
    if (tag === 'title') this.inTitle = true;
    else if (tag === 'br') this.pre > 0 ? this.flush(true) : this.flush();
    else if (tag === 'hr') {
      this.gap();
      this.lines.push('---', '');
    } else if (/^h[1-6]$/.test(tag)) {
      this.gap();
      this.line = `${'#'.repeat(Number(tag[1]))} `;
    } else if (tag === 'ul' || tag === 'ol') {
      this.lists.length > 0 ? this.flush() : this.gap();
      this.lists.push({ tag, count: 0 });
    } else if (tag === 'li') {
      this.flush();
      const list = this.lists.at(-1);
      if (list) list.count++;
      this.line = `${'  '.repeat(Math.max(0, this.lists.length - 1))}${list?.tag === 'ol' ? `${list.count}.` : '-'} `;
    } else if (tag === 'pre') {
      this.gap();
      this.lines.push('```');
      this.pre++;
    } else if (tag === 'blockquote') {
      this.gap();
      this.quote++;
    } else if (tag === 'tr') {
      this.flush();
      this.row = [];
      this.cells = [];
    } else if (tag === 'td' || tag === 'th') {
      this.flush();
      if (this.row) this.row = [];
    } else if (tag === 'a') this.links.push({ href: attribute(inner, 'href'), at: this.line.length });
    else if (tag === 'img') {
      const alt = attribute(inner, 'alt').trim();
      if (alt) this.text(`![${alt}](${attribute(inner, 'src')})`);
    } else if (tag === 'code' && this.pre === 0) this.line += '`';
    else if (BLOCKS.has(tag)) tag === 'p' ? this.gap() : this.flush();
  }

  close(tag) {
    if (this.skip.length > 0) {
      if (tag === this.skip.at(-1)) this.skip.pop();
      return;
    }
    if (tag === 'title') this.inTitle = false;
    else if (/^h[1-6]$/.test(tag) || tag === 'p') this.gap();
    else if (tag === 'ul' || tag === 'ol') {
      this.lists.pop();
      this.lists.length > 0 ? this.flush() : this.gap();
    } else if (tag === 'li') this.flushItem();
    else if (tag === 'pre' && this.pre > 0) {
      if (this.line !== '') this.flush(true);
      this.pre--;
      this.lines.push('```', '');
    } else if (tag === 'blockquote' && this.quote > 0) {
      this.flush();
      this.quote--;
      this.gap();
    } else if ((tag === 'td' || tag === 'th') && this.row) {
      this.flush();
      this.cells.push(this.row.join(' '));
      this.row = [];
    } else if (tag === 'tr' && this.row) {
      this.flush();
      if (this.row.length > 0) this.cells.push(this.row.join(' '));
      this.row = undefined;
      if (this.cells.some(Boolean)) this.lines.push(`| ${this.cells.join(' | ')} |`);
    } else if (tag === 'a') this.link();
    else if (tag === 'code' && this.pre === 0) this.line += '`';
    else if (tag === 'table') this.gap();
    else if (BLOCKS.has(tag)) this.flush();
  }

  // An item keeps its indentation.
  flushItem() {
    const line = this.line.trimEnd();
    this.line = '';
    if (!/^\s*(-|\d+\.)$/.test(line) && line.trim()) this.row ? this.row.push(line.trim()) : this.lines.push('> '.repeat(this.quote) + line);
  }

  link() {
    const link = this.links.pop();
    if (!link || !link.href || /^(#|javascript:)/i.test(link.href) || link.at > this.line.length) return;
    const text = this.line.slice(link.at).trim();
    if (text && !text.startsWith('![')) this.line = `${this.line.slice(0, link.at)}${/^\s/.test(this.line.slice(link.at)) ? ' ' : ''}[${text}](${link.href})`;
  }

  end() {
    if (this.row) this.close('tr');
    this.flush();
    while (this.lines.at(-1) === '') this.lines.pop();
    return { title: this.title.replace(/\s+/g, ' ').trim(), text: this.lines.join('\n').replace(/\n{3,}/g, '\n\n') };
  }
}
