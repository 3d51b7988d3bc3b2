// The browser of this worker, and its one page. They outlive a call, until they are closed
// or nobody has used them for a while.

import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { plain } from './explain.js';
import { fail } from './fail.js';

const IDLE = 4 * 60_000; // ms; a worker that idles is ended after 5 minutes
const LAUNCH = 30_000;   // ms
const NOTES = 20;

// PLACES are where the browser usually is. Of some a start script is on the PATH; in
// Toolyard's sandbox only the program behind it can be seen.
const PLACES = [
  '/usr/lib/chromium/chromium',
  '/usr/lib64/chromium-browser/chromium-browser',
  '/usr/lib/chromium-browser/chromium-browser',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/opt/google/chrome/chrome',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];
const BEHIND = {
  '/usr/bin/chromium': PLACES.slice(0, 3),
  '/usr/bin/chromium-browser': PLACES.slice(0, 3),
  '/usr/bin/google-chrome': ['/opt/google/chrome/chrome'],
  '/usr/bin/google-chrome-stable': ['/opt/google/chrome/chrome'],
};

/** executable is the browser's program: the configured one, else one of the usual places. */
export function executable(configured) {
  if (configured) {
    if (!path.isAbsolute(configured)) throw fail('BROWSER_LAUNCH_FAILED', `browser launch failed: CHROMIUM is ${JSON.stringify(configured)}, which is no absolute path`);
    const there = [configured, ...(BEHIND[configured] ?? [])].find((p) => existsSync(p));
    if (!there) throw fail('BROWSER_LAUNCH_FAILED', `browser launch failed: there is no program ${configured}, as CHROMIUM says`);
    return there;
  }
  const found = PLACES.find((p) => existsSync(p));
  if (!found) throw fail('BROWSER_LAUNCH_FAILED', `browser launch failed: there is no Chromium in the usual places (${PLACES.slice(0, 6).join(', ')}); install it, or set CHROMIUM to its path`);
  return found;
}

/** confined reports whether this process is in a sandbox that already keeps Chromium from making its own. */
export function confined(status = '/proc/self/status') {
  try {
    const text = readFileSync(status, 'utf8');
    return /^NoNewPrivs:\s*1$/m.test(text) && /^Seccomp:\s*2$/m.test(text);
  } catch {
    return false;
  }
}

/** Session is a browser with one page. */
export class Session {
  notes = [];
  #timer;

  static async start(chromium, { program, headless, dataDir, allowUnsandboxed, log }) {
    // Toolyard's sandbox is around all of this. Inside it Chromium cannot make another, so it
    // goes without its own; anywhere else it keeps it.
    const inner = !(confined() || allowUnsandboxed);
    const home = path.join(dataDir, 'home');
    mkdirSync(home, { recursive: true, mode: 0o700 });
    let browser;
    try {
      browser = await chromium.launch({
        executablePath: program,
        headless,
        chromiumSandbox: inner,
        timeout: LAUNCH,
        handleSIGINT: false,
        handleSIGTERM: false,
        handleSIGHUP: false,
        args: ['--disable-dev-shm-usage', '--disable-breakpad', '--disable-crash-reporter', '--no-first-run', '--disable-quic', ...(headless ? ['--disable-gpu'] : [])],
        env: { ...process.env, HOME: home, XDG_CONFIG_HOME: path.join(home, '.config'), XDG_CACHE_HOME: path.join(home, '.cache') },
      });
    } catch (error) {
      const why = plain(error).split('\n').map((l) => l.trim()).filter((l) => l !== '' && !/^(=+|\[pid|- \[pid|<launch|Browser logs|Call log|╔|║|╚)/.test(l)).slice(0, 3).join(' · ');
      throw fail('BROWSER_LAUNCH_FAILED', `browser launch failed: ${program}: ${why}`, error);
    }
    const session = new Session();
    session.browser = browser;
    try {
      session.context = await browser.newContext({ acceptDownloads: false });
      session.page = await session.context.newPage();
    } catch (error) {
      await session.close();
      throw error;
    }
    session.#watch(log);
    return session;
  }

  get alive() { return this.browser.isConnected() && !this.page.isClosed(); }

  #watch(log) {
    this.page.on('dialog', (dialog) => {
      this.note(`the page showed a dialog (${dialog.type()}), which was dismissed: ${dialog.message().slice(0, 200)}`);
      dialog.dismiss().catch(() => {});
    });
    this.page.on('pageerror', (error) => log?.debug?.('error in the page', { message: plain(error).slice(0, 500) }));
    this.page.on('download', (download) => this.note(`the page offered a download, which was refused: ${download.suggestedFilename()}`));
    this.page.on('crash', () => this.note('the page crashed'));
    this.context.on('page', (popup) => {
      // One page at a time, so that it is plain what the next call is about.
      this.note(`the page opened another one, which was closed: ${popup.url()}`);
      popup.close().catch(() => {});
    });
  }

  note(text) {
    if (this.notes.length < NOTES) this.notes.push(text);
  }

  /** taken gives what happened since it was last asked. */
  taken() { return this.notes.splice(0); }

  /** rest closes the session if nobody uses it for a while. */
  rest(done) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => { this.close().finally(done); }, IDLE);
    this.#timer.unref();
  }

  busy() { clearTimeout(this.#timer); }

  async close() {
    clearTimeout(this.#timer);
    await this.browser.close().catch(() => {}); // it may be gone already
  }
}
