import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import tool from './playwright.tool.js';
import { confined, executable } from './lib/session.js';

const pages = {
  '/': '<title>Home</title><h1>Hello 世界</h1><a href="/two">two</a><p id=made></p><script>made.textContent = "made by " + "script"</script>',
  '/two': '<title>Two</title><p>second page</p>',
  '/form': '<title>Form</title><form action="/sent"><input name=who><input name=off disabled><select name=s><option value=a>A<option value=b>B</select><button>Send</button></form><div style="display:none" id=hidden>x</div><i class=many></i><i class=many></i>',
  '/popup': '<title>Popup</title><button onclick="window.open(\'/two\')">open</button><button id=d onclick="alert(\'hi\')">alert</button>',
  '/csp': '<title>CSP</title><p>strict</p>',
  '/slow': '<title>Slow</title><img src="/never">',
  '/file': 'bytes',
};

let server;
let base;
let dir;
before(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), 'playwright-'));
  server = createServer((request, answer) => {
    const { pathname, searchParams } = new URL(request.url, 'http://x');
    if (pathname === '/never') return;
    if (pathname === '/refused') return answer.writeHead(403, 'network: x.test:80 is not among the allowed domains (y.test)').end('as the sandbox does\n');
    if (pathname === '/sent') return answer.setHeader('content-type', 'text/html').end(`<title>Sent</title>${searchParams.get('who')}/${searchParams.get('s')}`);
    if (pathname === '/csp') answer.setHeader('content-security-policy', "script-src 'self'");
    if (pathname === '/file') answer.setHeader('content-disposition', 'attachment; filename=a.bin');
    answer.writeHead(pages[pathname] === undefined ? 404 : 200, { 'content-type': 'text/html; charset=utf-8' }).end(pages[pathname] ?? 'nothing');
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  base = `http://127.0.0.1:${server.address().port}`;
});
after(async () => {
  await call({ method: 'close' });
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  await rm(dir, { recursive: true, force: true });
});

const reported = [];
function call(params, { env = {}, signal } = {}) {
  // These tests run outside of Toolyard's sandbox, perhaps as root, for whom Chromium has no sandbox of its own.
  const all = { CHROMIUM: process.env.CHROMIUM, PLAYWRIGHT_UNSANDBOXED_TESTS: 'true', ...env };
  const self = {
    ...tool,
    __toolDir: dir,
    resolvePath(p) {
      const full = path.resolve(dir, 'data', p);
      if (!full.startsWith(path.join(dir, 'data') + path.sep)) throw Object.assign(new Error(`permission denied: ${p} is not in the allowed directories`), { code: 'EACCES' });
      return full;
    },
    api: { signal, progress: (...p) => reported.push(p), environment: { get: (name) => all[name] }, logger: { debug() {} } },
  };
  return self.execute(params);
}

const failed = (code, says) => (error) => {
  assert.equal(error.code, code, error.stack);
  assert.match(error.message, says);
  assert.equal(tool.getBusinessErrors().find((e) => e.match.test(error.message))?.code, code === 'EACCES' ? 'PATH_OUTSIDE_SCOPE' : code);
  return true;
};
const soon = { timeout: 1000 };

test('nothing is open at first', async () => {
  await assert.rejects(call({ method: 'getText' }), failed('NO_PAGE', /none is open/));
});

test('a page, and the way through several', async () => {
  const got = await call({ method: 'navigate', url: `${base}/` });
  assert.deepEqual([got.title, got.status, got.url], ['Home', 200, `${base}/`]);
  assert.match(reported.at(-1)[2], /^opening http/);
  assert.match((await call({ method: 'getText' })).text, /Hello 世界[^]*made by script/);
  const html = await call({ method: 'getContent', selector: 'h1' });
  assert.match(html.content[0].text, /^<h1>Hello/);
  assert.equal(html.structuredContent.content, html.content[0].text);
  assert.equal((await call({ method: 'click', selector: 'text=two' })).url, `${base}/two`);
  assert.equal((await call({ method: 'getTitle' })).title, 'Two');
  assert.deepEqual(await call({ method: 'goBack' }), { success: true, url: `${base}/`, moved: true });
  assert.equal((await call({ method: 'goForward' })).url, `${base}/two`);
  assert.equal((await call({ method: 'reload' })).title, 'Two');
  assert.equal((await call({ method: 'getText', url: `${base}/` })).title, 'Home');
  assert.equal((await call({ method: 'getUrl' })).url, `${base}/`);
  assert.equal((await call({ method: 'navigate', url: `${base}/absent` })).status, 404);
});

