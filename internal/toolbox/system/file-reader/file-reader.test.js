import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { mkdirSync, openSync, closeSync, symlinkSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { deflateRawSync, gzipSync } from 'node:zlib';
import tool from './file-reader.tool.js';
import { create, describe, rejects } from './harness.js';
import { encode } from './lib/encoding.js';
import { faultOf } from './lib/json.js';
import { parseYAML } from './lib/yaml.js';

function setup(t, options) {
  const self = create(t, tool, options);
  const at = (name) => path.join(self.data, name);
  const put = (name, content) => {
    mkdirSync(path.dirname(at(name)), { recursive: true });
    writeFileSync(at(name), content);
    return at(name);
  };
  const read = (url, params = {}) => self.execute({ method: 'read_file', url, ...params });
  const refused = (url, params, code, text) => rejects(assert, tool, read(url, params), code, text);
  return { self, at, put, read, refused };
}

/** zip makes an archive of {name: content}. */
function zip(files, { stored = false } = {}) {
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const [name, content] of Object.entries(files)) {
    const [raw, label] = [Buffer.from(content), Buffer.from(name)];
    const packed = stored ? raw : deflateRawSync(raw);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(stored ? 0 : 8, 8);
    local.writeUInt16LE(label.length, 26);
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50, 0);
    central.writeUInt16LE(0x800, 8);
    central.writeUInt16LE(stored ? 0 : 8, 10);
    central.writeUInt16LE((46 << 9) | (11 << 5) | 20, 14);
    central.writeUInt32LE(packed.length, 20);
    central.writeUInt32LE(raw.length, 24);
    central.writeUInt16LE(label.length, 28);
    central.writeUInt32LE(offset, 42);
    parts.push(local, label, packed);
    directory.push(central, label);
    offset += 30 + label.length + packed.length;
  }
  const list = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(Object.keys(files).length, 8);
  end.writeUInt16LE(Object.keys(files).length, 10);
  end.writeUInt32LE(list.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, list, end]);
}

const TYPES = '<?xml version="1.0"?><Types xmlns="x"/>';
const rels = (...targets) => `<Relationships>${targets.map(([id, target, type = '']) => `<Relationship Id="${id}" Target="${target}" Type="${type}"/>`).join('')}</Relationships>`;

test('it describes itself', () => describe(assert, tool));

test('text, with its metadata', async (t) => {
  const { at, put, read } = setup(t);
  put('a.txt', 'one\r\ntwo\r\n');
  const got = await read('a.txt');
  assert.deepEqual([got.success, got.content, got.format, got.file], [true, 'one\r\ntwo\r\n', 'text', { type: 'text', mimeType: 'text/plain', encoding: 'utf-8', size: 10 }]);
  assert.deepEqual(got.source, { url: 'a.txt', resolvedUrl: at('a.txt'), type: 'local', path: at('a.txt') });
  const { detectedType, conversion, originalSize, convertedSize, fromCache, lines } = got.metadata;
  assert.deepEqual([detectedType, conversion, originalSize, convertedSize, fromCache, lines], ['text', 'text_decode', 10, 10, false, 2]);
  assert.equal((await read('a.txt', { includeMetadata: false })).metadata, undefined);
  assert.equal((await read(pathToFileURL(at('a.txt')).href)).content, 'one\r\ntwo\r\n');
  put('empty.txt', '');
  const empty = await read('empty.txt');
  assert.deepEqual([empty.content, empty.metadata.lines, empty.file.size], ['', 0, 0]);
  put('日本 語.md', '# x');
  assert.equal((await read(pathToFileURL(at('日本 語.md')).href)).file.type, 'markdown');
  put('Makefile', 'all:\n');
  assert.equal((await read('Makefile')).file.type, 'code');
});

test('encodings', async (t) => {
  const { put, read, refused } = setup(t);
  const texts = { 'gb18030': '编码测试：中文内容。', 'big5': '編碼測試：中文內容。', 'shift_jis': '文字コードのテストです。', 'euc-kr': '한국어 문자 코드 시험입니다.', 'utf-16le': 'plain text here', 'windows-1251': 'Проверка русского текста' };
  for (const [encoding, text] of Object.entries(texts)) {
    put('e.txt', encode(text, encoding));
    const got = await read('e.txt');
    assert.deepEqual([got.content, got.file.encoding], [text, encoding]);
    assert.ok(got.metadata.encodingConfidence > 0.5, encoding);
  }
  put('e.txt', encode('中', 'gbk'));
  assert.equal((await read('e.txt', { encoding: 'GB2312' })).content, '中');
  put('utf32.txt', encode('中文', 'utf-32le', true));
  assert.equal((await read('utf32.txt')).content, '中文');
  await refused('e.txt', { encoding: 'morse' }, 'UNSUPPORTED_ENCODING');
  put('page.html', Buffer.concat([Buffer.from('<meta charset="big5"><p>'), encode('中', 'big5')]));
  assert.equal((await read('page.html')).content, '中');
});

