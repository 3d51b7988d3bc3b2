import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import zlib from 'node:zlib';
import tool from './pdf-reader.tool.js';
import { date } from './lib/document.js';
import { pageNumbers } from './lib/pages.js';
import { pdf } from './make-pdf.js';

let dir;
const progress = [];
before(async () => { dir = await mkdtemp(path.join(os.tmpdir(), 'pdf-reader-')); });
after(() => rm(dir, { recursive: true, force: true }));

/** call gives the structured result; whole runs the tool as the runtime would, with dir as its folder and only allowed directory. */
async function call(params, signal) {
  const { content, structuredContent } = await whole(params, signal).then((r) => (r.structuredContent ? r : { structuredContent: r }));
  if (content) assert.equal(content[0].type, 'text');
  return structuredContent;
}

async function whole(params, signal) {
  progress.length = 0;
  const self = {
    ...tool,
    __toolDir: dir,
    resolvePath(p) {
      const full = path.resolve(dir, p);
      if (!full.startsWith(dir + path.sep)) throw Object.assign(new Error(`permission denied: ${p} is not in the allowed directories [${dir}]`), { code: 'EACCES' });
      return full;
    },
    api: { signal, progress: (...report) => progress.push(report), logger: { debug() {} } },
  };
  return self.execute({ method: 'read_pdf', ...params });
}

async function file(name, bytes) {
  const full = path.join(dir, name);
  await writeFile(full, bytes);
  return full;
}

const failed = (code, says) => (error) => {
  assert.equal(error.code, code, error.stack);
  assert.match(error.message, says);
  const known = tool.getBusinessErrors().find((e) => e.match.test(error.message));
  assert.equal(known?.code, code === 'EACCES' ? 'PATH_OUTSIDE_SCOPE' : code);
  return true;
};

test('metadata without pages', async () => {
  const pdfPath = await file('a.pdf', pdf({ pages: [{ text: ['one'] }, {}, {}], info: { Title: 'A (title)', Author: 'Ann', CreationDate: "D:20240131120000+01'00'" } }));
  const { metadata, content, message } = await call({ pdfPath });
  assert.equal(content, undefined);
  assert.equal(metadata.totalPages, 3);
  assert.equal(metadata.title, 'A (title)');
  assert.equal(metadata.author, 'Ann');
  assert.equal(metadata.createdAt, '2024-01-31T12:00:00+01:00');
  assert.equal(metadata.encrypted, false);
  assert.match(message, /3 pages/);
});

test('each page has its own text, whatever its length', async () => {
  const pages = [{ text: Array.from({ length: 30 }, (_, i) => `first page line ${i}`) }, {}, { text: ['third'] }, { text: ['fourth \\ (x)'] }];
  const pdfPath = await file('b.pdf', pdf({ pages }));
  const { content, metadata } = await call({ pdfPath, pages: [3, 1, 2, 4], perPage: true });
  assert.deepEqual(metadata.requestedPages, [3, 1, 2, 4]);
  assert.deepEqual(content.pages.map((p) => p.page), [3, 1, 2, 4]);
  assert.equal(content.pages[0].text, 'third');
  assert.equal(content.pages[1].text, pages[0].text.join('\n'));
  assert.equal(content.pages[2].text, '');
  assert.equal(content.pages[2].hasText, false);
  assert.equal(content.pages[3].text, 'fourth \\ (x)');
  assert.deepEqual(progress.at(-1), [4, 4, 'page 4']);
  const joined = await call({ pdfPath: 'b.pdf', pages: '3-' });
  assert.equal(joined.content.text, '=== Page 3 ===\nthird\n\n=== Page 4 ===\nfourth \\ (x)');
  const read = await whole({ pdfPath: 'b.pdf', pages: '2-3' });
  assert.equal(read.content[0].text, '=== Page 2 ===\n\n\n=== Page 3 ===\nthird\n\n[4 pages in all; page 2 has no text]');
});

test('a page tree that lies about its length', async () => {
  const pdfPath = await file('lies.pdf', pdf({ pages: [{ text: ['x'] }, { text: ['y'] }], count: 900 }));
  assert.equal((await call({ pdfPath })).metadata.totalPages, 2);
});

