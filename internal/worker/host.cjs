'use strict'
// Runs inside of a worker: loads one module and calls its functions, as the
// package comment of internal/worker says. What it needs of the language it takes
// before the module is loaded, which may change anything.
const fs = require('fs')
const { createRequire } = module.constructor
const { Map, Promise } = globalThis
const { parse, stringify } = JSON
const { writeSync, readSync } = fs
const { allocUnsafe, byteLength, from: bufferFrom } = Buffer
const { emitWarning } = process
const exit = process.exit.bind(process)
const { apply, setPrototypeOf } = Reflect
const { utf8Write, writeUInt32BE, subarray } = Buffer.prototype
const { prototype: objectPrototype } = Object
const then = Promise.prototype.then
const { min, max } = Math
const soon = setImmediate
const later = setTimeout
const tick = process.nextTick
const Text = String

const control = 3
const protocol = 1
const keptBuffer = 64 * 1024
const stackLimit = 8 * 1024
const logLimit = 64 * 1024

let key = ''
let frameLimit = 16 << 20
let listening = false
let target = null // whose functions are called
let namespace = null
const calls = table() // running, by id
const asked = table() // requests to the runtime, by id
let lastRequest = 0
let over = false

// table is a map whose methods stay what they are.
function table () {
  const m = new Map()
  for (const name of ['get', 'set', 'delete', 'keys', 'values']) m[name] = m[name] // eslint-disable-line no-self-assign
  return m
}

// ---- frames out

const out = allocUnsafe(keptBuffer)

// send writes one frame. The nonce passes through nothing that the module could
// have put in the way: no setter, no toJSON, no method of buffers.
function send (header, body) {
  setPrototypeOf(header, null)
  if (header.error !== undefined) setPrototypeOf(header.error, null)
  header.k = key
  let text = stringify(header)
  if (body !== undefined) text += '\n' + body
  if (text.length * 3 + 4 <= keptBuffer) {
    const n = apply(utf8Write, out, [text, 4])
    apply(writeUInt32BE, out, [n, 0])
    put(out, n + 4)
    return
  }
  const n = byteLength(text)
  const frame = allocUnsafe(n + 4)
  apply(utf8Write, frame, [text, 4])
  apply(writeUInt32BE, frame, [n, 0])
  put(frame, n + 4)
}

const backlog = [] // what the runtime has not read yet

function put (buffer, end) {
  let at = 0
  if (backlog.length === 0) {
    at = write(buffer, 0, end)
    if (at === end) return
    later(flush, 1)
  }
  backlog.push(bufferFrom(apply(subarray, buffer, [at, end])))
}

// write returns how far it came.
function write (buffer, at, end) {
  try {
    while (at < end) at += writeSync(control, buffer, at, end - at)
  } catch (e) {
    if (e.code !== 'EAGAIN') exit(0) // the runtime is gone
  }
  return at
}

function flush () {
  while (backlog.length > 0) {
    const first = backlog[0]
    const at = write(first, 0, first.length)
    if (at < first.length) {
      backlog[0] = apply(subarray, first, [at])
      later(flush, 1)
      return
    }
    backlog.shift()
  }
}

// ---- frames in

const chunk = allocUnsafe(keptBuffer)
let rest = null // of a frame that came in pieces
let have = 0

function take (n) {
  let data = chunk
  let end = n
  if (rest !== null) {
    if (have + n > rest.length) {
      const more = allocUnsafe(min(max(rest.length * 2, have + n), frameLimit + 4 + keptBuffer))
      rest.copy(more, 0, 0, have)
      rest = more
    }
    chunk.copy(rest, have, 0, n)
    have += n
    data = rest
    end = have
  }
  let at = 0
  while (end - at >= 4) {
    const size = data.readUInt32BE(at)
    if (size > frameLimit) exit(70)
    if (end - at < 4 + size) break
    const start = at + 4
    at = start + size
    const line = data.indexOf(10, start)
    const split = line >= 0 && line < at
    handle(parse(data.utf8Slice(start, split ? line : at)), split ? data.utf8Slice(line + 1, at) : undefined)
  }
  if (at === end) {
    rest = null
    have = 0
    return
  }
  if (data === chunk) {
    rest = allocUnsafe(max(keptBuffer, 2 * (end - at)))
    chunk.copy(rest, 0, at, end)
  } else if (at > 0) {
    rest.copy(rest, 0, at, end)
  }
  have = end - at
}

