import assert from 'node:assert/strict';
import { chmodSync, existsSync, linkSync, lstatSync, mkdirSync, mkdtempSync, openSync, closeSync, readFileSync, readdirSync, readlinkSync, realpathSync, renameSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import tool from './filesystem.tool.js';
import { create, describe, rejects } from './harness.js';
import { encode } from './lib/encoding.js';
import { move } from './lib/move.js';
import { Guard, replace } from './lib/paths.js';
import { find, list } from './lib/walk.js';

function setup(t) {
  const self = create(t, tool);
  const at = (name) => path.join(self.data, name);
  const put = (name, content) => {
    mkdirSync(path.dirname(at(name)), { recursive: true });
    writeFileSync(at(name), content);
  };
  const call = (method, params = {}) => self.execute({ method, ...params });
  const refused = (method, params, code, text) => rejects(assert, tool, call(method, params), code, text);
  return { self, at, put, call, refused, bytes: (name) => readFileSync(at(name)), string: (name) => readFileSync(at(name), 'utf8') };
}

test('it describes itself', () => describe(assert, tool));

test('reading: whole, head and tail', async (t) => {
  const { put, call, refused } = setup(t);
  put('a.txt', 'one\ntwo\nthree\n');
  put('open.txt', 'one\ntwo');
  put('crlf.txt', 'one\r\ntwo\r\nthree\r\n');
  put('empty.txt', '');
  const cases = [
    ['a.txt', {}, 'one\ntwo\nthree\n'],
    ['a.txt', { head: 1 }, 'one'],
    ['a.txt', { head: 2 }, 'one\ntwo'],
    ['a.txt', { head: 99 }, 'one\ntwo\nthree'],
    ['a.txt', { tail: 1 }, 'three'],
    ['a.txt', { tail: 2 }, 'two\nthree'],
    ['a.txt', { tail: 99 }, 'one\ntwo\nthree'],
    ['open.txt', { head: 2 }, 'one\ntwo'],
    ['open.txt', { tail: 1 }, 'two'],
    ['crlf.txt', { head: 2 }, 'one\r\ntwo'],
    ['crlf.txt', { tail: 2 }, 'two\r\nthree'],
    ['empty.txt', {}, ''],
    ['empty.txt', { head: 3 }, ''],
    ['empty.txt', { tail: 3 }, ''],
  ];
  for (const [name, how, want] of cases) assert.equal(await call('read_text_file', { path: name, ...how }), want, `${name} ${JSON.stringify(how)}`);
  await refused('read_text_file', { path: 'a.txt', head: 1, tail: 1 }, 'INVALID_PARAMETERS');
  await refused('read_text_file', { path: 'a.txt', head: 0 }, 'INVALID_PARAMETERS');
  await refused('read_text_file', { path: 'missing.txt' }, 'FILE_NOT_FOUND');
  await refused('read_text_file', { path: '.' }, 'IS_A_DIRECTORY');
});

test('the ends of a file of 2 GB are read and the rest is not', async (t) => {
  const { at, call, refused } = setup(t);
  const fd = openSync(at('big.log'), 'w');
  writeSync(fd, 'first\nsecond\n');
  writeSync(fd, '\nbefore\nlast\n', 2 ** 31);
  closeSync(fd);
  assert.equal(await call('read_text_file', { path: 'big.log', tail: 2, encoding: 'utf-8' }), 'before\nlast');
  assert.equal(await call('read_text_file', { path: 'big.log', head: 2, encoding: 'utf-8' }), 'first\nsecond');
  await refused('read_text_file', { path: 'big.log', head: 3, encoding: 'utf-8' }, 'FILE_TOO_LARGE');
  await refused('read_text_file', { path: 'big.log' }, 'FILE_TOO_LARGE', /2\.0 GB/);
});

test('lines that lie across the parts that are read', async (t) => {
  const { put, call } = setup(t);
  const lines = Array.from({ length: 30_000 }, (_, i) => `line ${i} 中文${'x'.repeat(i % 90)}`);
  for (const [encoding, end] of [['utf-8', '\n'], ['utf-16le', '\r\n'], ['gb18030', '\n']]) {
    put('long.txt', encode(lines.join(end) + end, encoding, encoding !== 'gb18030'));
    for (const n of [1, 700, 2500]) {
      assert.equal(await call('read_text_file', { path: 'long.txt', head: n }), lines.slice(0, n).join(end), `${encoding} head ${n}`);
      assert.equal(await call('read_text_file', { path: 'long.txt', tail: n }), lines.slice(-n).join(end), `${encoding} tail ${n}`);
    }
  }
});

test('encodings are found, named and kept', async (t) => {
  const { put, call, bytes, refused } = setup(t);
  const texts = {
    'gb18030': '这是一个测试文件。\n第二行：中文编码\n',
    'big5': '這是一個測試檔案。\n第二行：繁體中文\n',
    'shift_jis': 'これはテストです。\n日本語の文字コード\n',
    'euc-jp': 'これはテストです。\n日本語の文字コード\n',
    'euc-kr': '이것은 시험 파일입니다.\n한국어 문자 코드\n',
    'windows-1251': 'Это проверка кодировки\nрусского текста\n',
    'koi8-r': 'Это проверка кодировки\nрусского текста\n',
    'windows-1252': 'naïve façade – déjà vu\nÜbergröße\n',
    'utf-16le': 'hello world\nsecond line\n',
    'utf-16be': 'hello world\nsecond line\n',
  };
  for (const [encoding, text] of Object.entries(texts)) {
    put('e.txt', encode(text, encoding));
    assert.equal(await call('read_text_file', { path: 'e.txt' }), text, encoding);
    assert.equal((await call('get_file_info', { path: 'e.txt' })).encoding, encoding);
    assert.equal(await call('read_text_file', { path: 'e.txt', tail: 1 }), text.split('\n')[1], `${encoding} tail`);
    const last = text.split('\n')[1];
    await call('edit_file', { path: 'e.txt', edits: [{ oldText: last, newText: `${last} + ${last}` }] });
    assert.deepEqual(bytes('e.txt'), encode(text.replace(last, () => `${last} + ${last}`), encoding), `${encoding} edited`);
  }
  for (const encoding of ['utf-8', 'utf-16le', 'utf-16be']) {
    put('bom.txt', encode('你好\n', encoding, true));
    assert.equal(await call('read_text_file', { path: 'bom.txt' }), '你好\n');
    await call('edit_file', { path: 'bom.txt', edits: [{ oldText: '你', newText: '您' }] });
    assert.deepEqual(bytes('bom.txt'), encode('您好\n', encoding, true), encoding);
  }
  put('short.txt', encode('你好', 'gb18030'));
  assert.equal(await call('read_text_file', { path: 'short.txt', encoding: 'GB2312' }), '你好');
  await call('write_file', { path: 'w.txt', content: '中文€', encoding: 'gb18030' });
  assert.deepEqual(bytes('w.txt'), encode('中文€', 'gb18030'));
  await refused('write_file', { path: 'w.txt', content: '한', encoding: 'big5' }, 'UNSUPPORTED_ENCODING', /U\+D55C/);
  await refused('read_text_file', { path: 'w.txt', encoding: 'klingon' }, 'UNSUPPORTED_ENCODING');
  put('broken.txt', Buffer.concat([Buffer.from('正确的文字在这里，很多很多'), Buffer.from([0xff]), Buffer.from('还有更多')]));
  assert.match(await call('read_text_file', { path: 'broken.txt' }), /很多很多\ufffd还有/);
  await refused('edit_file', { path: 'broken.txt', edits: [{ oldText: '还有', newText: '没有' }] }, 'UNSUPPORTED_ENCODING', /not clean/);
});

test('binary data is no text', async (t) => {
  const { put, call, refused } = setup(t);
  put('p.png', Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'));
  put('z.bin', Buffer.from([1, 2, 0, 4, 0, 6]));
  put('gif.txt', 'GIF89a is a format\n');
  await refused('read_text_file', { path: 'p.png' }, 'BINARY_FILE', /PNG image, 16 bytes/);
  await refused('read_text_file', { path: 'z.bin', head: 1 }, 'BINARY_FILE');
  await refused('edit_file', { path: 'z.bin', edits: [{ oldText: 'a', newText: 'b' }] }, 'BINARY_FILE');
  assert.equal(await call('read_text_file', { path: 'gif.txt' }), 'GIF89a is a format\n');
  const image = await call('read_media_file', { path: 'p.png' });
  assert.deepEqual(image, { path: 'p.png', mimeType: 'image/png', size: 16, base64: Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex').toString('base64') });
  const other = await call('read_media_file', { path: 'z.bin' });
  assert.equal(other.content[0].resource.blob, 'AQIABAAG');
  assert.match(other.content[0].resource.uri, /^file:\/\/\/.*z\.bin$/);
});

test('several files, each with its own fate', async (t) => {
  const { put, call } = setup(t);
  put('a', 'A');
  put('empty', '');
  const got = await call('read_multiple_files', { paths: ['a', 'missing', 'empty', '/etc/passwd'] });
  assert.deepEqual(got.map((f) => [f.path, f.success, f.content ?? f.code]), [
    ['a', true, 'A'], ['missing', false, 'FILE_NOT_FOUND'], ['empty', true, ''], ['/etc/passwd', false, 'PATH_OUTSIDE_SCOPE'],
  ]);
});

test('writing is whole, keeps the mode and takes empty content', async (t) => {
  const { self, at, put, call, string, refused } = setup(t);
  assert.deepEqual(await call('write_file', { path: 'deep/er/new.txt', content: 'née\n' }), { path: 'deep/er/new.txt', bytesWritten: 5, created: true });
  put('script.sh', 'old');
  chmodSync(at('script.sh'), 0o750);
  assert.deepEqual(await call('write_file', { path: 'script.sh', content: '' }), { path: 'script.sh', bytesWritten: 0, created: false });
  assert.equal(string('script.sh'), '');
  assert.equal(statSync(at('script.sh')).mode & 0o777, 0o750);
  symlinkSync('script.sh', at('link'));
  await call('write_file', { path: 'link', content: 'through' });
  assert.equal(string('script.sh'), 'through');
  assert.ok(lstatSync(at('link')).isSymbolicLink());
  await refused('write_file', { path: 'deep', content: 'x' }, 'IS_A_DIRECTORY');
  await refused('write_file', { path: 'script.sh/x', content: 'x' }, 'NOT_A_DIRECTORY');
  await refused('write_file', { path: 'x' }, 'INVALID_PARAMETERS', /content/);
  await refused('write_file', { path: 'a\0b', content: 'x' }, 'INVALID_PATH');
  await refused('write_file', { path: 'x'.repeat(300), content: 'x' }, 'INVALID_PATH');
  assert.deepEqual(readdirSync(self.data).filter((name) => name.endsWith('.tmp')), []);
});

test('edits are literal', async (t) => {
  const { put, call, string } = setup(t);
  for (const text of ["$& $1 $` $' $$ $<x>", '\\n \\1', '${x} %s', '']) {
    put('e.js', 'before\nTARGET\nafter\n');
    const result = await call('edit_file', { path: 'e.js', edits: [{ oldText: 'TARGET', newText: text }] });
    assert.equal(string('e.js'), `before\n${text}\nafter\n`);
    assert.equal(result.editsApplied, 1);
  }
  put('re.txt', 'a.b a+b [x] (y)\n');
  await call('edit_file', { path: 're.txt', edits: [{ oldText: 'a+b [x]', newText: 'ok' }] });
  assert.equal(string('re.txt'), 'a.b ok (y)\n');
});

test('edits keep line ends', async (t) => {
  const { put, call, string } = setup(t);
  put('crlf.txt', 'one\r\ntwo\r\nthree\r\n');
  await call('edit_file', { path: 'crlf.txt', edits: [{ oldText: 'one\ntwo', newText: 'eins\nzwei\nundmehr' }] });
  assert.equal(string('crlf.txt'), 'eins\r\nzwei\r\nundmehr\r\nthree\r\n');
  await call('edit_file', { path: 'crlf.txt', edits: [{ oldText: 'three', newText: 'drei\nvier' }] });
  assert.equal(string('crlf.txt'), 'eins\r\nzwei\r\nundmehr\r\ndrei\r\nvier\r\n');
  put('lf.txt', 'one\ntwo\n');
  await call('edit_file', { path: 'lf.txt', edits: [{ oldText: 'one\r\ntwo', newText: 'a\r\nb' }] });
  assert.equal(string('lf.txt'), 'a\nb\n');
  put('mixed.txt', 'one\r\ntwo\nthree\r\n');
  await call('edit_file', { path: 'mixed.txt', edits: [{ oldText: 'two', newText: 'x\ny' }] });
  assert.equal(string('mixed.txt'), 'one\r\nx\ny\nthree\r\n');
});

test('an edit must mean one place', async (t) => {
  const { put, call, string, refused } = setup(t);
  put('d.txt', 'x = 1\ny = 2\nx = 1\n');
  await refused('edit_file', { path: 'd.txt', edits: [{ oldText: 'y = 2', newText: 'y = 3' }, { oldText: 'x = 1', newText: 'x = 9' }] }, 'CONFLICT', /edit 2 of 2 occurs 2 times .*lines 1, 3/);
  assert.equal(string('d.txt'), 'x = 1\ny = 2\nx = 1\n', 'all or none');
  await call('edit_file', { path: 'd.txt', edits: [{ oldText: 'x = 1', newText: 'x = $&', replaceAll: true }] });
  assert.equal(string('d.txt'), 'x = $&\ny = 2\nx = $&\n');
  put('aaa', 'aaa');
  await refused('edit_file', { path: 'aaa', edits: [{ oldText: 'aa', newText: 'b' }] }, 'CONFLICT');
  await call('edit_file', { path: 'aaa', edits: [{ oldText: 'aa', newText: 'b', replaceAll: true }] });
  assert.equal(string('aaa'), 'ba');
  await refused('edit_file', { path: 'd.txt', edits: [{ oldText: 'nowhere', newText: '' }] }, 'NO_MATCH');
  await refused('edit_file', { path: 'd.txt', edits: [{ oldText: 'y = 2\nz', newText: '' }] }, 'NO_MATCH', /line 2/);
  await refused('edit_file', { path: 'd.txt', edits: [{ oldText: '', newText: 'x' }] }, 'INVALID_EDIT');
  put('new', '');
  await call('edit_file', { path: 'new', edits: [{ oldText: '', newText: 'x' }] });
  assert.equal(string('new'), 'x');
});

test('an edit with other indentation gets the one that is there', async (t) => {
  const { put, call, string, refused } = setup(t);
  put('f.js', 'class A {\n    go() {\n        return 1;  \n    }\n}\n');
  const result = await call('edit_file', { path: 'f.js', edits: [{ oldText: 'go() {\n    return 1;\n}', newText: 'go() {\n    return 2;\n}' }] });
  assert.equal(string('f.js'), 'class A {\n    go() {\n        return 2;\n    }\n}\n');
  assert.equal(result.notes.length, 1);
  put('twice.js', '  a();\n\ta();\n');
  await refused('edit_file', { path: 'twice.js', edits: [{ oldText: 'a(); ', newText: 'b();' }] }, 'CONFLICT');
});

test('a dry run shows a diff that patch understands, and changes nothing', async (t) => {
  const { self, at, put, call, string } = setup(t);
  const lines = Array.from({ length: 40 }, (_, i) => `line ${i + 1}`);
  const before = lines.join('\n');
  put('d.txt', before);
  const edits = [{ oldText: 'line 3\n', newText: '' }, { oldText: 'line 20', newText: 'LINE 20\nmore' }, { oldText: 'line 40', newText: 'the end\n' }];
  const { diff, dryRun, editsApplied } = await call('edit_file', { path: 'd.txt', edits, dryRun: true });
  assert.deepEqual([dryRun, editsApplied, string('d.txt')], [true, 0, before]);
  assert.match(diff, /^--- a\/d\.txt\n\+\+\+ b\/d\.txt\n@@ -1,6 \+1,5 @@\n line 1\n line 2\n-line 3\n line 4\n/);
  assert.match(diff, /-line 40\n\\ No newline at end of file\n\+the end\n/);
  const want = before.replace('line 3\n', '').replace('line 20', 'LINE 20\nmore').replace('line 40', 'the end\n');
  await call('edit_file', { path: 'd.txt', edits });
  assert.equal(string('d.txt'), want);
  if (spawns('git')) {
    writeFileSync(at('d.txt'), before);
    writeFileSync(path.join(self.__toolDir, 'p.diff'), diff);
    execFileSync('git', ['apply', path.join(self.__toolDir, 'p.diff')], { cwd: self.data, env: { ...process.env, GIT_CEILING_DIRECTORIES: path.dirname(self.__toolDir) } });
    assert.equal(string('d.txt'), want);
  }
});

test('an edit in a long file shows what is around it only', async (t) => {
  const { put, call } = setup(t);
  put('long.txt', Array.from({ length: 200_000 }, (_, i) => `line ${i}\n`).join(''));
  const { diff } = await call('edit_file', { path: 'long.txt', edits: [{ oldText: 'line 100000\n', newText: 'here\n' }] });
  assert.equal(diff, '--- a/long.txt\n+++ b/long.txt\n@@ -99998,7 +99998,7 @@\n line 99997\n line 99998\n line 99999\n-line 100000\n+here\n line 100001\n line 100002\n line 100003\n');
});

function spawns(command) {
  try {
    execFileSync(command, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

test('paths do not leave the allowed directories', async (t) => {
  const { self, at, put, refused, call } = setup(t);
  const outside = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'toolyard-outside-')));
  t.after(() => rmSync(outside, { recursive: true, force: true }));
  writeFileSync(path.join(outside, 'secret'), 'secret');
  symlinkSync(path.join(outside, 'secret'), at('link'));
  symlinkSync(outside, at('dir'));
  symlinkSync(path.join(outside, 'fresh'), at('dangling'));
  mkdirSync(`${self.data}-sibling`);
  put('in', 'in');
  const attempts = [
    ['read_text_file', { path: '/etc/passwd' }], ['read_text_file', { path: '../package.json' }], ['read_text_file', { path: `${self.data}-sibling/x` }],
    ['read_text_file', { path: 'link' }], ['read_media_file', { path: 'dir/secret' }], ['get_file_info', { path: 'link' }],
    ['write_file', { path: 'link', content: 'x' }], ['write_file', { path: 'dir/new', content: 'x' }], ['write_file', { path: 'dangling', content: 'x' }],
    ['write_file', { path: 'dir/a/b', content: 'x' }], ['edit_file', { path: 'link', edits: [{ oldText: 'secret', newText: 'x' }] }],
    ['create_directory', { path: 'dir/new' }], ['create_directory', { path: '../new' }], ['create_directory', { path: 'dangling/x' }],
    ['list_directory', { path: 'dir' }], ['directory_tree', { path: 'dir' }], ['search_files', { path: 'dir', pattern: '*' }],
    ['move_file', { source: 'dir/secret', destination: 'mine' }], ['move_file', { source: 'in', destination: 'dir/in' }], ['move_file', { source: 'in', destination: '../in' }],
    ['list_directory_with_sizes', { path: '..' }],
  ];
  for (const [method, params] of attempts) await refused(method, params, 'PATH_OUTSIDE_SCOPE');
  assert.deepEqual(readdirSync(outside), ['secret']);
  assert.equal(readFileSync(path.join(outside, 'secret'), 'utf8'), 'secret');
  assert.deepEqual(await call('list_directory', { path: '.' }), [
    { name: 'dangling', type: 'symlink', symlink: true }, { name: 'dir', type: 'symlink', symlink: true },
    { name: 'in', type: 'file' }, { name: 'link', type: 'symlink', symlink: true },
  ]);
  assert.deepEqual(await call('search_files', { path: '.', pattern: 'secret' }), []);
});

test('a directory that becomes a link during a call leads nowhere', async (t) => {
  const { at, call, put } = setup(t);
  const outside = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'toolyard-outside-')));
  t.after(() => rmSync(outside, { recursive: true, force: true }));
  writeFileSync(path.join(outside, 'f'), 'secret');
  put('d/f', 'mine');
  symlinkSync(outside, at('evil'));
  // Between any two steps of a call the directory is now one, now the other; and
  // write_file may make it where there is none.
  const swapIn = (from, to) => {
    for (let tries = 0; ; tries++) {
      try { return renameSync(from, to); } catch (error) { if (tries > 1000) throw error; }
      rmSync(to, { recursive: true, force: true });
    }
  };
  let swapping = true;
  const swap = (async () => {
    while (swapping) {
      swapIn(at('d'), at('aside'));
      swapIn(at('evil'), at('d'));
      await new Promise(setImmediate);
      swapIn(at('d'), at('evil'));
      swapIn(at('aside'), at('d'));
      await new Promise(setImmediate);
    }
  })();
  const seen = { read: 0, wrote: 0, refused: 0 };
  for (let i = 0; i < 120; i++) {
    const read = await call('read_text_file', { path: 'd/f' }).catch((error) => error);
    assert.notEqual(read, 'secret');
    await call('write_file', { path: 'd/g', content: 'x' }).then(() => seen.wrote++, () => seen.refused++);
    if (read === 'mine' || read === 'x') seen.read++;
    await new Promise(setImmediate);
  }
  swapping = false;
  await swap;
  assert.deepEqual(readdirSync(outside), ['f'], JSON.stringify(seen));
  assert.equal(readFileSync(path.join(outside, 'f'), 'utf8'), 'secret');
});

test('where there is no /proc, paths do not leave either', async (t) => {
  const { self, at, put, string } = setup(t);
  const guard = new Guard(self, { descriptors: false });
  const outside = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'toolyard-outside-')));
  t.after(() => rmSync(outside, { recursive: true, force: true }));
  writeFileSync(path.join(outside, 'secret'), 'secret');
  symlinkSync(outside, at('dir'));
  const write = async (name, content) => {
    const dir = await guard.parent(name, { follow: true, create: true });
    try { await replace(dir, Buffer.from(content), name); } finally { await dir.handle.close(); }
  };
  await write('a/b/c.txt', 'one');
  await write('a/b/c.txt', 'two');
  assert.equal(string('a/b/c.txt'), 'two');
  await move(guard, 'a/b', 'x/y');
  await move(guard, 'x/y/c.txt', 'c.txt');
  assert.equal(string('c.txt'), 'two');
  assert.deepEqual((await list(guard, '.')).map(({ name }) => name), ['a', 'c.txt', 'dir', 'x']);
  assert.deepEqual(await find(guard, '.', { pattern: '*.txt' }), [at('c.txt')]);
  for (const attempt of [() => guard.file('dir/secret'), () => write('dir/new', 'x'), () => move(guard, 'c.txt', 'dir/c.txt'), () => list(guard, 'dir'), () => guard.ensure(guard.lexical('dir/sub'), 'dir/sub', true)]) {
    await assert.rejects(attempt, { code: 'PATH_OUTSIDE_SCOPE' });
  }
  // What was opened is another thing than what is there now.
  put('f', 'mine');
  const opened = await guard.file('f');
  renameSync(at('f'), at('g'));
  put('f', 'other');
  await assert.rejects(guard.verify(opened.handle, at('f'), 'f'), { code: 'PATH_OUTSIDE_SCOPE' });
  assert.deepEqual(readdirSync(outside), ['secret']);
});