test('parts of long texts', async (t) => {
  const { at, put, read, refused } = setup(t);
  put('long.txt', '0123456789😀abc');
  const first = await read('long.txt', { maxLength: 11 });
  assert.deepEqual([first.content, first.metadata.truncated, first.metadata.nextOffset, first.metadata.totalLength], ['0123456789', true, 10, 15]);
  const rest = await read('long.txt', { offset: 10 });
  assert.deepEqual([rest.content, rest.metadata.truncated], ['😀abc', undefined]);
  put('lines.log', Array.from({ length: 1000 }, (_, i) => `line ${i}`).join('\n') + '\n');
  assert.equal((await read('lines.log', { tail: 2 })).content, 'line 998\nline 999');
  assert.equal((await read('lines.log', { head: 2 })).content, 'line 0\nline 1');
  const fd = openSync(at('big.log'), 'w');
  for (let i = 0; i < 40; i++) writeSync(fd, `${'x'.repeat(500_000)}\n`);
  for (let i = 0; i < 600; i++) writeSync(fd, `end ${i}\n`);
  closeSync(fd);
  const log = await read('big.log');
  assert.deepEqual([log.content.split('\n').length, log.content.slice(-7), log.metadata.warnings.length], [500, 'end 599', 1]);
  await refused('big.log', { convertTo: 'text', head: 60 }, 'FILE_TOO_LARGE');
  put('big.txt', Buffer.alloc(2000, 0x61));
  await refused('big.txt', { maxSize: 1000 }, 'FILE_TOO_LARGE', /2\.0 KB.*head or tail/);
});

test('JSON, JSON lines and YAML', async (t) => {
  const { put, read, refused } = setup(t);
  put('a.json', '{"a": [1, "$&"], "n": null}');
  assert.deepEqual((await read('a.json')).content, { a: [1, '$&'], n: null });
  assert.equal((await read('a.json', { convertTo: 'raw' })).content, '{"a": [1, "$&"], "n": null}');
  put('bom.json', '\ufeff[1]');
  assert.deepEqual((await read('bom.json')).content, [1]);
  put('bad.json', '{"a": 1,\n "b": }\n');
  const bad = await read('bad.json');
  assert.equal(bad.content, '{"a": 1,\n "b": }\n');
  assert.match(bad.metadata.warnings[0], /line 2, column 7/);
  await refused('bad.json', { convertTo: 'json' }, 'PARSE_ERROR', /line 2, column 7/);
  put('l.jsonl', '{"a":1}\n\n{"a":2}\nnope\n');
  const lines = await read('l.jsonl');
  assert.deepEqual([lines.content, lines.metadata.rowCount, lines.metadata.warnings.length], [[{ a: 1 }, { a: 2 }], 3, 1]);
  put('c.yml', 'name: x\nlist:\n  - 1\n  - "two"\ntext: |\n  a\n  b\n');
  assert.deepEqual((await read('c.yml')).content, { name: 'x', list: [1, 'two'], text: 'a\nb\n' });
  put('anchor.yml', 'a: &x 1\nb: *x\n');
  const kept = await read('anchor.yml');
  assert.equal(kept.content, 'a: &x 1\nb: *x\n');
  assert.match(kept.metadata.warnings[0], /anchors/);
  await refused('anchor.yml', { convertTo: 'json' }, 'PARSE_ERROR');
  put('n.ipynb', JSON.stringify({ metadata: { kernelspec: { language: 'python' } }, cells: [{ cell_type: 'markdown', source: ['# T'] }, { cell_type: 'code', source: 'print(1)', outputs: [{ text: ['1\n'] }] }] }));
  assert.equal((await read('n.ipynb')).content, '# T\n\n```python\nprint(1)\n```\n\nOutput:\n1');
});

test('where JSON goes wrong', () => {
  const cases = { '{"a": 1,\n "b": }': 15, '[1,]': 3, '{"a" 1}': 5, '{a: 1}': 1, '[1 2]': 3, '': 0, '"x': 0, '{"a":1}}': 7, '01': 1, '["\t"]': 1, '{"a":1,}': 7, 'nul': 0 };
  for (const [text, want] of Object.entries(cases)) assert.equal(faultOf(text), want, text);
  for (const text of ['{}', '[]', '[[], {}]', ' {"a": [1.5e3, -0, "\\u4e2d", true, null]} ', '"x"']) assert.equal(faultOf(text), -1, text);
});

