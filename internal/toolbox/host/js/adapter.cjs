'use strict'
// Makes a tool of the toolbox out of a loaded module: what a worker of it can be
// asked is describe and execute, as the package comment of internal/toolbox/host
// says. It is compiled at each start of a worker, so what not every call needs is
// in files of its own, whose texts stand at the end of this one as parts; and
// nothing is required here that Node has not loaded anyway.
const { hasOwn, create, keys, defineProperty, getPrototypeOf, prototype: objectPrototype } = Object
const { stringify } = JSON
const { apply, set } = Reflect
const { bind } = Function.prototype
const { Promise } = globalThis
const { resolve } = Promise
const { then } = Promise.prototype
const Text = String

// part loads a file of those that wait until they are needed.
const compiled = create(null)
function part (name) {
  if (compiled[name] === undefined) {
    const Module = module.constructor
    const m = new Module('toolyard:' + name)
    m._compile(parts[name], module.filename + ':' + name)
    compiled[name] = m.exports
  }
  return compiled[name]
}

module.exports = (loaded, setup) => {
  const tool = unwrap(loaded)
  if (!(tool instanceof Promise)) return adapt(tool, setup)
  return tool.then(tool => adapt(unwrap({ default: tool }), setup))
}

function adapt (tool, setup) {
  let storage
  const session = {
    setup,
    tool,
    environment: environment(),
    get storage () { return storage || (storage = part('storage')(setup)) }
  }
  const make = contexts(session)
  const clean = guard()
  return {
    // context is what a call runs in, for tests of a tool's other functions.
    context: make,
    async describe (_, host) {
      return part('describe')(tool, make(host), members, peek, part('validate'))
    },
    execute ({ params, mode, session }, host) {
      host.session = session
      const call = make(host)
      const f = call.find('execute') || (typeof tool === 'function' ? tool : undefined)
      if (f === undefined) throw coded(new TypeError('the tool ' + setup.name + ' has no function execute'), 'NO_EXECUTE')
      let result
      try {
        result = call.run(f, [params === undefined || params === null ? {} : params, mode])
      } catch (e) {
        clean(host)
        throw e
      }
      if (!isObject(result) || typeof result.then !== 'function') {
        clean(host)
        return result
      }
      return apply(then, apply(resolve, Promise, [result]), [v => { clean(host); return v }, e => { clean(host); throw e }])
    }
  }
}

// unwrap gives what the module offers as a tool: its default export, also where a
// compiler has put that into a CommonJS module, an object of a class, or the
// module itself.
function unwrap (loaded) {
  let tool = hasOwn(loaded, 'default') ? loaded.default : loaded
  if (isObject(tool) && tool.__esModule === true && tool.default !== undefined) tool = tool.default
  if (typeof tool === 'function' && isClass(tool)) tool = new tool() // eslint-disable-line new-cap
  return tool
}

function isObject (v) { return v !== null && typeof v === 'object' }
function isClass (f) { return /^class\b/.test(Function.prototype.toString.call(f)) }

function coded (error, code) {
  error.code = code
  return error
}

// guard gives a function that fails when what all objects inherit is no longer what
// it was when the module was loaded. The worker gets no other call then: nobody
// knows what else would be wrong.
function guard () {
  const roots = [objectPrototype, Array.prototype, Function.prototype]
  const before = roots.map(r => keys(r).length)
  const { toString, valueOf, hasOwnProperty } = objectPrototype
  return host => {
    let fine = objectPrototype.toString === toString && objectPrototype.valueOf === valueOf && objectPrototype.hasOwnProperty === hasOwnProperty
    for (let i = 0; i < roots.length; i++) fine = fine && keys(roots[i]).length === before[i]
    if (fine) return
    const what = keys(objectPrototype).concat(keys(Array.prototype), keys(Function.prototype)).join(', ') || 'a method of all objects'
    const error = coded(new Error('the tool changed what all objects inherit: ' + what), 'PROTOTYPE_POLLUTION')
    host.retire(error.message)
    throw error
  }
}

// ---- this

// contexts prepares what calls get as their this, and gives the function that
// makes it for one call.
//
// Of an object literal each call has its own: what a call writes on it is gone
// with the call, unless the tool's object has a property of that name. An object
// of a class is this itself, as its private members want it; only its api is
// another one in each call.
function contexts (session) {
  const { tool, setup } = session
  const helpers = makeHelpers(session)
  if (isObject(tool) && isInstance(tool) && Object.isExtensible(tool)) return instances(session, helpers)
  const base = create(objectPrototype)
  base.__toolDir = setup.dir
  base.__toolName = setup.name
  base._filesystemInitialized = false
  base._allowedDirectories = null
  const bound = []
  const own = members(tool)
  for (const name of keys(helpers)) if (!own.has(name)) bound.push([name, helpers[name]])
  for (const name of own) {
    const value = peek(tool, name)
    if (typeof value === 'function' && !isClass(value)) {
      bound.push([name, value])
      continue
    }
    defineProperty(base, name, {
      enumerable: true,
      configurable: true,
      get () { return tool[name] },
      set (v) {
        if (!set(tool, name, v)) defineProperty(this, name, { value: v, enumerable: true, configurable: true, writable: true })
      }
    })
  }
  return host => {
    const self = create(base)
    if (!hasOwn(base, 'api')) self.api = makeAPI(host, session)
    for (let i = 0; i < bound.length; i++) self[bound[i][0]] = apply(bind, bound[i][1], [self])
    return {
      find: name => typeof self[name] === 'function' ? self[name] : undefined,
      run: (f, args) => apply(f, self, args)
    }
  }
}