test('what is no regular file is not read', { skip: process.platform === 'win32' && 'no named pipes' }, async (t) => {
  const { at, refused } = setup(t);
  if (!spawns('mkfifo')) return t.skip('no mkfifo');
  execFileSync('mkfifo', [at('pipe')]);
  await refused('read_text_file', { path: 'pipe' }, 'NOT_A_FILE');
  await refused('write_file', { path: 'pipe', content: 'x' }, 'NOT_A_FILE');
});

test('lists', async (t) => {
  const { at, put, call, refused } = setup(t);
  put('b.txt', '12345');
  put('a/inner.txt', '1');
  put('c.txt', '1');
  symlinkSync('a', at('to-a'));
  linkSync(at('c.txt'), at('d.txt'));
  assert.deepEqual(await call('list_directory', { path: '.' }), [
    { name: 'a', type: 'directory' }, { name: 'b.txt', type: 'file' }, { name: 'c.txt', type: 'file' }, { name: 'd.txt', type: 'file' },
    { name: 'to-a', type: 'directory', symlink: true },
  ]);
  const sized = await call('list_directory_with_sizes', { path: '.', sortBy: 'size' });
  assert.deepEqual(sized.map(({ name, size }) => [name, size]), [['b.txt', 5], ['c.txt', 1], ['d.txt', 1], ['a', null], ['to-a', null]]);
  assert.match(sized[0].modified, /^\d{4}-\d\d-\d\dT/);
  await refused('list_directory', { path: 'b.txt' }, 'NOT_A_DIRECTORY');
  mkdirSync(at('empty'));
  assert.deepEqual(await call('list_directory', { path: 'empty' }), []);
});