function listen () {
  if (listening) return
  listening = true
  if (process.env.NODE_PENDING_DEPRECATION !== '1' && knownVersions.includes(parseInt(process.versions.node))) {
    if (watch()) return
  }
  const { Socket } = require('net')
  const socket = new Socket({
    fd: control,
    readable: true,
    writable: false,
    onread: { buffer: chunk, callback: n => { take(n); return true } }
  })
  socket.on('end', () => exit(0))
  socket.on('error', () => exit(0))
  socket.resume()
}

// knownVersions are those of Node in which watch was tried: the current ones.
const knownVersions = [20, 22, 24]

// watch does what the net module would, by what that is made of: loading net and
// the streams that it needs takes as long as loading a tool five times.
function watch () {
  try {
    const { Pipe, constants } = process.binding('pipe_wrap')
    const { streamBaseState, kReadBytesOrError } = process.binding('stream_wrap')
    if (!(streamBaseState.length > kReadBytesOrError)) return false
    const pipe = new Pipe(constants.SOCKET)
    pipe.useUserBuffer(chunk)
    pipe.onread = () => {
      const n = streamBaseState[kReadBytesOrError]
      if (n < 0) exit(0)
      if (n > 0) take(n)
    }
    if (pipe.open(control) < 0) return false
    return pipe.readStart() === 0
  } catch {
    return false
  }
}

// poll takes what is there without a socket, and waits for it for at most ms.
// It reports whether something came.
function poll (ms) {
  const nap = new Int32Array(new SharedArrayBuffer(4))
  for (let left = ms; ;) {
    try {
      const n = readSync(control, chunk, 0, keptBuffer, null)
      if (n === 0) exit(0)
      take(n)
      return true
    } catch (e) {
      if (e.code !== 'EAGAIN') throw e
    }
    if (left <= 0) return false
    Atomics.wait(nap, 0, 0, 0.1)
    left -= 0.15
  }
}

function handle (header, body) {
  setPrototypeOf(header, null) // what a module adds to all objects is not what came
  switch (header.t) {
    case 'call': return call(header, body)
    case 'cancel': return cancel(header.id)
    case 'ping': return send({ t: 'pong', id: header.id })
    case 'response': return answer(header, body)
    case 'hello': return hello(header, parse(body))
  }
}

// ---- the module

function hello (header, greeting) {
  key = header.k
  frameLimit = greeting.max
  if (greeting.version !== protocol) return refuse(new Error('protocol ' + greeting.version + ' is not spoken here, only ' + protocol))
  process.argv = [process.execPath, greeting.module]
  let loaded
  try {
    loaded = load(greeting.module)
  } catch (e) {
    return refuse(e, greeting.module)
  }
  if (greeting.adapter === undefined && !isPromise(loaded)) return ready(loaded, greeting)
  adapt(loaded, greeting).catch(e => refuse(e, greeting.module))
}

async function adapt (loaded, greeting) {
  loaded = await loaded
  if (greeting.adapter !== undefined) {
    const adapter = await load(greeting.adapter)
    const f = typeof adapter === 'function' ? adapter : adapter.default
    loaded = { default: await f(loaded, greeting.setup) }
  }
  ready(loaded, greeting)
}

// asynchronous are the codes of modules that cannot be loaded at once.
const asynchronous = ['ERR_REQUIRE_ESM', 'ERR_REQUIRE_ASYNC_MODULE', 'ERR_REQUIRE_CYCLE_MODULE']

// load returns the module's namespace, or a promise of it. require is 4 ms faster
// than import, and takes ES modules too in the versions of Node that are current.
function load (path) {
  if (process.features.require_module !== true && !path.endsWith('.cjs')) return importModule(path)
  process.emitWarning = quiet
  try {
    const loaded = createRequire(path)(path)
    return isNamespace(loaded) ? loaded : { default: loaded }
  } catch (e) {
    if (e !== null && typeof e === 'object' && asynchronous.includes(e.code)) return importModule(path)
    throw e
  } finally {
    if (process.emitWarning === quiet) process.emitWarning = emitWarning
  }
}

// quiet leaves out that requiring an ES module is experimental.
function quiet (warning, ...more) {
  if (!Text(warning).includes('Support for loading ES Module in require()')) apply(emitWarning, process, [warning, ...more])
}

const importModule = path => import(require('url').pathToFileURL(path))

function isNamespace (v) { return v !== null && typeof v === 'object' && v[Symbol.toStringTag] === 'Module' }
function isPromise (v) { return v !== null && (typeof v === 'object' || typeof v === 'function') && typeof v.then === 'function' }