test('a form', async () => {
  await call({ method: 'navigate', url: `${base}/form` });
  assert.deepEqual(await call({ method: 'fill', selector: '[name=who]', text: "x'; alert(1) //" }), { success: true, selector: '[name=who]', length: 15 });
  assert.deepEqual((await call({ method: 'select', selector: 'select', values: ['b'] })).selected, ['b']);
  await call({ method: 'press', selector: '[name=who]', key: 'Enter' });
  assert.match((await call({ method: 'getText' })).text, /x'; alert\(1\) \/\/\/b/);
});

test('elements that are not there, or cannot be used', async () => {
  await call({ method: 'navigate', url: `${base}/form` });
  await assert.rejects(call({ method: 'click', selector: '#absent', options: soon }), failed('ELEMENT_NOT_FOUND', /#absent/));
  await assert.rejects(call({ method: 'click', selector: '#hidden', options: soon }), failed('ELEMENT_NOT_READY', /not visible/));
  await assert.rejects(call({ method: 'fill', selector: '[name=off]', text: 'x', options: soon }), failed('ELEMENT_NOT_READY', /not enabled/));
  await assert.rejects(call({ method: 'fill', selector: 'button', text: 'x', options: soon }), failed('ELEMENT_NOT_READY', /not an/));
  await assert.rejects(call({ method: 'waitForSelector', selector: '#later', options: soon }), failed('ELEMENT_NOT_FOUND', /#later/));
  await assert.rejects(call({ method: 'click', selector: '>>>[', options: soon }), failed('INVALID_SELECTOR', />>>\[/));
  assert.equal((await call({ method: 'getTitle' })).title, 'Form'); // the page is still there
});

test('scripts', async () => {
  await call({ method: 'navigate', url: `${base}/` });
  const result = async (script) => (await call({ method: 'evaluate', script })).result;
  assert.equal(await result('document.title'), 'Home');
  assert.deepEqual(await result('const a = [1, 2]; return { n: a.length, t: document.title }'), { n: 2, t: 'Home' });
  assert.equal(await result('await new Promise(r => setTimeout(r, 10, 7))'), 7);
  assert.equal(await result('() => 6 * 7'), 42);
  assert.equal(await result('undefined'), null);
  assert.equal(await result('10n ** 20n'), '100000000000000000000');
  assert.equal(await result('({a: 1})').then((r) => r.a), 1);
  await assert.rejects(call({ method: 'evaluate', script: 'nope()' }), failed('SCRIPT_FAILED', /nope is not defined/));
  await assert.rejects(call({ method: 'evaluate', script: 'if (' }), failed('SCRIPT_FAILED', /SyntaxError|Unexpected/));
  await assert.rejects(call({ method: 'evaluate', script: '"x".repeat(2e6)' }), failed('RESULT_TOO_LARGE', /2000002/));
  await call({ method: 'navigate', url: `${base}/csp` });
  assert.equal(await result('document.title'), 'CSP');
});

test('a page that is busy for ever ends with its browser', async () => {
  await call({ method: 'navigate', url: `${base}/` });
  await assert.rejects(call({ method: 'evaluate', script: 'while (true);', options: { timeout: 300 } }), failed('TIMEOUT', /ended/));
  assert.equal((await call({ method: 'navigate', url: `${base}/two` })).title, 'Two');
});

test('screenshots', async () => {
  await call({ method: 'navigate', url: `${base}/` });
  const shot = await call({ method: 'screenshot', fullPage: true });
  const [image] = shot.content;
  assert.equal(image.mimeType, 'image/png');
  assert.deepEqual(await readFile(shot.structuredContent.path), Buffer.from(image.data, 'base64'));
  assert.equal(Buffer.from(image.data, 'base64').readUInt32BE(0), 0x89504e47);
  const small = await call({ method: 'screenshot', selector: 'h1', screenshotPath: 'sub/a.jpg' });
  assert.equal(small.structuredContent.path, path.join(dir, 'data', 'sub', 'a.jpg'));
  assert.equal((await readFile(small.structuredContent.path)).readUInt16BE(0), 0xffd8);
  await assert.rejects(call({ method: 'screenshot', screenshotPath: '../../x.png' }), failed('EACCES', /allowed directories/));
  for (let i = 0; i < 60; i++) await writeFile(path.join(dir, 'data', 'screenshots', `screenshot-${i}.png`), '');
  await call({ method: 'screenshot' });
  assert.equal((await readdir(path.join(dir, 'data', 'screenshots'))).length, 50);
});

test('popups, dialogs and downloads are named', async () => {
  await call({ method: 'navigate', url: `${base}/popup` });
  const notes = [];
  for (const selector of ['text=open', '#d']) notes.push(...(await call({ method: 'click', selector })).notes ?? []);
  for (let i = 0; i < 50 && notes.length < 2; i++) notes.push(...(await call({ method: 'getTitle' })).notes ?? []);
  assert.match(notes.join('\n'), /opened another one/);
  assert.match(notes.join('\n'), /dialog \(alert\), which was dismissed: hi/);
  assert.equal((await call({ method: 'getTitle' })).title, 'Popup');
  await assert.rejects(call({ method: 'navigate', url: `${base}/file` }), (e) => ['NAVIGATION_FAILED', 'BROWSER_ERROR'].includes(e.code) && /download/i.test(e.message));
});

test('pages that cannot be opened', async () => {
  await assert.rejects(call({ method: 'navigate', url: 'http://127.0.0.1:1/?token=s3cret' }), (e) => failed('NAVIGATION_FAILED', /ERR_/)(e) && !e.message.includes('s3cret'));
  await assert.rejects(call({ method: 'getText' }), failed('NO_PAGE', /none is open/));
  await assert.rejects(call({ method: 'navigate', url: `${base}/slow`, options: { timeout: 500 } }), failed('TIMEOUT', /slow/));
  assert.equal((await call({ method: 'navigate', url: `${base}/slow`, options: { waitUntil: 'domcontentloaded' } })).title, 'Slow');
  await assert.rejects(call({ method: 'navigate', url: `${base}/refused` }), failed('NETWORK_NOT_GRANTED', /x\.test:80 is not among.*grant playwright --net 127/));
  for (const url of ['file:///etc/passwd', 'chrome://version', 'javascript:alert(1)', 'example.org', 'view-source:http://x']) {
    await assert.rejects(call({ method: 'navigate', url }), failed('INVALID_URL', /http or https/), url);
  }
});

test('logins and state stay from call to call, until close', async () => {
  await call({ method: 'navigate', url: `${base}/` });
  await call({ method: 'evaluate', script: 'document.cookie = "a=1"; return 1' });
  assert.match((await call({ method: 'evaluate', url: `${base}/two`, script: 'document.cookie' })).result, /a=1/);
  assert.match((await call({ method: 'close' })).message, /is closed/);
  assert.match((await call({ method: 'close' })).message, /No browser/);
  assert.equal((await call({ method: 'evaluate', url: `${base}/`, script: 'document.cookie', keepAlive: false })).result, '');
  assert.match((await call({ method: 'close' })).message, /No browser/);
});

test('a call that is cancelled ends the browser', async () => {
  await call({ method: 'navigate', url: `${base}/` });
  const control = new AbortController();
  const waiting = call({ method: 'waitForSelector', selector: '#never' }, { signal: control.signal });
  setImmediate(() => control.abort(new Error('cancelled')));
  await assert.rejects(waiting, /cancelled/);
  assert.match((await call({ method: 'close' })).message, /No browser/);
});

test('a browser that dies, in a call', { skip: process.platform !== 'linux' && 'processes are looked for in /proc' }, async () => {
  const { url } = await call({ method: 'navigate', url: `${base}/` });
  assert.equal(url, `${base}/`);
  const waiting = call({ method: 'waitForSelector', selector: '#never' });
  for (const child of (await readFile(`/proc/self/task/${process.pid}/children`, 'utf8')).split(' ').filter(Boolean)) {
    if ((await readFile(`/proc/${child}/cmdline`, 'utf8')).includes('--remote-debugging-pipe')) process.kill(Number(child), 'SIGKILL');
  }
  await assert.rejects(waiting, failed('BROWSER_GONE', /waitForSelector #never/));
  assert.match((await call({ method: 'close' })).message, /No browser/);
});

test('a browser that does not start', async () => {
  await assert.rejects(call({ method: 'getUrl' }, { env: { CHROMIUM: '/nowhere/chromium' } }), failed('BROWSER_LAUNCH_FAILED', /nowhere/));
  await assert.rejects(call({ method: 'getUrl' }, { env: { CHROMIUM: 'chromium' } }), failed('BROWSER_LAUNCH_FAILED', /absolute/));
  const broken = path.join(dir, 'broken');
  await writeFile(broken, '#!/bin/sh\necho no libraries >&2\nexit 1\n', { mode: 0o755 });
  await assert.rejects(call({ method: 'getUrl' }, { env: { CHROMIUM: broken } }), failed('BROWSER_LAUNCH_FAILED', /broken/));
});

test('where the browser is, and whether it is confined', async () => {
  assert.ok(path.isAbsolute(executable(process.env.CHROMIUM)));
  const status = path.join(dir, 'status');
  await writeFile(status, 'Name:\tnode\nNoNewPrivs:\t1\nSeccomp:\t2\n');
  assert.equal(confined(status), true);
  await writeFile(status, 'Name:\tnode\nNoNewPrivs:\t0\nSeccomp:\t2\n');
  assert.equal(confined(status), false);
  assert.equal(confined(path.join(dir, 'absent')), false);
});

test('parameters', async () => {
  for (const [params, says] of [[{ method: 'fly' }, /fly/], [{ method: 'click' }, /click needs selector/], [{ method: 'fill', selector: 'a' }, /fill needs text/], [{}, /none of navigate/]]) {
    await assert.rejects(call(params), failed('INVALID_PARAMETERS', says));
  }
});