test('trees are bounded', async (t) => {
  const { at, put, call } = setup(t);
  put('src/a.js', '');
  put('src/lib/b.js', '');
  put('node_modules/x/y.js', '');
  symlinkSync('..', at('src/up'));
  assert.deepEqual(await call('directory_tree', { path: '.', excludePatterns: ['node_modules'] }), [
    { name: 'src', type: 'directory', children: [
      { name: 'a.js', type: 'file' }, { name: 'lib', type: 'directory', children: [{ name: 'b.js', type: 'file' }] }, { name: 'up', type: 'symlink' },
    ] },
  ]);
  const flat = await call('directory_tree', { path: '.', maxDepth: 1 });
  assert.deepEqual(flat.map(({ name, truncated }) => [name, truncated]), [['node_modules', true], ['src', true]]);
  const cut = JSON.stringify(await call('directory_tree', { path: '.', maxEntries: 3 }));
  assert.match(cut, /truncated/);
});

test('searches', async (t) => {
  const { at, put, call, refused } = setup(t);
  for (const name of ['README.md', 'src/main.js', 'src/deep/util.js', 'src/deep/util.test.js', 'node_modules/x/main.js', 'docs/a b.md', '.hidden/x.md']) put(name, '');
  const find = async (pattern, more = {}) => (await call('search_files', { path: '.', pattern, ...more })).map((file) => path.relative(at('.'), file)).sort();
  const cases = [
    ['*.md', {}, ['.hidden/x.md', 'README.md', 'docs/a b.md']],
    ['**/*.js', { excludePatterns: ['node_modules'] }, ['src/deep/util.js', 'src/deep/util.test.js', 'src/main.js']],
    ['src/*.js', {}, ['src/main.js']],
    ['src/**/*.js', { excludePatterns: ['*.test.js'] }, ['src/deep/util.js', 'src/main.js']],
    ['**/deep', {}, ['src/deep']],
    ['readme', {}, ['README.md']],
    ['main.?s', { excludePatterns: ['node_modules/**'] }, ['src/main.js']],
    ['{README,a b}.md', {}, ['README.md', 'docs/a b.md']],
    ['util.[jt]s', {}, ['src/deep/util.js']],
    ['*.rs', {}, []],
    ['a.b', {}, []],
  ];
  for (const [pattern, more, want] of cases) assert.deepEqual(await find(pattern, more), want, pattern);
  const cut = await call('search_files', { path: '.', pattern: '*', maxResults: 2 });
  assert.deepEqual([cut.truncated, cut.matches.length], [true, 2]);
  await refused('search_files', { path: '.', pattern: '{a,b}'.repeat(12) }, 'INVALID_PATTERN');
  await refused('search_files', { path: 'README.md', pattern: '*' }, 'NOT_A_DIRECTORY');
  const start = Date.now();
  put(`x/${'a'.repeat(200)}`, '');
  assert.deepEqual(await find(`${'*a'.repeat(100)}b`), []);
  assert.ok(Date.now() - start < 2000, 'a hard pattern takes no longer');
});