test('YAML in detail', () => {
  const cases = [
    ['a: 1\nb: [x, {y: z}]\nc:\n- d\n- e: f\n  g: ~\n', { a: 1, b: ['x', { y: 'z' }], c: ['d', { e: 'f', g: null }] }],
    ['- - a\n  - b\n-\n  c: d\n', [['a', 'b'], { c: 'd' }]],
    ['s: >-\n  one\n  two\n\n  three\nk: |+\n  keep\n\n', { s: 'one two\nthree', k: 'keep\n\n' }],
    ['q: "a\\tb \\u4e2d"\nr: \'it\'\'s\'\np: multi\n  line\n', { q: 'a\tb 中', r: "it's", p: 'multi line' }],
    ['url: http://x.y/z#a\nt: true\no: 0o17\nh: 0x1f\nf: -1.5e3\nd: 2026-01-02\nv: 1.2.3\n', { url: 'http://x.y/z#a', t: true, o: 15, h: 31, f: -1500, d: '2026-01-02', v: '1.2.3' }],
    ['---\na: 1\n---\n- b\n...\n', [{ a: 1 }, ['b']]],
    ['# nothing\n', null],
    ['big: 12345678901234567890\n', { big: '12345678901234567890' }],
    ['__proto__: 1\n', JSON.parse('{"__proto__": 1}')],
  ];
  for (const [text, want] of cases) assert.deepEqual(parseYAML(text), want, text);
  for (const text of ['a: 1\na: 2\n', 'a:\n\t- b\n', 'a: b: c\n', 'a: [1\n', 'a: "x\n', 'a: 1\n  b: 2\n', '<<: {}\n', '!!str 1\n', '? a\n', 'k: - a\n', '- a\nb: 1\n', '"\\q"', '[a]x\n', `${'['.repeat(300)}${']'.repeat(300)}`]) {
    assert.throws(() => parseYAML(text), { code: 'PARSE_ERROR' }, text);
  }
});

test('tables', async (t) => {
  const { put, read } = setup(t);
  put('a.csv', 'name,note\r\n"Müller, A","said ""hi""\nand left"\r\nB,\r\n');
  const { content, format } = await read('a.csv');
  assert.deepEqual([format, content.delimiter, content.columns, content.rows, content.rowCount], ['table', ',', ['name', 'note'], [['Müller, A', 'said "hi"\nand left'], ['B', '']], 2]);
  assert.deepEqual((await read('a.csv', { convertTo: 'json' })).content, [{ name: 'Müller, A', note: 'said "hi"\nand left' }, { name: 'B', note: '' }]);
  put('s.csv', 'a;b;c\n1,5;2;3\n4;5;6\n');
  assert.deepEqual((await read('s.csv')).content.rows, [['1,5', '2', '3'], ['4', '5', '6']]);
  put('t.tsv', 'a\tb\n1,2,3\t4\n');
  assert.deepEqual((await read('t.tsv')).content.rows, [['1,2,3', '4']]);
  put('gbk.csv', encode('姓名,城市\n张三,北京\n李四,上海\n', 'gb18030'));
  assert.deepEqual((await read('gbk.csv')).content.columns, ['姓名', '城市']);
  put('many.csv', `n\n${Array.from({ length: 5000 }, (_, i) => i).join('\n')}`);
  const many = await read('many.csv', { maxRows: 10 });
  assert.deepEqual([many.content.rows.length, many.content.rowCount, many.metadata.truncated], [10, 5000, true]);
  put('odd.csv', 'a,a,\n1,2,3,4\n"open\n');
  const odd = await read('odd.csv', { convertTo: 'json' });
  assert.deepEqual(odd.content[0], { 'a': '1', 'a 2': '2', 'column 3': '3', 'column 4': '4' });
  assert.deepEqual(odd.metadata.warnings, ['a quoted field does not end', '2 of 2 rows have another number of fields']);
  put('plain.csv', '1,2\n3,4\n');
  assert.deepEqual((await read('plain.csv', { header: false })).content, { delimiter: ',', columns: ['1', '2'], rows: [['1', '2'], ['3', '4']], rowCount: 2 });
  put('empty.csv', '');
  assert.deepEqual((await read('empty.csv')).content.rowCount, 0);
});

test('HTML becomes text', async (t) => {
  const { put, read } = setup(t);
  put('p.html', `<!DOCTYPE html><html><head><title>The &amp; title</title><style>p{}</style><script>var x = "<p>no</p>";</script></head>
    <body><h1>Head&shy;ing</h1><p>One <b>two</b>
    three &lt;3 &copy; &#20013; <a href="/x?a=1&amp;b=2">link</a> <a href="#top">up</a></p><!-- <p>hidden</p> -->
    <ul><li>a<ul><li>b</li></ul></li><li><p>c</p></li></ul><ol><li>x<li>y</ol>
    <pre>  keep
    this &amp; that</pre><table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td><p>2</p></td></tr></table>
    <blockquote>said</blockquote><img alt="pic" src="p.png"><br>5 < 6 && true<p title="a > b">end</body></html>`);
  const got = await read('p.html');
  assert.equal(got.metadata.title, 'The & title');
  assert.deepEqual(got.content.split('\n'), [
    '# Heading', '', 'One two three <3 © 中 [link](/x?a=1&b=2) up', '', '- a', '  - b', '- c', '', '1. x', '2. y', '', '```', '  keep', '    this & that', '```', '',
    '| A | B |', '| 1 | 2 |', '', '> said', '', '![pic](p.png)', '5 < 6 && true', '', 'end',
  ]);
  assert.match((await read('p.html', { convertTo: 'raw' })).content, /^<!DOCTYPE html>/);
  put('deep.html', '<div>'.repeat(50_000) + 'x' + '<'.repeat(20_000));
  const start = Date.now();
  assert.match((await read('deep.html')).content, /^x<</);
  assert.ok(Date.now() - start < 3000);
});