test('text in a predefined Chinese encoding', async () => {
  const pdfPath = await file('zh.pdf', pdf({ pages: [{ chinese: '你好，世界' }] }));
  assert.match((await call({ pdfPath, pages: 1 })).content.text, /你好，世界/);
});

const rgb = Buffer.from([255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 9, 9, 9]);

test('images become PNG files, each once', async () => {
  const pdfPath = await file('img.pdf', pdf({ pages: [{ image: { width: 3, height: 2, rgb } }, { text: ['none'] }] }));
  const listed = await call({ method: 'list_images', pdfPath });
  assert.deepEqual(listed.images, [{ page: 1, index: 0, width: 3, height: 2, inline: false }]);
  const { content, cache } = await call({ pdfPath, pages: '1-2' });
  assert.equal(content.imageCount, 1);
  assert.deepEqual(cache, { hits: 0, misses: 1 });
  const [image] = content.pages[0].images;
  assert.deepEqual([image.width, image.height], [3, 2]);
  assert.equal(path.dirname(image.path), content.imagesDirectory);
  assert.deepEqual(pixels(await readFile(image.path)), [...rgb]);
  assert.deepEqual((await call({ pdfPath, pages: 1 })).cache, { hits: 1, misses: 0 });
  assert.deepEqual((await call({ pdfPath, pages: 1, forceRefresh: true })).cache, { hits: 0, misses: 1 });
  assert.equal((await call({ pdfPath, pages: 1, extractImages: false })).content.hasImages, false);
});

/** pixels reads a PNG of ours: 8 bits RGB or RGBA, no filters; alpha is left out. */
function pixels(bytes) {
  assert.equal(bytes.readUInt32BE(0), 0x89504e47);
  const [width, height, color] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20), bytes[25]];
  const size = color === 6 ? 4 : 3;
  const length = bytes.readUInt32BE(33);
  assert.equal(bytes.toString('latin1', 37, 41), 'IDAT');
  const raw = zlib.inflateSync(bytes.subarray(41, 41 + length));
  const out = [];
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) out.push(...raw.subarray(y * (width * size + 1) + 1 + x * size).subarray(0, 3));
  return out;
}

test('images of old documents go', async () => {
  for (let i = 0; i < 12; i++) {
    const pdfPath = await file('many.pdf', pdf({ pages: [{ image: { width: 3, height: 2, rgb: Buffer.alloc(18, i) } }] }));
    await call({ pdfPath, pages: 1 });
  }
  assert.ok((await readdir(path.join(dir, 'data', 'images'))).length <= 10);
});

test('encrypted files', async () => {
  const pdfPath = await file('secret.pdf', pdf({ pages: [{ text: ['hidden'] }], info: { Title: 'T' }, password: 'open sesame' }));
  await assert.rejects(call({ pdfPath }), failed('PDF_ENCRYPTED', /needs a password/));
  await assert.rejects(call({ pdfPath, password: 'wrong' }), failed('WRONG_PASSWORD', /does not open/));
  const { content } = await call({ pdfPath, password: 'open sesame', pages: 1 });
  assert.match(content.text, /hidden/);
  assert.equal((await call({ pdfPath, password: 'open sesame' })).metadata.encrypted, true);
});

test('what is no PDF, or a broken one', async () => {
  await assert.rejects(call({ pdfPath: await file('empty.pdf', '') }), failed('INVALID_PDF', /empty \(0 bytes\)/));
  await assert.rejects(call({ pdfPath: await file('text.pdf', 'hello, this is no pdf at all') }), failed('INVALID_PDF', /does not begin like/));
  await assert.rejects(call({ pdfPath: await file('head.pdf', '%PDF-1.7\n') }), failed('INVALID_PDF', /broken|no pages/));
  const whole = pdf({ pages: [{ text: ['one'] }, { text: ['two'] }] });
  const noTable = Buffer.from(whole.toString('latin1').replace(/xref[^]*$/, ''), 'latin1');
  const repaired = await call({ pdfPath: await file('notable.pdf', noTable), pages: '1-2', perPage: true }).catch((e) => e);
  if (repaired instanceof Error) assert.equal(repaired.code, 'INVALID_PDF');
  else assert.deepEqual(repaired.content.pages.map((p) => p.text), ['one', 'two']);
  await assert.rejects(call({ pdfPath: await file('cut.pdf', whole.subarray(0, 60)) }), failed('INVALID_PDF', /broken|no pages/));
});