test('moves never overwrite', async (t) => {
  const { at, put, call, string, refused } = setup(t);
  put('a', 'A');
  put('b', 'B');
  put('dir/x', 'X');
  mkdirSync(at('empty'));
  symlinkSync('a', at('link'));
  for (const [source, destination] of [['a', 'b'], ['a', 'a'], ['a', 'dir'], ['dir', 'b'], ['dir', 'empty'], ['a', 'link']]) {
    await refused('move_file', { source, destination }, 'ALREADY_EXISTS');
  }
  await refused('move_file', { source: 'dir', destination: 'dir/inside' }, 'INVALID_PATH');
  await refused('move_file', { source: 'none', destination: 'c' }, 'FILE_NOT_FOUND');
  assert.deepEqual([string('a'), string('b'), string('dir/x')], ['A', 'B', 'X']);
  assert.deepEqual(await call('move_file', { source: 'a', destination: 'sub/c' }), { from: 'a', to: 'sub/c' });
  assert.deepEqual([existsSync(at('a')), string('sub/c')], [false, 'A']);
  await call('move_file', { source: 'dir', destination: 'moved' });
  assert.deepEqual([existsSync(at('dir')), string('moved/x')], [false, 'X']);
  await call('move_file', { source: 'link', destination: 'moved/link' });
  assert.equal(readlinkSync(at('moved/link')), 'a');
  put('race', 'R');
  const results = await Promise.allSettled([1, 2, 3, 4].map((n) => {
    put(`r${n}`, `${n}`);
    return call('move_file', { source: `r${n}`, destination: 'winner' });
  }));
  assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
  assert.equal(readdirSync(at('.')).filter((name) => /^r\d$/.test(name)).length, 3);
});

