// Drives a real browser.

import { mkdir, readdir, stat, unlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { explain } from './lib/explain.js';
import { fail } from './lib/fail.js';
import { executable, Session } from './lib/session.js';

const TEXT_LIMIT = 1_500_000;          // characters of HTML, text or a script's result
const INLINE_LIMIT = 2 * 1024 * 1024;  // bytes of a screenshot that is shown and not only written
const KEPT = 50;                       // screenshots in data/screenshots
const GRACE = 2_000;                   // ms beyond the time limit, until the browser is ended

const REQUIRED = {
  navigate: ['url'],
  click: ['selector'],
  fill: ['selector', 'text'],
  press: ['key'],
  select: ['selector', 'values'],
  screenshot: [],
  getContent: [],
  getText: [],
  waitForSelector: ['selector'],
  evaluate: ['script'],
  getTitle: [],
  getUrl: [],
  goBack: [],
  goForward: [],
  reload: [],
  close: [],
};

// session is the browser of this worker; a worker belongs to one session of a client.
let session;

export default {
  getMetadata() {
    return {
      id: 'playwright',
      name: 'Playwright',
      description: 'Drives a real browser (Chromium): opens pages, clicks, fills in forms, runs scripts in the page, reads its text or HTML, takes screenshots. Use it when a page needs JavaScript, a login or several steps, or when it matters what a page looks like. Do not use it to fetch a plain file or page, which file-reader does faster.',
      version: '1.0.0',
      category: 'browser',
      author: 'Toolyard',
      tags: ['browser', 'web', 'automation', 'screenshot', 'testing', 'playwright'],
      scenarios: [
        'Open a page and read the text that its scripts have made',
        'Fill in a form, send it, and look at the page that comes',
        'Take a screenshot of a page or of one element',
        'Check a web application that runs on a granted host',
      ],
      limitations: [
        'Needs Chromium or Chrome on the machine; Firefox and WebKit are not driven',
        'Only hosts for which the network is granted',
        'One page at a time: pages that open by themselves are closed, and named in notes',
        'Downloads and files are refused; dialogs are dismissed',
        'The browser ends with close, or after 4 minutes without a call',
      ],
    };
  },

  getSchema() {
    return {
      parameters: {
        type: 'object',
        properties: {
          method: { type: 'string', enum: Object.keys(REQUIRED), description: 'What to do.' },
          url: { type: 'string', minLength: 1, maxLength: 8192, description: 'navigate: where to; http or https. Other methods go there first if the page is another one.' },
          selector: { type: 'string', minLength: 1, maxLength: 4096, description: 'click, fill, select, waitForSelector; also press, screenshot, getText, getContent of one element: CSS, or "text=Sign in", "role=button[name=\'OK\']".' },
          text: { type: 'string', description: 'fill: what to write; "" empties the field.' },
          key: { type: 'string', minLength: 1, maxLength: 100, description: 'press: a key such as "Enter" or "Control+A", on selector or on what has the focus.' },
          values: { type: 'array', items: { type: 'string' }, maxItems: 100, description: 'select: values or labels of the options.' },
          script: { type: 'string', minLength: 1, maxLength: 200000, description: 'evaluate: JavaScript that runs in the page: an expression, or statements with return. May use await.' },
          screenshotPath: { type: 'string', minLength: 1, maxLength: 4096, description: 'screenshot: a PNG or JPEG file in the allowed directories. Without it data/screenshots.' },
          fullPage: { type: 'boolean', default: false, description: 'screenshot: the whole page, not only what is in view.' },
          keepAlive: { type: 'boolean', default: true, description: 'false closes the browser after the call.' },
          options: {
            type: 'object',
            description: 'How it is done.',
            properties: {
              timeout: { type: 'integer', minimum: 1, maximum: 110000, description: 'Milliseconds that the method may take. Without it PLAYWRIGHT_TIMEOUT.' },
              waitUntil: { type: 'string', enum: ['load', 'domcontentloaded', 'networkidle', 'commit'], default: 'load', description: 'navigate, reload: when the page counts as loaded.' },
              headless: { type: 'boolean', description: 'false shows the browser; it needs a display. Counts when the browser starts.' },
              browser: { type: 'string', enum: ['chromium'], default: 'chromium', description: 'Only Chromium.' },
              keepAlive: { type: 'boolean', description: 'As keepAlive.' },
            },
          },
        },
        required: ['method'],
        examples: [
          { method: 'close' },
          { method: 'getText', url: 'https://example.org/' },
          { method: 'fill', selector: '#email', text: 'me@example.org' },
        ],
      },
      environment: {
        type: 'object',
        properties: {
          CHROMIUM: { type: 'string', description: 'Path of the browser\'s program. Without it the usual places.', examples: ['/usr/bin/chromium'] },
          PLAYWRIGHT_TIMEOUT: { type: 'string', pattern: '^[0-9]{1,6}$', default: '30000', description: 'Milliseconds that a method may take.' },
          PLAYWRIGHT_HEADLESS: { type: 'string', enum: ['true', 'false'], default: 'true', description: 'Whether the browser goes without a window.' },
          PLAYWRIGHT_BROWSER: { type: 'string', enum: ['chromium'], default: 'chromium', description: 'Only Chromium.' },
          ALLOWED_DIRECTORIES: { type: 'string', description: 'Directories where screenshots may be written: a JSON array, or separated by commas. Without it only the tool\'s own data/.' },
        },
        required: [],
      },
    };
  },

  getDependencies() {
    // A program is visible in the sandbox only if it is declared.
    const program = this?.api?.environment?.get('CHROMIUM') || 'chromium';
    return { 'playwright-core': '1.65.1', [`cmd:${program}`]: '*', './lib/explain.js': 'local', './lib/fail.js': 'local', './lib/session.js': 'local' };
  },

  getBusinessErrors() {
    const known = (code, description, match, solution, retryable = false) => ({ code, description, match, solution, retryable });
    return [
      known('PATH_OUTSIDE_SCOPE', 'The screenshot would be outside the allowed directories.', /not in the allowed directories|outside the allowed directories/i, 'Leave screenshotPath out, or grant its directory with configure ALLOWED_DIRECTORIES.'),
      known('BROWSER_LAUNCH_FAILED', 'The browser does not start.', /^browser launch failed:/i, 'Install Chromium (apt install chromium), or set CHROMIUM to its path with configure; grant the tool the memory that it asks for.'),
      known('BROWSER_GONE', 'The browser has ended.', /^browser gone:/i, 'Navigate again; the browser starts anew.', true),
      known('NAVIGATION_FAILED', 'The page cannot be loaded.', /^navigation failed:/i, 'Check the address, and have the network granted for its host.', true),
      known('NETWORK_NOT_GRANTED', 'The network is not granted for that host.', /^network not granted:/i, 'Ask the user to grant the host to the tool, as the message says.'),
      known('INVALID_URL', 'The address is not one that may be opened.', /^invalid url:/i, 'Use an http or https address.'),
      known('NO_PAGE', 'No page is open.', /^no page:/i, 'Call navigate first, or give url.'),
      known('INVALID_SELECTOR', 'The selector is wrong.', /^invalid selector:/i, 'Use CSS, "text=…" or "role=…".'),
      known('ELEMENT_NOT_READY', 'The element cannot be used.', /^element not ready:/i, 'Choose a selector that matches one element, and wait until it can be seen and used.'),
      known('ELEMENT_NOT_FOUND', 'Nothing matches the selector.', /^element not found:/i, 'Look at the page with getText or getContent, or wait longer with options.timeout.'),
      known('SCRIPT_FAILED', 'The script failed.', /^script failed:/i, 'Correct the script.'),
      known('RESULT_TOO_LARGE', 'The result is too large.', /^result too large:/i, 'Have the script return less.'),
      known('TIMEOUT', 'It took too long.', /^timeout:/i, 'Raise options.timeout, or use waitUntil "domcontentloaded".', true),
      known('BROWSER_ERROR', 'The browser refused.', /^browser error:/i, 'Look at the message; a screenshot may show more.'),
      known('INVALID_PARAMETERS', 'Parameters are missing or wrong.', /^invalid parameters?:/i, 'Read the manual of the tool for its parameters.'),
    ];
  },

  getRuntimeConfig() {
    return { sandboxType: 'nodejs', networkAccess: true, maxMemory: 1536, maxExecutionTime: 120_000 };
  },

  async execute(params) {
    const args = this.checked(params);
    const { method } = args;
    await this.initializeFilesystem?.();
    const { signal, logger } = this.api ?? {};
    signal?.throwIfAborted();
    const doing = [method, args.selector ?? address(args.url)].filter(Boolean).join(' ');
    logger?.debug?.(`playwright ${doing}`);
    if (method === 'close') return { success: true, message: (await end()) ? 'The browser is closed.' : 'No browser was open.' };
    const url = args.url === undefined ? undefined : allowed(args.url);
    const timeout = args.options?.timeout ?? (Number(this.api?.environment?.get('PLAYWRIGHT_TIMEOUT')) || 30_000);
    const keep = args.options?.keepAlive ?? args.keepAlive ?? true;
    let result;
    try {
      const own = await this.opened(args);
      result = await limited(async () => {
        const { page } = own;
        if (method !== 'navigate' && url !== undefined && page.url() !== url.href) await go(page, url, args, timeout, this.api);
        if (!PAGELESS.has(method) && /^(about:blank|chrome-error:.*)$/.test(page.url())) throw fail('NO_PAGE', `no page: ${method} needs one, and none is open`);
        return METHODS[method].call(this, page, { ...args, url, timeout });
      }, timeout * (url === undefined || method === 'navigate' ? 1 : 2) + GRACE, doing, signal);
      const notes = own.taken();
      if (notes.length > 0) (result.structuredContent ?? result).notes = notes;
    } catch (error) {
      if (session && !session.alive) await end();
      if (!keep) await end();
      if (signal?.aborted) throw signal.reason;
      throw explain(error, doing);
    }
    if (keep) session?.rest(() => { session = undefined; });
    else await end();
    return result;
  },

  /** checked is the parameters of a call, or an error that names all that is wrong with them. */
  checked(params) {
    const args = params ?? {};
    const verdict = this.validateParameters?.(args, this.getSchema().parameters);
    const faults = verdict && !verdict.valid ? [...verdict.errors] : [];
    if (faults.length === 0) {
      if (!Object.hasOwn(REQUIRED, args.method)) faults.push(`method ${JSON.stringify(args.method)} is none of ${Object.keys(REQUIRED).join(', ')}`);
      else faults.push(...REQUIRED[args.method].filter((name) => args[name] === undefined || args[name] === null).map((name) => `${args.method} needs ${name}`));
    }
    if (faults.length > 0) throw fail('INVALID_PARAMETERS', `invalid parameters: ${faults.map((f) => f?.message ?? f).join('; ')}`);
    return args;
  },

  /** opened is the session, begun if there is none. */
  async opened({ options }) {
    if (session && !session.alive) await end();
    if (!session) {
      const { environment, logger } = this.api ?? {};
      const program = executable(environment?.get('CHROMIUM'));
      this.api.progress(0, 0, 'starting the browser');
      const { chromium } = this.importToolModule ? await this.importToolModule('playwright-core') : await import('playwright-core');
      session = await Session.start(chromium, {
        program,
        headless: options?.headless ?? environment?.get('PLAYWRIGHT_HEADLESS') !== 'false',
        dataDir: path.join(this.__toolDir ?? '.', 'data'),
        allowUnsandboxed: environment?.get('PLAYWRIGHT_UNSANDBOXED_TESTS') === 'true',
        log: logger,
      });
    }
    session.busy();
    return session;
  },
};

// PAGELESS are the methods that make sense on a page that is blank.
const PAGELESS = new Set(['navigate', 'getUrl', 'getTitle', 'evaluate', 'goBack', 'goForward']);

const METHODS = {
  async navigate(page, args) {
    const status = await go(page, args.url, args, args.timeout, this.api);
    return { success: true, url: page.url(), title: await page.title(), ...status };
  },

  async click(page, { selector, timeout }) {
    await page.click(selector, { timeout });
    // A click may lead to another page; what is asked next is about that one.
    await page.waitForLoadState('load', { timeout }).catch(() => {});
    return { success: true, selector, url: page.url() };
  },

  async fill(page, { selector, text, timeout }) {
    await page.fill(selector, text, { timeout });
    return { success: true, selector, length: text.length }; // not the text, which may be a password
  },

  async press(page, { selector, key, timeout }) {
    if (selector) await page.press(selector, key, { timeout });
    else await page.keyboard.press(key);
    await page.waitForLoadState('load', { timeout }).catch(() => {});
    return { success: true, key, url: page.url() };
  },

  async select(page, { selector, values, timeout }) {
    return { success: true, selector, selected: await page.selectOption(selector, values, { timeout }) };
  },

  async screenshot(page, { selector, screenshotPath, fullPage = false, timeout }) {
    const given = screenshotPath === undefined ? undefined : this.resolvePath(screenshotPath);
    const jpeg = /\.jpe?g$/i.test(given ?? '');
    const options = { timeout, type: jpeg ? 'jpeg' : 'png' };
    const bytes = selector ? await page.locator(selector).screenshot(options) : await page.screenshot({ ...options, fullPage });
    const file = given ?? path.join(this.__toolDir ?? '.', 'data', 'screenshots', `screenshot-${Date.now()}.png`);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, bytes);
    if (given === undefined) await tidy(path.dirname(file));
    const structuredContent = { success: true, path: file, url: page.url(), bytes: bytes.length };
    if (bytes.length > INLINE_LIMIT) return structuredContent;
    return {
      content: [
        { type: 'image', data: bytes.toString('base64'), mimeType: jpeg ? 'image/jpeg' : 'image/png' },
        { type: 'text', text: JSON.stringify(structuredContent) },
      ],
      structuredContent,
    };
  },

  async getContent(page, { selector, timeout }) {
    const html = selector ? await page.locator(selector).first().evaluate((e) => e.outerHTML, undefined, { timeout }) : await page.content();
    const structuredContent = { success: true, url: page.url(), ...cut('content', html) };
    return { content: [{ type: 'text', text: structuredContent.content }], structuredContent };
  },

  async getText(page, { selector, timeout }) {
    const text = await page.locator(selector ?? 'body').first().innerText({ timeout });
    return { success: true, url: page.url(), title: await page.title(), ...cut('text', text) };
  },

  async waitForSelector(page, { selector, timeout }) {
    await page.waitForSelector(selector, { timeout });
    return { success: true, selector };
  },

  async evaluate(page, { script }) {
    let value;
    try {
      value = await page.evaluate(run, script);
    } catch (error) {
      const said = explain(error, 'evaluate');
      if (said.code !== 'BROWSER_ERROR') throw said;
      throw fail('SCRIPT_FAILED', said.message.replace(/^browser error: evaluate:/, 'script failed:'), error);
    }
    const text = JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? String(v) : v)) ?? 'null';
    if (text.length > TEXT_LIMIT) throw fail('RESULT_TOO_LARGE', `result too large: the script returned ${text.length} characters of JSON, more than ${TEXT_LIMIT}`);
    return { success: true, result: JSON.parse(text) };
  },

  async getTitle(page) { return { success: true, title: await page.title() }; },

  async getUrl(page) { return { success: true, url: page.url() }; },

  async goBack(page, { timeout }) {
    const moved = await page.goBack({ timeout });
    return { success: true, url: page.url(), moved: moved !== null };
  },

  async goForward(page, { timeout }) {
    const moved = await page.goForward({ timeout });
    return { success: true, url: page.url(), moved: moved !== null };
  },

  async reload(page, { timeout, options }) {
    await page.reload({ timeout, waitUntil: options?.waitUntil ?? 'load' });
    return { success: true, url: page.url(), title: await page.title() };
  },
};