test('XML', async (t) => {
  const { put, read, refused } = setup(t);
  put('a.xml', '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r a="1"><i>one &amp; &#x4e2d;</i><i/><j><![CDATA[<raw>]]></j>&x;</r>');
  assert.match((await read('a.xml')).content, /^<\?xml/);
  const want = { r: { '@a': '1', 'i': ['one & 中', ''], 'j': '<raw>', '#text': '&x;' } };
  assert.deepEqual((await read('a.xml', { convertTo: 'xml' })).content, want);
  assert.deepEqual((await read('a.xml', { convertTo: 'json' })).content, want);
  for (const text of ['<a><b></a>', '<a', '<a>', 'words', '</a>', `${'<a>'.repeat(1000)}`]) {
    put('bad.xml', text);
    await refused('bad.xml', { convertTo: 'xml' }, 'PARSE_ERROR');
  }
  put('i.svg', '<svg xmlns="http://www.w3.org/2000/svg"><text>hi</text></svg>');
  assert.match((await read('i.svg')).content, /^<svg/);
  assert.equal((await read('i.svg', { convertTo: 'image' })).content.mimeType, 'image/svg+xml');
});

test('Word', async (t) => {
  const { put, read } = setup(t);
  const p = (text, style = '') => `<w:p>${style && `<w:pPr><w:pStyle w:val="${style}"/></w:pPr>`}<w:r><w:t xml:space="preserve">${text}</w:t></w:r></w:p>`;
  const document = `<w:document><w:body>${p('Report', 'Title')}${p('Part', 'Heading2')}${p('R&amp;D ')}
    <w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t><w:tab/><w:t>tab</w:t></w:r></w:p>
    <w:p><w:r><w:delText>gone</w:delText><w:instrText>PAGE</w:instrText><mc:AlternateContent><mc:Choice><w:t>once</w:t></mc:Choice><mc:Fallback><w:t>twice</w:t></mc:Fallback></mc:AlternateContent></w:r></w:p>
    <w:tbl><w:tr><w:tc>${p('A')}</w:tc><w:tc>${p('B')}${p('b')}</w:tc></w:tr></w:tbl></w:body></w:document>`;
  const file = { '[Content_Types].xml': TYPES, 'word/document.xml': document, 'word/footnotes.xml': `<w:footnotes>${p('note')}</w:footnotes>` };
  put('r.docx', zip(file));
  const got = await read('r.docx');
  assert.equal(got.file.mimeType, 'application/vnd.openxmlformats-officedocument.wordprocessingml.document');
  assert.equal(got.content, '# Report\n## Part\nR&D\n- item\ttab\nonce\n| A | B b |\n\nFootnotes:\nnote');
  put('named.zip', zip(file, { stored: true }));
  assert.equal((await read('named.zip')).file.type, 'docx', 'known by what is in it');
});

