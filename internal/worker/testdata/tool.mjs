// What the contract calls, in JavaScript.
import fs from 'node:fs'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeSync } from 'node:fs'

let count = 0
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

export function plain (args) { return { plain: args } }

export default {
  name: 'contract',
  echo (args) { return args },
  async later (args, api) { api.progress(1, 1, 'waiting'); await sleep(args.ms); return 'later' },
  self () { return this.name },
  counter () { return ++count },
  nothing () {},
  async progress (args, api) { for (let i = 1; i <= args.n; i++) api.progress(i, args.n, 'step ' + i); return 'done' },
  logs (args, api) {
    console.log('to the log', { a: 1 })
    console.error('an error')
    api.log('warn', 'a warning', { n: 2 })
    process.stdout.write('raw\nunfinished')
    process.stderr.write('raw error\n')
    return 1
  },
  async ask (args, api) { return { got: await api.request('double', { n: args.n }) } },
  async askWrong (args, api) { try { await api.request('refuse'); return 'answered' } catch (e) { return e.code } },
  async wait (args, api) {
    api.progress(1, 1, 'waiting')
    await new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, 60000)
      api.signal.addEventListener('abort', () => { clearTimeout(timer); reject(new Error('aborted')) })
    })
  },
  async deaf (args, api) { api.progress(1, 1, 'waiting'); await sleep(60000) },
  fail () { const e = new TypeError('it is wrong'); e.code = 'E_WRONG'; throw e },
  async failLater () { await sleep(1); throw new Error('later wrong') },
  failOddly () { throw null }, // eslint-disable-line no-throw-literal
  exit (args) { process.exit(args.code) },
  loop (args, api) { api.progress(1, 1, 'waiting'); for (;;); },
  throwLate () { setTimeout(() => { throw new Error('late') }, 1); return sleep(60000) },
  rejectLate () { Promise.reject(new Error('rejected')); return sleep(60000) },
  hangAfter () { setTimeout(() => { for (;;); }, 1); return 'ok' },
  throwAfter () { setTimeout(() => { throw new Error('after') }, 1); return 'ok' },
  cyclic () { const o = {}; o.o = o; return o },
  big () { return { n: 10n } },
  large (args) { return 'x'.repeat(args.n) },
  functionValue () { return () => 1 },
  heap () { const all = []; for (;;) all.push(new Array(1000).fill({ a: 1 }).map((v, i) => ({ i }))) },
  buffers () { const all = []; for (let i = 0; i < 64; i++) all.push(Buffer.alloc(32 << 20, 1)); return all.length },
  grow (args) { globalThis.kept = Buffer.alloc(args.n, 1); return 1 },
  binary () { process.stdout.write(Buffer.from([0, 255, 254, 10, 1, 2, 10])); return 1 },
  flood () { for (let i = 0; i < 3000; i++) console.log('x'.repeat(1000)); return 1 },
  garbage () { writeSync(3, 'hello, descriptor 3'); return sleep(60000) },
  forge () { const text = '{"t":"result","id":1}\n"forged"'; const b = Buffer.alloc(4 + text.length); b.writeUInt32BE(text.length); b.write(text, 4); writeSync(3, b); return sleep(60000) },
  hugeFrame () { writeSync(3, Buffer.from([0xff, 0xff, 0xff, 0xff])); return sleep(60000) },
  closeControl () { fs.closeSync(3); return sleep(60000) },
  descriptors () { const all = []; try { for (;;) all.push(fs.openSync('/dev/null')) } catch (e) { const n = all.length; all.forEach(f => fs.closeSync(f)); if (n > 100000) return n; throw e } },
  child () { const r = spawnSync('/bin/sh', ['-c', '(true <&3) 2>/dev/null && echo open || echo closed']); return String(r.stdout).trim() },
  remember () { globalThis.remembered = 1; return 1 },
  outside () { return readFileSync('/etc/shadow', 'utf8') },
  environment () { return Object.keys(process.env).sort() },
  crash () { process.kill(process.pid, 'SIGSEGV'); return sleep(60000) }
}