/** run is what evaluate does in the page: an expression, else statements. */
async function run(script) {
  const AsyncFunction = (async () => {}).constructor;
  let f;
  try {
    f = new AsyncFunction(`return (${script}\n)`);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error; // the page's policy, for instance
    f = new AsyncFunction(script);
  }
  const value = await f.call(window);
  return typeof value === 'function' ? value() : value;
}

async function go(page, url, { options }, timeout, api) {
  api.progress(0, 0, `opening ${address(url.href)}`);
  try {
    const response = await visit(page, url.href, { timeout, waitUntil: options?.waitUntil ?? 'load' });
    // The sandbox answers for hosts that are not granted; its sentence is in the status line.
    if (response?.status() === 403 && /^network: /.test(response.statusText())) {
      throw fail('NETWORK_NOT_GRANTED', `network not granted: ${response.statusText().slice(9)}; to grant it: toolyard toolbox grant playwright --net ${new URL(response.url()).host}`);
    }
    return { status: response?.status() ?? null };
  } catch (error) {
    await settled(page, error);
    throw error;
  }
}

/** settled waits until a page that was not loaded is in nobody's way. */
async function settled(page, error) {
  if (/ERR_ABORTED|Download is starting/.test(error.message)) return; // the page is as it was
  if (/net::ERR_/.test(error.message)) await page.waitForURL((u) => u.protocol === 'chrome-error:', { timeout: 1000, waitUntil: 'commit' }).catch(() => {});
  else if (error.name === 'TimeoutError') await Promise.race([page.evaluate(() => window.stop()), page.waitForTimeout(1000)]).catch(() => {});
}