test('information about a file', async (t) => {
  const { at, put, call } = setup(t);
  put('f.txt', 'a\r\nb\r\n');
  chmodSync(at('f.txt'), 0o640);
  symlinkSync('f.txt', at('l'));
  const info = await call('get_file_info', { path: 'f.txt' });
  assert.deepEqual([info.size, info.isFile, info.isDirectory, info.mode, info.encoding, info.lineEnds, info.byteOrderMark], [6, true, false, '0640', 'utf-8', 'crlf', false]);
  assert.equal(info.permissions & 0o777, 0o640);
  assert.deepEqual((({ isSymbolicLink, target, size }) => [isSymbolicLink, target, size])(await call('get_file_info', { path: 'l' })), [true, 'f.txt', 6]);
  assert.equal((await call('get_file_info', { path: '.' })).isDirectory, true);
});

test('directories', async (t) => {
  const { self, at, put, call, refused } = setup(t);
  assert.deepEqual(await call('list_allowed_directories'), [self.data]);
  await call('create_directory', { path: 'a/b/c' });
  await call('create_directory', { path: 'a/b/c' });
  assert.ok(statSync(at('a/b/c')).isDirectory());
  put('file', '');
  await refused('create_directory', { path: 'file/x' }, 'NOT_A_DIRECTORY');
  await refused('create_directory', { path: 'file' }, 'NOT_A_DIRECTORY');
  rmSync(self.data, { recursive: true });
  assert.deepEqual(await call('list_directory', { path: '.' }), [], 'its own data/ is made again');
});