test('paths', async () => {
  await assert.rejects(call({ pdfPath: path.join(dir, 'absent.pdf') }), failed('FILE_NOT_FOUND', /absent\.pdf/));
  await assert.rejects(call({ pdfPath: '../../etc/passwd' }), failed('EACCES', /not in the allowed directories/));
  await symlink(dir, path.join(dir, 'folder.pdf'));
  await assert.rejects(call({ pdfPath: 'folder.pdf' }), failed('INVALID_PATH', /is a directory/));
  await assert.rejects(call({ pdfPath: 'file:///etc/passwd' }), failed('INVALID_PATH', /no http or https/));
});

test('pages', async () => {
  const pdfPath = await file('c.pdf', pdf({ pages: [{}, {}, {}] }));
  for (const pages of [0, 4, [1, 4], '4', '2-4', '0-1']) await assert.rejects(call({ pdfPath, pages }), failed('PAGE_OUT_OF_RANGE', /1 to 3/), String(pages));
  for (const pages of ['x', '1,,2', '-', '3-1', '1-2-3', '']) await assert.rejects(call({ pdfPath, pages }), failed('INVALID_PARAMETERS', /pages/), pages);
  assert.deepEqual(pageNumbers('5-6, 1, -2,9-', 10), [5, 6, 1, 2, 9, 10]);
  assert.deepEqual(pageNumbers([2, 2, 1], 3), [2, 1]);
  await assert.rejects(call({ pdfPath, method: 'write_pdf' }), failed('INVALID_PARAMETERS', /write_pdf/));
  await assert.rejects(call({ pdfPath: undefined }), failed('INVALID_PARAMETERS', /pdfPath/));
});

test('addresses', async () => {
  const bytes = pdf({ pages: [{ text: ['from the net'] }] });
  const server = createServer((request, answer) => {
    if (request.url.startsWith('/a.pdf')) answer.end(bytes);
    else if (request.url === '/cut.pdf') { answer.writeHead(200, { 'content-length': bytes.length }); answer.write(bytes.subarray(0, 10)); setImmediate(() => answer.destroy()); }
    else if (request.url === '/refused') answer.writeHead(403, 'network: x.test:80 is not allowed: no domain is').end('as the sandbox does\n');
    else answer.writeHead(404).end();
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const base = `http://127.0.0.1:${server.address().port}`;
  try {
    assert.match((await call({ pdfPath: `${base}/a.pdf?token=s3cret`, pages: 1 })).content.text, /from the net/);
    await assert.rejects(call({ pdfPath: `${base}/b.pdf?token=s3cret` }), (e) => failed('DOWNLOAD_FAILED', /404/)(e) && !e.message.includes('s3cret'));
    await assert.rejects(call({ pdfPath: `${base}/refused` }), failed('NETWORK_NOT_GRANTED', /no domain is; to grant it: toolyard toolbox grant pdf-reader --net 127/));
    await assert.rejects(call({ pdfPath: `${base}/cut.pdf` }), failed('DOWNLOAD_FAILED', /cut\.pdf/));
  } finally {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  }
  await assert.rejects(call({ pdfPath: `${base}/a.pdf` }), failed('DOWNLOAD_FAILED', /grant pdf-reader --net 127\.0\.0\.1/));
});

test('a call that is cancelled', async () => {
  const pdfPath = await file('d.pdf', pdf());
  await assert.rejects(call({ pdfPath, pages: 1 }, AbortSignal.abort(new Error('stop'))), /stop/);
});

test('outline and dates', async () => {
  const pdfPath = await file('e.pdf', pdf({ info: { Title: ' ' } }));
  const { metadata, outline } = await call({ method: 'get_metadata', pdfPath });
  assert.equal(metadata.title, null);
  assert.deepEqual(outline, []);
  assert.equal(date('D:2024'), '2024-01-01T00:00:00Z');
  assert.equal(date('D:20241301'), null);
  assert.equal(date(undefined), null);
});