function ready (loaded, greeting) {
  namespace = loaded
  target = loaded.default
  if (typeof target === 'function' && /^class\b/.test(Function.prototype.toString.call(target))) target = new target() // eslint-disable-line new-cap
  send({ t: 'ready', name: 'node ' + process.version })
  // Not from within take, which has not done with what it read.
  tick(() => {
    if (greeting.expect && poll(2)) return soon(listen) // after what the call does at once
    listen()
  })
}

function refuse (e, module) {
  const error = thrown(e)
  error.kind = 'load'
  const at = module === undefined ? '' : position(error, module)
  if (at !== '') error.message += ' (' + at + ')'
  send({ t: 'error', error })
}

// position is the file and line of an error, as its stack tells it. That of a
// mistake in an ES module does not: it is looked for by compiling what remains as
// a function once imports and exports are gone.
function position (error, module) {
  const own = /(?:^|file:\/\/|[( ])(\/[^:\n]*):(\d+)/m
  let found = own.exec((error.stack || '').split(__filename)[0])
  if (found === null && error.name === 'SyntaxError') {
    try {
      const blank = text => text.replace(/[^\n]/g, ' ')
      const text = fs.readFileSync(module, 'utf8')
        .replace(/^[ \t]*import\b(?!\s*[.(])[^;'"`]*(['"])[^'"\n]*\1/gm, blank)
        .replace(/^[ \t]*export\s*[{*][^'";]*?(?:from\s*(['"])[^'"\n]*\1|\}(?!\s*from))/gm, blank)
        .replace(/^([ \t]*)export\s+default\b/gm, '$1_ =')
        .replace(/^([ \t]*)export\b/gm, '$1')
        .replace(/\bimport\.meta\b/g, 'globalThis')
      const { Script } = require('vm')
      new Script('async function _ () { "use strict";' + text + '\n}', { filename: module }) // eslint-disable-line no-new
    } catch (e) {
      if (e.message === error.message) found = own.exec(e.stack.split(__filename)[0])
    }
  }
  return found === null ? '' : found[1].slice(found[1].lastIndexOf('/') + 1) + ':' + found[2]
}

// find returns the function and what it is called on.
function find (name) {
  if (name === undefined) return [typeof target === 'function' ? target : undefined, undefined]
  for (const object of [target, namespace]) {
    if (object === null || object === undefined) continue
    const f = object[name]
    if (typeof f === 'function' && f !== objectPrototype[name] && name !== 'constructor') return [f, object]
  }
  return [undefined, undefined]
}

// ---- calls

class API {
  #call
  constructor (call) { this.#call = call }

  // signal is aborted when the call is cancelled.
  get signal () {
    const call = this.#call
    if (call.controller === null) {
      call.controller = new AbortController()
      if (call.cancelled) call.controller.abort()
    }
    return call.controller.signal
  }

  progress (done, total, text) {
    if (this.#call.over) return
    send({ t: 'progress', id: this.#call.id, done: +done || 0, total: +total || 0, text: text === undefined ? '' : Text(text) })
  }

  log (level, text, meta) {
    log(this.#call.over ? 0 : this.#call.id, level, text, meta)
  }

  // retire says that this worker should get no other call.
  retire (why) { send({ t: 'error', error: { name: 'Error', message: Text(why), kind: 'late' } }) }

  // request asks the runtime. The promise is rejected with an error whose code is
  // the runtime's.
  request (method, params) {
    return request(this.#call.over ? 0 : this.#call.id, Text(method), params)
  }
}

function call (header, body) {
  const call = { id: header.id, max: header.max, controller: null, cancelled: false, over: false }
  const [f, self] = find(header.name)
  calls.set(call.id, call)
  if (f === undefined) {
    const what = header.name === undefined ? 'the module has no function as its default export' : 'the module has no function ' + header.name
    return end(call, { t: 'error', error: { name: 'TypeError', message: what, kind: 'absent' } })
  }
  let result
  try {
    result = apply(f, self, [parse(body), new API(call)])
    if (!isPromise(result)) return resolve(call, result)
  } catch (e) {
    return reject(call, e)
  }
  const ok = v => resolve(call, v)
  const not = e => reject(call, e)
  try {
    if (result instanceof Promise) apply(then, result, [ok, not])
    else result.then(ok, not)
  } catch (e) {
    reject(call, e)
  }
}

function end (call, header, body) {
  if (call.over) return
  call.over = true
  calls.delete(call.id)
  header.id = call.id
  if (call.cancelled) {
    header = { t: 'cancelled', id: call.id }
    body = undefined
  }
  send(header, body)
}

function resolve (call, value) {
  if (call.over) return
  let body
  try {
    if (value !== undefined) {
      body = stringify(value)
      if (body === undefined) throw new TypeError('a ' + typeof value + ' is no JSON')
    }
  } catch (e) {
    const error = thrown(e)
    error.kind = 'value'
    return end(call, { t: 'error', error })
  }
  if (body !== undefined && body.length * 3 > call.max) {
    const size = byteLength(body)
    if (size > call.max) {
      return end(call, { t: 'error', error: { name: 'RangeError', message: size + ' bytes, at most ' + call.max, kind: 'too_long' } })
    }
  }
  end(call, { t: 'result' }, body)
}

function reject (call, e) { end(call, { t: 'error', error: thrown(e) }) }

function cancel (id) {
  const call = calls.get(id)
  if (call === undefined) return
  call.cancelled = true
  if (call.controller !== null) call.controller.abort()
}

// thrown describes whatever was thrown. It must not throw itself.
function thrown (e) {
  const error = { name: 'Error', message: '' }
  const get = name => {
    try {
      const v = e[name]
      return v === undefined || v === null ? '' : Text(v)
    } catch {
      return ''
    }
  }
  if (e !== null && typeof e === 'object') {
    error.name = get('name') || 'Error'
    error.message = get('message')
    if (error.message === '' && !(e instanceof Error)) {
      try { error.message = stringify(e) } catch { error.message = 'an object' }
    }
    let code = get('code')
    const cause = causeOf(e)
    if (cause !== undefined) {
      error.cause = cause.text.slice(0, stackLimit)
      code = code || cause.code
    }
    if (code !== '') error.code = code.slice(0, 200)
    const stack = get('stack')
    if (stack !== '') error.stack = stack.slice(0, stackLimit)
  } else {
    error.name = typeof e
    try { error.message = Text(e) } catch { error.message = typeof e }
  }
  error.name = error.name.slice(0, 200)
  error.message = Text(error.message).slice(0, stackLimit)
  return error
}

// causeOf is why an error was thrown, where it says so: fetch tells only there
// which connection failed. It must not throw either.
function causeOf (e) {
  try {
    let { cause } = e
    if (cause === null || typeof cause !== 'object') return undefined
    const code = typeof cause.code === 'string' ? cause.code : ''
    if (Text(cause.message || '') === '' && cause.errors && cause.errors.length > 0) cause = cause.errors[0]
    const text = Text(cause.message || '')
    return text === '' && code === '' ? undefined : { text: text || code, code }
  } catch {
    return undefined
  }
}

// ---- what a tool asks of the runtime

function request (id, method, params) {
  return new Promise((resolve, reject) => {
    let body
    if (params !== undefined) body = stringify(params)
    const n = ++lastRequest
    asked.set(n, { resolve, reject })
    send({ t: 'request', id: n, call: id, name: method }, body)
  })
}

function answer (header, body) {
  const one = asked.get(header.id)
  if (one === undefined) return
  asked.delete(header.id)
  if (header.error === undefined) return one.resolve(body === undefined ? undefined : parse(body))
  const e = new Error(header.error.message)
  e.name = header.error.name
  e.code = header.error.code
  one.reject(e)
}

// ---- what a tool prints

let format = null

function log (id, level, text, meta) {
  let body
  if (meta !== undefined) {
    try { body = stringify(meta) } catch { body = stringify(Text(meta)) }
  }
  if (body !== undefined && body.length > logLimit) body = stringify('(' + body.length + ' characters left out)')
  text = Text(text)
  if (text.length > logLimit) text = text.slice(0, logLimit)
  send({ t: 'log', id, name: Text(level), text }, body)
}

function print (level) {
  return (...args) => {
    if (format === null) format = require('util').format
    let id = 0
    if (calls.size === 1) id = calls.keys().next().value
    log(id, level, apply(format, undefined, args))
  }
}

console.debug = console.trace = print('debug')
console.log = console.info = print('info')
console.warn = print('warn')
console.error = print('error')
console.assert = (ok, ...args) => { if (!ok) console.error('Assertion failed', ...args) }

// ---- what goes wrong where nobody waits for it

process.on('uncaughtException', e => {
  if (over) return
  const error = thrown(e)
  error.kind = 'late'
  if (calls.size === 0) return send({ t: 'error', error })
  for (const call of [...calls.values()]) {
    call.cancelled = false
    end(call, { t: 'error', error })
  }
})
process.on('exit', () => { over = true })

if (!poll(10000)) exit(70)