test('a call can be cancelled', async (t) => {
  const { self, call } = setup(t);
  const stop = new AbortController();
  self.api.signal = stop.signal;
  stop.abort(new Error('cancelled by the caller'));
  await assert.rejects(call('search_files', { path: '.', pattern: '*' }), /cancelled by the caller/);
});

test('wrong parameters are named', async (t) => {
  const { self, refused } = setup(t);
  await refused('remove_everything', {}, 'INVALID_PARAMETERS', /method/);
  await refused('read_text_file', {}, 'INVALID_PARAMETERS', /path/);
  await refused('move_file', { source: 'a' }, 'INVALID_PARAMETERS', /destination/);
  await refused('edit_file', { path: 'a', edits: [{ oldText: 'x' }] }, 'INVALID_PARAMETERS', /newText/);
  await rejects(assert, tool, self.execute(undefined), 'INVALID_PARAMETERS');
  delete self.validateParameters;
  await rejects(assert, tool, self.execute({ method: 'write_file', path: 'x' }), 'INVALID_PARAMETERS', /content/);
});

test('truncated files of the kind that is written while it is read', async (t) => {
  const { at, put, call } = setup(t);
  put('log', 'a\nb\nc\n');
  truncateSync(at('log'), 3);
  assert.equal(await call('read_text_file', { path: 'log', tail: 1 }), 'b');
});