test('Excel', async (t) => {
  const { put, read, refused } = setup(t);
  const file = {
    '[Content_Types].xml': TYPES,
    'xl/workbook.xml': '<workbook><sheets><sheet name="Data" sheetId="1" r:id="r1"/><sheet name="Other" state="hidden" r:id="r2"/></sheets></workbook>',
    'xl/_rels/workbook.xml.rels': rels(['r1', 'worksheets/sheet1.xml'], ['r2', '/xl/worksheets/sheet2.xml']),
    'xl/sharedStrings.xml': '<sst><si><t>name</t></si><si><r><t>ri</t></r><r><t>ch</t></r><rPh><t>x</t></rPh></si><si/></sst>',
    'xl/styles.xml': '<styleSheet><numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd hh:mm"/><numFmt numFmtId="165" formatCode="0.00&quot;days&quot;"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs></styleSheet>',
    'xl/worksheets/sheet1.xml': `<worksheet><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row>
      <row r="3"><c r="A3"><v>1.5</v></c><c r="B3" t="b"><v>1</v></c><c r="C3" s="1"><v>45000</v></c><c r="D3" s="2"><v>45000.25</v></c><c r="E3" s="3"><v>2</v></c><c r="F3" t="str"><f>A3&amp;"x"</f><v>1.5x</v></c><c r="G3" t="inlineStr"><is><t>in</t></is></c><c r="H3" t="e"><v>#N/A</v></c><c r="I3" s="1"><v>1</v></c><c r="J3"/></row></sheetData></worksheet>`,
    'xl/worksheets/sheet2.xml': '<worksheet><sheetData/></worksheet>',
  };
  put('b.xlsx', zip(file));
  const { content, format } = await read('b.xlsx');
  assert.equal(format, 'table');
  assert.deepEqual(content.sheets[0], { name: 'Data', hidden: false, rows: [['name', null, 'rich'], [], [1.5, true, '2023-03-15', '2023-03-15T06:00:00', 2, '1.5x', 'in', '#N/A', '1900-01-01']], rowCount: 3, columnCount: 9 });
  assert.deepEqual(content.sheets[1], { name: 'Other', hidden: true, rows: [], rowCount: 0, columnCount: 0 });
  const cut = await read('b.xlsx', { maxRows: 1, sheet: 'Data' });
  assert.deepEqual([cut.content.sheets.length, cut.content.sheets[0].rows.length, cut.content.sheets[0].rowCount, cut.metadata.truncated], [1, 1, 3, true]);
  await refused('b.xlsx', { sheet: 'None' }, 'SHEET_NOT_FOUND', /Data, Other/);
  assert.match((await read('b.xlsx', { convertTo: 'text' })).content, /^## Data\nname\t\trich\n\n1\.5\ttrue/);
  assert.deepEqual(Object.keys((await read('b.xlsx', { convertTo: 'json' })).content), ['Data', 'Other']);
  file['xl/worksheets/sheet1.xml'] = '<worksheet><sheetData><row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData></worksheet>';
  put('far.xlsx', zip(file));
  const far = await read('far.xlsx');
  assert.deepEqual([far.content.sheets[0].rows.length, far.content.sheets[0].rowCount], [0, 1048576]);
});

test('PowerPoint, OpenDocument, EPUB and RTF', async (t) => {
  const { put, read } = setup(t);
  const slide = (text) => `<p:sld><a:p><a:r><a:t>${text}</a:t></a:r></a:p></p:sld>`;
  put('s.pptx', zip({
    '[Content_Types].xml': TYPES,
    'ppt/presentation.xml': '<p:presentation><p:sldIdLst><p:sldId id="256" r:id="b"/><p:sldId id="257" r:id="a"/></p:sldIdLst></p:presentation>',
    'ppt/_rels/presentation.xml.rels': rels(['a', 'slides/slide1.xml'], ['b', 'slides/slide2.xml']),
    'ppt/slides/slide1.xml': slide('last'), 'ppt/slides/slide2.xml': slide('first'),
    'ppt/slides/_rels/slide2.xml.rels': rels(['n', '../notesSlides/notesSlide1.xml', 'http://x/notesSlide']),
    'ppt/notesSlides/notesSlide1.xml': slide('say this'),
  }));
  const slides = await read('s.pptx');
  assert.deepEqual([slides.content, slides.metadata.slides], ['## Slide 1\nfirst\nNotes: say this\n\n## Slide 2\nlast', 2]);
  put('d.odt', zip({ 'mimetype': 'application/vnd.oasis.opendocument.text', 'content.xml': '<office:document-content><text:h text:outline-level="2">H</text:h><text:p>a<text:s text:c="2"/>b<text:tab/>c</text:p><text:p/></office:document-content>' }));
  assert.equal((await read('d.odt')).content, '## H\na  b\tc');
  put('d.ods', zip({ 'mimetype': 'application/vnd.oasis.opendocument.spreadsheet', 'content.xml': '<o><table:table table:name="S"><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell><table:table-cell table:number-columns-repeated="2"/><table:table-cell><text:p>d</text:p></table:table-cell></table:table-row><table:table-row><table:table-cell table:number-columns-repeated="16384"/></table:table-row></table:table></o>' }));
  assert.equal((await read('d.ods')).content, '## S\na\t\t\td');
  put('b.epub', zip({
    'META-INF/container.xml': '<container><rootfiles><rootfile full-path="O/c.opf"/></rootfiles></container>',
    'O/c.opf': '<package><manifest><item id="2" href="b%20b.xhtml"/><item id="1" href="a.xhtml"/></manifest><spine><itemref idref="1"/><itemref idref="2"/></spine></package>',
    'O/a.xhtml': '<html><body><h1>One</h1></body></html>', 'O/b b.xhtml': '<html><body><p>Two</p></body></html>',
  }));
  const book = await read('b.epub');
  assert.deepEqual([book.content, book.metadata.chapters], ['# One\n\nTwo', 2]);
  put('t.rtf', "{\\rtf1\\ansi\\ansicpg936\\uc1{\\fonttbl{\\f0 Arial;}}{\\*\\generator x;}\\f0 Hello \\b bold\\b0\\par caf\\'e9 \\u20013?\\u25991?\\par \\'d6\\'d0\\'ce\\'c4 \\{x\\}}".replace("caf\\'e9", 'cafe'));
  assert.equal((await read('t.rtf')).content, 'Hello bold\ncafe 中文\n中文 {x}');
});

test('archives are listed', async (t) => {
  const { put, read, refused } = setup(t);
  put('a.zip', zip({ 'dir/': '', 'dir/文件.txt': 'hello', 'x': '' }));
  const { content } = await read('a.zip');
  assert.deepEqual([content.format, content.total, content.entries.map((e) => [e.path, e.type, e.size])], ['zip', 3, [['dir/', 'directory', 0], ['dir/文件.txt', 'file', 5], ['x', 'file', 0]]]);
  assert.equal(content.entries[0].modified, '2026-11-20T00:00:00');
  const archive = Buffer.concat([tarEntry('d/', '', '5'), tarEntry('d/a.txt', 'hello'), tarEntry('PaxHeader', '22 path=long/name.txt\n', 'x'), tarEntry('short', 'x'), tarEntry('link', '', '2'), Buffer.alloc(1024)]);
  for (const [name, bytes, format] of [['a.tar', archive, 'tar'], ['a.tgz', gzipSync(archive), 'tar.gz']]) {
    put(name, bytes);
    const { content: list } = await read(name);
    assert.deepEqual([list.format, list.entries.map((e) => [e.path, e.type, e.size])], [format, [['d/', 'directory', 0], ['d/a.txt', 'file', 5], ['long/name.txt', 'file', 1], ['link', 'symlink', 0]]]);
  }
  put('one.txt.gz', gzipSync('hello'));
  assert.deepEqual((await read('one.txt.gz')).content.entries, [{ path: 'one.txt', type: 'file', size: 5, compressed: gzipSync('hello').length }]);
  const whole = zip({ a: 'hello hello hello' });
  put('cut.zip', whole.subarray(0, whole.length - 30));
  await refused('cut.zip', {}, 'PARSE_ERROR', /damaged/);
  put('x.7z', Buffer.from('377abcaf271c0004', 'hex'));
  assert.match((await read('x.7z')).content.description, /7z archive/);
});

function tarEntry(name, content, type = '0') {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write('0000644\0', 100);
  header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124);
  header.write('14000000000\0', 136);
  header.write(type, 156);
  header.write('ustar\x0000', 257, 'latin1');
  header.fill(0x20, 148, 156);
  header.write(`${header.reduce((a, b) => a + b).toString(8).padStart(6, '0')}\0 `, 148);
  const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
  body.write(content);
  return Buffer.concat([header, body]);
}