async function visit(page, url, options) {
  for (let tries = 1; ; tries++) {
    try {
      return await page.goto(url, options);
    } catch (error) {
      // What began before, such as the browser's own error page, can come into the way.
      if (tries === 5 || !/interrupted by another navigation/.test(error.message)) throw error;
      await page.waitForTimeout(50 * tries);
    }
  }
}

/** allowed is a URL that may be opened. */
function allowed(text) {
  let url;
  try { url = new URL(text); } catch { url = undefined; }
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw fail('INVALID_URL', `invalid url: ${JSON.stringify(text.slice(0, 200))} is no http or https address`);
  }
  return url;
}

/** address is what of a URL may be shown: a query or a login may hold a secret. */
function address(url) {
  return url?.replace(/[?#].*$/s, '').replace(/\/\/[^/@]*@/, '//');
}

function cut(name, text) {
  return { [name]: text.slice(0, TEXT_LIMIT), length: text.length, ...(text.length > TEXT_LIMIT && { truncated: true }) };
}

/** limited ends the browser when doing does not end: a page can be busy for ever. */
async function limited(do_, ms, doing, signal) {
  let timer;
  let over;
  const stop = new Promise((_, reject) => {
    over = (reason) => {
      over.reason ??= reason;
      end().then(() => reject(reason));
    };
    timer = setTimeout(() => over(fail('TIMEOUT', `timeout: ${doing} was not done after ${ms} ms, and the browser was ended`)), ms);
  });
  const abort = () => over(signal.reason);
  signal?.addEventListener('abort', abort, { once: true });
  const done = do_();
  for (const p of [done, stop]) p.catch(() => {}); // of the one that comes second nobody hears
  try {
    return await Promise.race([done, stop]);
  } catch (error) {
    if (over.reason) await stop; // it fails because its browser was ended: this says why
    throw error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}

async function end() {
  const old = session;
  session = undefined;
  await old?.close();
  return old !== undefined;
}

async function tidy(dir) {
  const files = await Promise.all((await readdir(dir)).filter((n) => /^screenshot-\d+\.png$/.test(n)).map(async (n) => {
    const file = path.join(dir, n);
    return { file, at: (await stat(file).catch(() => ({ mtimeMs: 0 }))).mtimeMs };
  }));
  const old = files.sort((a, b) => b.at - a.at).slice(KEPT);
  await Promise.all(old.map(({ file }) => unlink(file).catch(() => {})));
}