function isInstance (v) {
  const prototype = getPrototypeOf(v)
  return prototype !== null && prototype !== objectPrototype && v[Symbol.toStringTag] !== 'Module' && getPrototypeOf(prototype) !== null
}

function instances (session, helpers) {
  const { tool, setup } = session
  const { AsyncLocalStorage } = require('async_hooks')
  const calls = new AsyncLocalStorage()
  let last
  const give = (name, what) => {
    if (!(name in tool)) defineProperty(tool, name, { configurable: true, enumerable: false, ...what })
  }
  give('api', { get: () => calls.getStore() || last })
  give('__toolDir', { value: setup.dir, writable: true })
  give('__toolName', { value: setup.name, writable: true })
  for (const name of keys(helpers)) give(name, { value: apply(bind, helpers[name], [tool]), writable: true })
  for (const name of members(tool)) {
    const value = peek(tool, name)
    if (typeof value !== 'function' || isClass(value) || hasOwn(tool, name)) continue
    defineProperty(tool, name, { configurable: true, enumerable: false, writable: true, value: apply(bind, value, [tool]) })
  }
  return host => {
    const api = last = makeAPI(host, session)
    return {
      find: name => typeof tool[name] === 'function' ? tool[name] : undefined,
      run: (f, args) => calls.run(api, () => apply(f, tool, args))
    }
  }
}

// members are the names of what an object or a function has, an object's class
// included.
function members (object) {
  const names = new Set()
  if (typeof object === 'function') return new Set(keys(object))
  if (!isObject(object)) return names
  for (let o = object; o !== null && o !== objectPrototype; o = getPrototypeOf(o)) {
    for (const name of o === object ? keys(o) : Object.getOwnPropertyNames(o)) {
      if (name !== 'constructor' && name !== '__proto__') names.add(name)
    }
  }
  return names
}

function peek (object, name) {
  try { return object[name] } catch { return undefined }
}

// ---- this.api

function makeAPI (host, session) {
  let logger, tools
  return {
    environment: session.environment,
    context: { sessionId: host.session },
    get storage () { return session.storage },
    get logger () { return logger || (logger = makeLogger(host)) },
    get tools () { return tools || (tools = part('reach').tools(host)) },
    get signal () { return host.signal },
    progress: (done, total, text) => host.progress(done, total, text),
    ask: question => part('reach').ask(host, question),
    artifact: (file, more) => part('reach').artifact(host, session.setup, file, more)
  }
}

function makeLogger (host) {
  const level = name => (message, ...meta) => {
    host.log(name, isObject(message) ? readable(message) : Text(message), meta.length === 0 ? undefined : loggable(meta.length === 1 ? meta[0] : meta))
  }
  return { debug: level('debug'), info: level('info'), log: level('info'), warn: level('warn'), error: level('error') }
}

function readable (value) {
  if (value instanceof Error) return value.stack || Text(value)
  try { return stringify(value) || Text(value) } catch { return Text(value) }
}

// loggable shows errors, which have nothing that JSON would write.
function loggable (value) {
  if (value instanceof Error) return { ...value, name: value.name, message: value.message, stack: value.stack }
  if (!isObject(value)) return typeof value === 'bigint' || typeof value === 'symbol' || typeof value === 'function' ? Text(value) : value
  if (Array.isArray(value)) return value.some(v => v instanceof Error) ? value.map(loggable) : value
  let copy = value
  for (const name of keys(value)) {
    if (value[name] instanceof Error) {
      if (copy === value) copy = { ...value }
      copy[name] = loggable(value[name])
    }
  }
  return copy
}

// environment is that of the process, which is the tool's own.
function environment () {
  const { env } = process
  return {
    get: name => hasOwn(env, name) ? env[name] : undefined,
    // set lasts as long as the worker. It is asynchronous only for tools that wait.
    set: async (name, value) => {
      if (value === undefined || value === null) delete env[name]
      else env[name] = typeof value === 'string' ? value : isObject(value) ? stringify(value) : Text(value)
    }
  }
}

// ---- helpers of this

function makeHelpers (session) {
  const { setup } = session
  let rest
  const helpers = () => rest || (rest = part('helpers')(setup))
  function resolvePath (p) { return helpers().resolvePath(this, p) }
  return {
    getAllowedDirectories () { return [...setup.directories] },
    async initializeFilesystem () {
      if (this._filesystemInitialized === true) return
      this._allowedDirectories = this.getAllowedDirectories()
      this._filesystemInitialized = true
    },
    resolvePath,
    resolvePromptManagerPath: resolvePath,
    requireToolModule (name) { return helpers().requireModule(name) },
    async importToolModule (name) { return helpers().importModule(name) },
    validateParameters (params, schema) { return part('validate').validate(this, params, schema) }
  }
}