test('a small file that unpacks to a large one is refused', async (t) => {
  const { put, refused } = setup(t);
  const honest = zip({ '[Content_Types].xml': TYPES, 'word/document.xml': Buffer.alloc(80 * 1024 * 1024, 0x20) });
  put('bomb.docx', honest);
  await refused('bomb.docx', {}, 'FILE_TOO_LARGE');
  const lying = Buffer.from(zip({ '[Content_Types].xml': TYPES, 'word/document.xml': Buffer.alloc(1024 * 1024, 0x20) }));
  lying.writeUInt32LE(10, lying.lastIndexOf('word/document.xml') - 46 + 24);
  put('lie.docx', lying);
  await refused('lie.docx', {}, 'PARSE_ERROR', /larger than it says/);
});

test('images and other binary files', async (t) => {
  const { put, read, refused } = setup(t);
  const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAYAAACddGYaAAAAC0lEQVR42mNgwAQAABQAAU4cU0kAAAAASUVORK5CYII=', 'base64');
  put('p.dat', png);
  const { content, format, file } = await read('p.dat');
  assert.deepEqual([format, file.type, content.mimeType, content.dimensions, content.size, content.base64], ['image', 'image', 'image/png', { width: 3, height: 2 }, png.length, png.toString('base64')]);
  const jpeg = Buffer.from('ffd8ffe000104a46494600010100000100010000ffc0001108000a001403012200021101031101ffd9', 'hex');
  put('j.jpg', jpeg);
  assert.deepEqual((await read('j.jpg')).content.dimensions, { width: 20, height: 10 });
  put('b.bin', Buffer.from([0, 1, 2, 3]));
  assert.deepEqual((({ format: f, content: c }) => [f, c.mimeType, c.size])(await read('b.bin')), ['metadata', 'application/octet-stream', 4]);
  assert.equal((await read('b.bin', { convertTo: 'base64' })).content.base64, 'AAECAw==');
  await refused('b.bin', { convertTo: 'text' }, 'CANNOT_CONVERT');
  await refused('b.bin', { head: 1 }, 'CANNOT_CONVERT');
  await refused('b.bin', { convertTo: 'image' }, 'CANNOT_CONVERT');
  put('s.wav', Buffer.concat([Buffer.from('RIFF\0\0\0\0WAVEfmt ', 'latin1'), Buffer.alloc(20)]));
  assert.deepEqual((({ format: f, content: c }) => [f, c.mimeType])(await read('s.wav')), ['audio', 'audio/wav']);
  put('d.pdf', '%PDF-1.7\n');
  await refused('d.pdf', {}, 'USE_PDF_READER', /pdf-reader/);
  put('old.doc', Buffer.concat([Buffer.from('d0cf11e0a1b11ae1', 'hex'), Buffer.alloc(100)]));
  await refused('old.doc', {}, 'CANNOT_CONVERT', /\.docx/);
});

test('paths do not leave the allowed directories', async (t) => {
  const { at, refused } = setup(t);
  symlinkSync('/etc', at('link'));
  for (const url of ['/etc/passwd', '../x', 'file:///etc/passwd', 'link/passwd']) await refused(url, {}, 'PATH_OUTSIDE_SCOPE');
  for (const url of ['ftp://example.com/x', 'http://', 'file://host/x']) await refused(url, {}, 'INVALID_URL');
  await refused('a\0b', {}, 'INVALID_PATH');
  await refused('missing.txt', {}, 'FILE_NOT_FOUND');
  await refused('.', {}, 'IS_A_DIRECTORY');
});

