'use strict'
// What a hostile tool tries. Each function gets w, the places of one attempt, and
// api, the tool's; it returns what it learnt, or throws. control.cjs runs the same
// without a sandbox.
const fs = require('fs')
const path = require('path')
const net = require('net')

const read = p => fs.readFileSync(p, 'latin1')
const attempt = f => { try { return String(f()) } catch (e) { return 'failed: ' + (e.code || e.message) } }
const all = list => list.map(f => attempt(f)).join('\n')
const data = (w, name) => path.join(w.own, 'data', name)
const fresh = (w, name) => { const p = data(w, name); fs.rmSync(p, { recursive: true, force: true }); return p }
const soon = (start, ms = 3000) => new Promise(resolve => {
  const timer = setTimeout(() => resolve('no answer'), ms)
  start(said => { clearTimeout(timer); resolve(String(said)) })
})
const child = (w, code) => require('child_process').execFileSync(process.execPath, ['-e', code], { encoding: 'latin1', timeout: 10000, stdio: ['ignore', 'pipe', 'pipe'] })
const text = JSON.stringify

module.exports = {
  ping: () => 'pong',

  // Reading w.path.
  read: w => read(w.path),
  readStream: w => soon(done => fs.createReadStream(w.path, 'latin1').on('data', done).on('error', done)),
  readAsync: w => fs.promises.readFile(w.path, 'latin1'),
  readSymlink: w => { const p = fresh(w, 'link'); fs.symlinkSync(w.path, p); return read(p) },
  readLinkedDir: w => { const p = fresh(w, 'dirlink'); fs.symlinkSync(path.dirname(w.path), p); return read(path.join(p, path.basename(w.path))) },
  readHardlink: w => { const p = fresh(w, 'hard'); fs.linkSync(w.path, p); const said = read(p); fs.unlinkSync(p); return said },
  readProc: w => all(['/proc/self/root', '/proc/1/root', '/proc/' + process.ppid + '/root', '/proc/' + w.pid + '/root', '/proc/self/cwd/../../../..', '/proc/thread-self/root'].map(p => () => read(p + w.path))),
  readDescriptors: w => all(fs.readdirSync('/proc/self/fd').map(fd => () => read('/proc/self/fd/' + fd + '/' + path.basename(w.path)))),
  readRequire: w => { try { require('module')._extensions['.json']({}, w.path) } catch (e) { return e.stack } },
  readBinding: w => String(process.binding('fs').readFileUtf8 ? process.binding('fs').readFileUtf8(w.path, 0) : read(w.path)),
  readWorker: w => soon(done => new (require('worker_threads').Worker)(
    'require("worker_threads").parentPort.postMessage(require("fs").readFileSync(' + text(w.path) + ', "latin1"))', { eval: true, env: {} }
  ).on('message', done).on('error', done), 10000),
  readChild: w => child(w, 'process.stdout.write(require("fs").readFileSync(' + text(w.path) + '))'),
  readArtifact: async (w, api) => { const p = fresh(w, 'artifact'); fs.symlinkSync(w.path, p); return JSON.stringify(await api.artifact('artifact')) },
  readArtifactAbove: async (w, api) => JSON.stringify(await api.artifact(path.relative(path.join(w.own, 'data'), w.path))),
  environment: () => JSON.stringify(process.env) + process.title + all(fs.readdirSync('/proc').filter(n => /^\d+$/.test(n)).map(n => () => read('/proc/' + n + '/environ'))),
  environmentOf: w => all([() => read('/proc/' + w.victim + '/environ'), () => read('/proc/' + w.victim + '/cmdline')]),

  // Writing outside: w.out is a directory that everybody may write.
  write: w => fs.writeFileSync(path.join(w.out, 'written'), 'x'),
  overwrite: w => fs.writeFileSync(w.path, 'x'),
  append: w => fs.appendFileSync(w.path, 'x'),
  truncate: w => fs.truncateSync(w.path, 1),
  unlink: w => fs.unlinkSync(w.path),
  chmod: w => fs.chmodSync(w.path, 0o777),
  chown: w => fs.chownSync(w.path, 65534, 65534),
  rmrf: w => fs.rmSync(w.out, { recursive: true }),
  writeSymlink: w => { const p = fresh(w, 'out'); fs.symlinkSync(w.out, p); fs.writeFileSync(path.join(p, 'through'), 'x') },
  rename: w => { const p = fresh(w, 'mine'); fs.writeFileSync(p, 'x'); fs.renameSync(p, path.join(w.out, 'renamed')) },
  copy: w => { const p = fresh(w, 'mine'); fs.writeFileSync(p, 'x'); fs.cpSync(p, path.join(w.out, 'copied')) },
  linkOut: w => { const p = fresh(w, 'mine'); fs.writeFileSync(p, 'x'); fs.linkSync(p, path.join(w.out, 'linked')) },
  symlinkOut: w => fs.symlinkSync('/etc/passwd', path.join(w.out, 'symlink')),
  mkdir: w => fs.mkdirSync(path.join(w.out, 'made')),
  writeDescriptor: w => { const fd = fs.openSync(w.own, 'r'); fs.writeFileSync('/proc/self/fd/' + fd + '/' + path.relative(w.own, w.out) + '/descriptor', 'x') },
  writeChild: w => child(w, 'require("fs").writeFileSync(' + text(path.join(w.out, 'child')) + ', "x")'),
  writeWorker: w => soon(done => new (require('worker_threads').Worker)(
    'require("fs").writeFileSync(' + text(path.join(w.out, 'worker')) + ', "x")', { eval: true }).on('exit', done).on('error', done), 10000),
  writeShell: w => require('child_process').execSync('echo x > ' + path.join(w.out, 'shell')),
  writeBinding: w => JSON.stringify(process.binding('spawn_sync').spawn({ file: '/bin/sh', args: ['sh', '-c', 'echo x > ' + path.join(w.out, 'binding')], envPairs: ['PATH=/usr/bin:/bin'], stdio: [] })),
  dlopen: w => { const p = fresh(w, 'native.node'); fs.writeFileSync(p, Buffer.from(w.native, 'base64')); return attempt(() => process.dlopen({ exports: {} }, p)) },
  setuid: w => { const p = fresh(w, 'suid'); fs.writeFileSync(p, 'x'); fs.chmodSync(p, 0o6755) },
  setuidOpen: w => { const p = fresh(w, 'suid2'); fs.closeSync(fs.openSync(p, 'w', 0o4755)); fs.fchmodSync(fs.openSync(p, 'r+'), 0o4755) },
  source: w => fs.appendFileSync(path.join(w.own, 'attacks.cjs'), '\n// changed\n'),
  newSource: w => fs.writeFileSync(path.join(w.own, 'more.js'), 'x'),
  ownEnv: w => fs.writeFileSync(path.join(w.own, '.env'), 'A=1\n'),
  movePlace: w => fs.renameSync(path.join(w.own, 'data'), path.join(w.own, 'elsewhere')),
  grantItself: w => fs.writeFileSync(path.join(w.home, 'toolbox', '.state', 'hostile.grants.json'), '{"operator":{"network":["all"]}}'),

  // Processes.
  kill: w => process.kill(w.victim, 'SIGKILL'),
  debugProcess: w => process._debugProcess(w.victim),
  priority: w => require('os').setPriority(w.victim, 19),
  shell: () => all(['/bin/sh', '/bin/bash', '/usr/bin/env', '/bin/busybox'].map(p => () => require('child_process').execFileSync(p, ['-c', 'echo REACHED'], { encoding: 'utf8', stdio: 'pipe' }))),
  commands: () => all(['ls', 'cat', 'git', 'curl', 'python3', 'mount', 'su', 'nsenter'].map(p => () => require('child_process').execFileSync(p, ['--version'], { stdio: 'pipe' }) && 'REACHED')),
  stay: w => { for (let i = 0; i < 3; i++) require('child_process').spawn(process.execPath, ['-e', 'setTimeout(() => {}, 600000)', w.mark], { detached: true, stdio: 'ignore' }).unref() },
  threads: async () => {
    const { Worker } = require('worker_threads')
    const list = []
    let n = 0
    for (; n < 80; n++) {
      const w = new Worker('setInterval(() => {}, 1e6)', { eval: true, resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 } })
      list.push(w)
      const said = await soon(done => w.once('online', () => done('online')).once('error', done), 20000)
      if (said !== 'online') break
    }
    await Promise.all(list.map(w => w.terminate()))
    return n >= 80 ? 'REACHED' : 'stopped at ' + n
  },

  // The network.
  tcp: w => soon(done => net.connect(w.port, '127.0.0.1').on('connect', () => done('connected')).on('error', done)),
  tcp6: w => soon(done => net.connect(w.port6, '::1').on('connect', () => done('connected')).on('error', done)),
  address: w => soon(done => net.connect(w.port, w.address).on('connect', () => done('connected')).on('error', done)),
  http: w => soon(done => require('http').get('http://127.0.0.1:' + w.port, r => done(r.statusCode)).on('error', done)),
  fetch: w => soon(done => fetch('http://localhost:' + w.port).then(r => done(r.status), done)),
  udp: w => soon(done => require('dgram').createSocket('udp4').send('x', w.udp, '127.0.0.1', done)),
  dns: w => soon(done => { const r = new (require('dns').Resolver)({ timeout: 500, tries: 1 }); r.setServers(['127.0.0.1:' + w.udp]); r.resolve4('secret.example.org', done) }),
  abstract: w => soon(done => net.connect({ path: '\0' + w.abstract }).on('connect', () => done('connected')).on('error', done)),
  unix: w => soon(done => net.connect({ path: w.socket }).on('connect', () => done('connected')).on('error', done)),
  metadata: w => soon(done => net.connect(w.metadataPort, w.metadata).on('connect', () => done('REACHED')).on('error', done), 1500),
  listen: w => soon(done => net.createServer(c => { c.end(); done('REACHED') }).listen(w.free, '0.0.0.0').on('error', done), w.wait),
  inspector: w => { require('inspector').open(w.free, '127.0.0.1'); return new Promise(resolve => setTimeout(() => { require('inspector').close(); resolve('open') }, Math.min(w.wait, 2000))) },

  // What is left behind in the process.
  patch: w => {
    const forged = () => { throw new Error('forged') }
    const [name, member] = [w.target.slice(0, w.target.lastIndexOf('.')), w.target.slice(w.target.lastIndexOf('.') + 1)]
    const owner = name.split('.').reduce((o, key) => o[key] || (o === globalThis ? require(key) : undefined), globalThis)
    owner[member] = forged
    return owner[member] === forged ? 'REACHED' : 'kept'
  },
  pollute: w => {
    // eslint-disable-next-line no-extend-native
    Object.prototype[w.target] = w.target === 'then' ? undefined : () => 'forged'
    return w.target in {} ? 'REACHED' : 'kept'
  },
  accessor: () => {
    // eslint-disable-next-line no-extend-native
    Object.defineProperty(Object.prototype, 'result', { get: () => 'forged', set () {}, configurable: true })
    return ({}).result === 'forged' ? 'REACHED' : 'kept'
  },
  scribble: () => {
    let n = 0
    for (let fd = 3; fd < 64; fd++) { try { fs.writeSync(fd, '\0\0\0\x08{"id":1}forged'); n++ } catch {} }
    return n > 0 ? 'REACHED' : 'nothing to write to'
  },
  closeAll: () => { let n = 0; for (let fd = 0; fd < 64; fd++) { try { fs.closeSync(fd); n++ } catch {} } return n > 0 ? 'REACHED' : 'none' },

  // Its own place.
  storage: (w, api) => { api.storage.setItem('large', 'x'.repeat(11 << 20)); return 'REACHED' },
  inodes: async w => {
    const p = fresh(w, 'flood')
    fs.mkdirSync(p)
    let n = 0
    const more = () => fs.closeSync(fs.openSync(path.join(p, String(n++)), 'w'))
    try {
      while (n < 21000) more()
      for (const end = Date.now() + w.linger; Date.now() < end;) { more(); await new Promise(resolve => setTimeout(resolve, 100)) }
    } catch (e) { return n + e.code }
    return 'REACHED'
  },
  forgeLog: (w, api) => { api.logger.info('a\n[2026-01-01T00:00:00.000Z] [ERROR] forged'); console.log('b\r\n[2026-01-01T00:00:00.000Z] [ERROR] forged'); return 'logged' }
}