test('relative paths and nested links', async (t) => {
  const { at, put, read } = setup(t);
  put('docs/index.md', 'See [b](sub/b.md "title"), [again](./sub/b.md), [gone](missing.md), ./c.json, [self](index.md#x) and <mailto:a@b>.\n');
  put('docs/sub/b.md', 'Back to [index](../index.md) and [d](d.txt).');
  put('docs/sub/d.txt', 'deep');
  put('docs/c.json', '{"c": 1}');
  for (const basePath of ['docs/index.md', 'docs', 'docs/', at('docs/index.md'), pathToFileURL(at('docs/index.md')).href]) assert.equal((await read('sub/d.txt', { basePath })).content, 'deep', basePath);
  const got = await read('docs/index.md', { extractLinks: true });
  assert.deepEqual(got.nestedLinks.map(({ url, depth, content, error }) => [url, depth, content ?? error?.slice(0, 12)]), [
    ['sub/b.md', 1, 'Back to [index](../index.md) and [d](d.txt).'], ['missing.md', 1, 'no such file'], ['./c.json', 1, { c: 1 }], ['d.txt', 2, 'deep'],
  ]);
  assert.equal(got.metadata.nestedLinksCount, 4);
  assert.equal((await read('docs/index.md', { extractLinks: true, maxDepth: 1 })).nestedLinks.length, 3);
});

async function serve(t, handler) {
  const server = createServer(handler);
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

test('URLs', async (t) => {
  const { self, read, refused } = setup(t, { environment: { ALLOWED_URLS: '["http://127.0.0.1/*"]' } });
  let asked = 0;
  const pages = {
    '/a.txt': [200, 'text/plain; charset=gbk', encode('中文', 'gbk')],
    '/data': [200, 'application/json', '{"a":1}'],
    '/page': [200, 'text/html', '<title>T</title><p>hi <a href="data">d</a></p>'],
    '/moved': [302, '', '', { location: '/data' }],
    '/away': [302, '', '', { location: 'http://localhost:1/x' }],
    '/file': [302, '', '', { location: 'file:///etc/passwd' }],
    '/loop': [302, '', '', { location: '/loop' }],
    '/forbidden': [403, 'text/plain', 'no'],
    '/broken': [500, 'text/plain', 'no'],
    '/gz': [200, 'text/plain', gzipSync(Buffer.alloc(2_000_000, 0x61)), { 'content-encoding': 'gzip' }],
    '/report.pdf': [200, 'application/pdf', '%PDF-1.4'],
    '/a%20b.csv': [200, 'application/octet-stream', 'x,y\n1,2\n'],
  };
  const base = await serve(t, (request, response) => {
    asked++;
    if (request.url === '/slow') return;
    const [status, type, body, headers] = pages[request.url] ?? [404, 'text/plain', 'not here'];
    response.writeHead(status, { ...(type && { 'content-type': type }), ...headers });
    response.end(body);
  });
  const text = await read(`${base}/a.txt`);
  assert.deepEqual([text.content, text.source.type, text.file.encoding, text.metadata.fromCache], ['中文', 'remote', 'gbk', false]);
  const before = asked;
  assert.equal((await read(`${base}/a.txt`)).metadata.fromCache, true);
  assert.equal(asked, before);
  assert.equal((await read(`${base}/a.txt`, { useCache: false })).metadata.fromCache, false);
  assert.deepEqual((await read(`${base}/data`)).content, { a: 1 });
  const moved = await read(`${base}/moved`);
  assert.deepEqual([moved.content, moved.source.resolvedUrl], [{ a: 1 }, `${base}/data`]);
  assert.deepEqual((await read(`${base}/a%20b.csv`)).content.rows, [['1', '2']]);
  const page = await read(`${base}/page`, { extractLinks: true });
  assert.deepEqual([page.content, page.metadata.title, page.nestedLinks[0].content], ['hi [d](data)', 'T', { a: 1 }]);
  assert.deepEqual((await read('data', { basePath: `${base}/page` })).content, { a: 1 });
  await refused(`${base}/missing`, {}, 'FILE_NOT_FOUND', /404/);
  await refused(`${base}/forbidden`, {}, 'PERMISSION_DENIED');
  await refused(`${base}/broken`, {}, 'NETWORK_ERROR', /500/);
  await refused(`${base}/loop`, {}, 'NETWORK_ERROR', /redirects/);
  await refused(`${base}/away`, {}, 'URL_NOT_ALLOWED');
  await refused(`${base}/file`, {}, 'INVALID_URL');
  await refused('http://127.0.0.1@localhost:1/', {}, 'URL_NOT_ALLOWED');
  await refused('https://127.0.0.1/', {}, 'URL_NOT_ALLOWED');
  await refused(`${base}/gz`, { maxSize: 1_000_000 }, 'FILE_TOO_LARGE');
  await refused(`${base}/report.pdf`, {}, 'USE_PDF_READER');
  await refused(`${base}/slow`, { timeout: 100 }, 'NETWORK_ERROR', /timeout/);
  await refused('http://127.0.0.1:1/', {}, 'NETWORK_ERROR', /ECONNREFUSED|bad port/);
  const stop = new AbortController();
  self.api.signal = stop.signal;
  setTimeout(() => stop.abort(new Error('cancelled by the caller')), 50);
  await assert.rejects(read(`${base}/slow`), /cancelled by the caller/);
  self.api.signal = undefined;
  self.api.environment.set('ALLOWED_URLS', '[nonsense');
  await refused(`${base}/data`, {}, 'INVALID_CONFIGURATION');
});

test('wrong parameters are named', async (t) => {
  const { self, refused } = setup(t);
  await refused('', {}, 'INVALID_PARAMETERS', /url/);
  await refused('a', { convertTo: 'music' }, 'INVALID_PARAMETERS', /convertTo/);
  await refused('a', { head: 1, tail: 1 }, 'INVALID_PARAMETERS');
  await refused('a', { maxSize: 0 }, 'INVALID_PARAMETERS', /maxSize/);
  await refused('http://127.0.0.1/x', { tail: 3 }, 'INVALID_PARAMETERS');
  await rejects(assert, tool, self.execute(), 'INVALID_PARAMETERS', /url/);
});

test('damaged documents are errors, whatever is damaged', async (t) => {
  const { put, read } = setup(t);
  let seed = 1;
  const random = (n) => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    return seed % n;
  };
  const damage = (content) => {
    const bytes = Buffer.from(content);
    for (let k = random(4); k >= 0 && bytes.length > 0; k--) bytes[random(bytes.length)] = random(3) === 0 ? random(256) : '<>/"=&'.charCodeAt(random(6));
    return random(4) === 0 ? bytes.subarray(0, random(bytes.length + 1)) : bytes;
  };
  const documents = {
    'x.xlsx': { '[Content_Types].xml': TYPES, 'xl/workbook.xml': '<workbook><sheets><sheet name="D" r:id="r1"/></sheets></workbook>', 'xl/_rels/workbook.xml.rels': rels(['r1', 'worksheets/sheet1.xml']), 'xl/sharedStrings.xml': '<sst><si><t>name</t></si></sst>', 'xl/styles.xml': '<s><cellXfs><xf numFmtId="14"/></cellXfs></s>', 'xl/worksheets/sheet1.xml': '<worksheet><row r="1"><c r="A1" t="s" s="0"><v>0</v></c><c><v>9</v></c></row></worksheet>' },
    'x.docx': { '[Content_Types].xml': TYPES, 'word/document.xml': '<w:document><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>a</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:t>b</w:t></w:p></w:tc></w:tr></w:tbl></w:document>' },
    'x.pptx': { '[Content_Types].xml': TYPES, 'ppt/presentation.xml': '<p:p><p:sldId id="1" r:id="a"/></p:p>', 'ppt/_rels/presentation.xml.rels': rels(['a', 'slides/s.xml']), 'ppt/slides/s.xml': '<a:p><a:t>x</a:t></a:p>' },
    'x.epub': { 'META-INF/container.xml': '<c><rootfile full-path="c.opf"/></c>', 'c.opf': '<p><item id="1" href="a.html"/><itemref idref="1"/></p>', 'a.html': '<ul><li>a<table><tr><td>b</table><pre>c<a href="x">d</blockquote>' },
    'x.odt': { 'mimetype': 'x', 'content.xml': '<o><text:h>H</text:h><text:p>a<text:s text:c="2"/></text:p></o>' },
  };
  const plain = {
    'x.tar': Buffer.concat([tarEntry('PaxHeader', '22 path=long/name.txt\n', 'x'), tarEntry('a', 'hello'), Buffer.alloc(1024)]),
    'x.rtf': '{\\rtf1\\ansi{\\fonttbl{\\f0\\fcharset134 A;}}\\f0 a\\u20013?\\\'d6\\\'d0}',
    'x.html': '<ul><li>a<table><tr><td>b</table><pre>c<a href="x">d</a></pre></blockquote>',
    'x.yaml': 'a: [1, {b: c}]\nd: |\n  e\nf: "g\\n"\n- h\n',
    'x.csv': 'a,"b\n""c"\r\n1,2\n',
  };
  for (let i = 0; i < 20; i++) {
    for (const [name, parts] of Object.entries(documents)) {
      const made = zip(Object.fromEntries(Object.entries(parts).map(([part, content]) => [part, random(3) === 0 ? damage(content) : content])));
      put(name, random(3) === 0 ? damage(made) : made);
    }
    for (const [name, content] of Object.entries(plain)) put(name, damage(content));
    put('x.tgz', damage(gzipSync(plain['x.tar'])));
    for (const name of [...Object.keys(documents), ...Object.keys(plain), 'x.tgz']) {
      await read(name).catch((error) => {
        assert.ok(tool.getBusinessErrors().some(({ code }) => code === error.code), `${name}: ${error.stack}`);
      });
    }
  }
});
