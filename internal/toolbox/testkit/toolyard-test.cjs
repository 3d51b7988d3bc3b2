'use strict'
// The module toolyard:test, for tests of tools. createToolInstance makes a tool as
// a worker of the runtime has it, with the runtime's own adapter, but in the
// process of the test; createMcpServer puts a server of MCP around one.
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { AsyncLocalStorage } = require('node:async_hooks')
const { fileURLToPath, pathToFileURL } = require('node:url')

const { hasOwn } = Object
const isObject = v => v !== null && typeof v === 'object'

const adapt = loadAdapter()

// loadAdapter gives the runtime's adapter. Where a runner has modules of its own
// kind, as jest, it gets one that can do what those of Node can.
function loadAdapter () {
  if (typeof module.constructor?.prototype?._compile === 'function') return require('./adapter.cjs')
  class Own {
    static createRequire = require('node:module').createRequire
    exports = {}
    constructor (id) { this.id = id }
    _compile (text, filename) {
      this.filename = filename
      // eslint-disable-next-line no-new-func
      const f = new Function('module', 'exports', 'require', '__filename', '__dirname', text)
      f(this, this.exports, require, filename, path.dirname(filename))
    }
  }
  const file = path.join(__dirname, 'adapter.cjs')
  const made = new Own(file)
  made._compile(fs.readFileSync(file, 'utf8'), file)
  return made.exports
}

// ---- the environment

// Each instance has an environment of its own, also as process.env, in its calls
// and in what they wait for.
const sessions = new AsyncLocalStorage()
const outside = process.env
const env = () => sessions.getStore() || outside

process.env = new Proxy({}, {
  get: (_, name) => typeof name === 'string' ? env()[name] : undefined,
  set: (_, name, value) => { env()[name] = String(value); return true },
  has: (_, name) => name in env(),
  deleteProperty: (_, name) => delete env()[name],
  defineProperty: (_, name, what) => { env()[name] = String(what.value); return true },
  ownKeys: () => Reflect.ownKeys(env()),
  getOwnPropertyDescriptor: (_, name) => hasOwn(env(), name)
    ? { value: env()[name], writable: true, enumerable: true, configurable: true }
    : undefined
})

const inherited = ['PATH', 'HOME', 'TMPDIR', 'TEMP', 'TMP', 'LANG', 'LC_ALL', 'TZ', 'SystemRoot', 'NODE_PATH']

function ownEnvironment (given) {
  const own = Object.create(null)
  for (const name of inherited) if (hasOwn(outside, name)) own[name] = outside[name]
  for (const name of Object.keys(given)) if (given[name] !== undefined && given[name] !== null) own[name] = asText(given[name])
  return own
}

// complete adds what the tool says itself: its runtime config, then the defaults of
// its schema.
function complete (own, values) {
  const config = isObject(values.getRuntimeConfig) ? values.getRuntimeConfig.environment : undefined
  for (const name of Object.keys(config || {})) if (!hasOwn(own, name)) own[name] = asText(config[name])
  const schema = isObject(values.getSchema) ? values.getSchema.environment : undefined
  const properties = isObject(schema) && isObject(schema.properties) ? schema.properties : {}
  for (const name of Object.keys(properties)) {
    const fallback = isObject(properties[name]) ? properties[name].default : undefined
    if (fallback !== undefined && fallback !== null && !hasOwn(own, name)) own[name] = asText(fallback)
  }
  if (!hasOwn(own, 'NODE_ENV')) own.NODE_ENV = 'production'
}

const asText = value => typeof value === 'string' ? value : JSON.stringify(value)

// ---- createToolInstance

// createToolInstance makes a tool of a module's path or URL, or of a module that is
// loaded already. Options:
//
//   env                 variables, as .env would have them
//   data                the tool's folder data: a path, or the items of its storage;
//                       without it an empty folder, which is removed at the end
//   allowedDirectories  what getAllowedDirectories gives; without it data
//   ask                 answers api.ask(question)
//   tools               functions by name, for api.tools
//   signal              an AbortSignal, for api.signal
//   name, dir           the tool's name and folder, where there is no path to tell
//
// The instance has execute(params, mode) and the module's other functions, each
// with the this of a call; logs, progress, questions and artifacts, which are what
// the tool told the runtime; storage and environment, as the tool sees them; and
// definition, what it says of itself.
async function createToolInstance (source, options = {}) {
  const file = fileOf(source)
  const setup = setupOf(file, options)
  const own = ownEnvironment(options.env || {})
  return sessions.run(own, async () => {
    const loaded = file === undefined ? source : await load(file)
    const adapted = adapt(loaded, setup)
    const told = { logs: [], progress: [], questions: [], artifacts: [] }
    const host = hostOf(options, told)
    const definition = await adapted.describe(undefined, hostOf(options, { logs: [], progress: [], questions: [], artifacts: [] }))
    complete(own, definition.values)
    const call = f => (...args) => sessions.run(own, () => f(...args))
    const { api } = adapted.context(host).run(function () { return this }, [])
    const instance = {
      name: setup.name,
      dir: setup.dir,
      data: setup.data,
      definition,
      ...told,
      storage: api.storage,
      environment: { get: call(name => api.environment.get(name)), set: call((name, value) => api.environment.set(name, value)) },
      execute: call(async (params, mode = 'execute') => adapted.execute({ params: copied(params), mode }, host))
    }
    for (const name of [...definition.methods, ...helpers]) {
      if (!hasOwn(instance, name)) instance[name] = call((...args) => { const c = adapted.context(host); return c.run(c.find(name), args) })
    }
    return instance
  })
}

// helpers are what a tool's this has besides its own functions.
const helpers = ['getAllowedDirectories', 'initializeFilesystem', 'resolvePath', 'resolvePromptManagerPath', 'requireToolModule', 'importToolModule', 'validateParameters']

// copied makes parameters what they are when they come over the wire.
function copied (params) {
  return params === undefined ? {} : JSON.parse(JSON.stringify(params))
}

function fileOf (source) {
  if (source instanceof URL) return fileURLToPath(source)
  if (typeof source !== 'string') return undefined
  return source.startsWith('file:') ? fileURLToPath(source) : path.resolve(source)
}

function setupOf (file, options) {
  const dir = path.resolve(options.dir || (file === undefined ? '.' : path.dirname(file)))
  const data = dataOf(options.data)
  const named = file === undefined ? undefined : /^(.+)\.tool\.[cm]?js$/.exec(path.basename(file))
  return {
    name: options.name || (named ? named[1] : path.basename(dir)),
    dir,
    data,
    userHome: os.homedir(),
    directories: (options.allowedDirectories || [data]).map(d => path.resolve(dir, d))
  }
}

function dataOf (given) {
  if (typeof given === 'string') {
    fs.mkdirSync(given, { recursive: true })
    return path.resolve(given)
  }
  const dir = fs.mkdtempSync(path.join(fs.realpathSync(os.tmpdir()), 'toolyard-test-'))
  process.once('exit', () => fs.rmSync(dir, { recursive: true, force: true }))
  if (isObject(given)) fs.writeFileSync(path.join(dir, 'storage.json'), JSON.stringify(given))
  return dir
}

let loads = 0

// load imports a module anew, so that no instance has the state of another.
async function load (file) {
  const real = fs.realpathSync(file)
  delete require.cache[real]
  return import(pathToFileURL(real).href + '?instance=' + ++loads)
}

// hostOf is what the adapter reaches the runtime by. Here it keeps what the tool
// says, and answers with what the test has given.
function hostOf (options, told) {
  return {
    log: (level, text, meta) => { told.logs.push(meta === undefined ? { level, text } : { level, text, meta }) },
    progress: (done, total, text) => { told.progress.push({ done: +done || 0, total: +total || 0, text: text === undefined ? '' : String(text) }) },
    get signal () { return options.signal || never.signal },
    retire: why => { throw new Error(why) },
    request: async (method, params) => {
      switch (method) {
        case 'ask':
          told.questions.push(params)
          if (typeof options.ask !== 'function') throw failed('NO_CHANNEL', 'nobody can be asked in this test: give createToolInstance the option ask')
          return options.ask(params)
        case 'call': {
          const f = (options.tools || {})[params.name]
          if (typeof f !== 'function') throw failed('TOOL_NOT_FOUND', 'there is no tool ' + params.name + ' in this test: give createToolInstance the option tools')
          return f(params.args)
        }
        case 'artifact':
          fs.accessSync(params.path)
          told.artifacts.push(params)
          return { id: 'art_' + String(told.artifacts.length).padStart(16, '0'), path: params.path }
      }
      throw failed('NOT_FOUND', 'the runtime has no ' + method)
    }
  }
}

const never = new AbortController()

function failed (code, message) {
  return Object.assign(new Error(message), { code })
}

// ---- createMcpServer

const protocols = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']

// createMcpServer is a server of MCP with one tool. handle takes a message of
// JSON-RPC, as an object, and gives the answer, or nothing for a notification;
// request gives the result, or throws the error. Parameters are checked and
// defaults applied as before every call.
function createMcpServer (tool) {
  if (!isObject(tool) || typeof tool.execute !== 'function' || !isObject(tool.definition)) {
    throw new TypeError('createMcpServer wants what createToolInstance gave; await it first')
  }
  const methods = {
    initialize: params => ({
      protocolVersion: protocols.includes(params.protocolVersion) ? params.protocolVersion : protocols[0],
      capabilities: { tools: {} },
      serverInfo: { name: tool.name, version: metadata(tool).version || '0.0.0' }
    }),
    ping: () => ({}),
    'tools/list': () => ({ tools: [listing(tool)] }),
    'tools/call': params => called(tool, params)
  }
  async function handle (message) {
    const { id, method } = isObject(message) ? message : {}
    if (typeof method !== 'string' || message.jsonrpc !== '2.0') return { jsonrpc: '2.0', id: id === undefined ? null : id, error: { code: -32600, message: 'the message is no request of JSON-RPC 2.0' } }
    if (id === undefined) return undefined
    if (!hasOwn(methods, method)) return { jsonrpc: '2.0', id, error: { code: -32601, message: 'there is no method ' + method } }
    try {
      return { jsonrpc: '2.0', id, result: copied(await methods[method](message.params || {})) }
    } catch (e) {
      return { jsonrpc: '2.0', id, error: { code: Number.isInteger(e.code) ? e.code : -32603, message: e.message } }
    }
  }
  let last = 0
  return {
    handle,
    async request (method, params) {
      const answer = await handle({ jsonrpc: '2.0', id: ++last, method, params })
      if (answer.error !== undefined) throw Object.assign(new Error(answer.error.message), { code: answer.error.code })
      return answer.result
    }
  }
}

const metadata = tool => isObject(tool.definition.values.getMetadata) ? tool.definition.values.getMetadata : {}

function parameters (tool) {
  const { getSchema } = tool.definition.values
  return isObject(getSchema) && isObject(getSchema.parameters) ? getSchema.parameters : undefined
}

function listing (tool) {
  const { name: title, description } = metadata(tool)
  return { name: tool.name, title, description, inputSchema: { type: 'object', ...parameters(tool) } }
}

async function called (tool, { name, arguments: args = {} }) {
  if (name !== tool.name) throw failed(-32602, 'there is no tool ' + name)
  const schema = parameters(tool)
  if (schema !== undefined) {
    args = withDefaults(copied(args), schema)
    const { errors } = tool.validateParameters(args, schema)
    if (errors.length > 0) return refusal({ code: 'VALIDATION_ERROR', message: errors.join('; ') })
  }
  try {
    return result(await tool.execute(args), tool)
  } catch (e) {
    return refusal(told(tool, isObject(e) ? e.code : undefined, isObject(e) && e.message ? String(e.message) : String(e)))
  }
}

// withDefaults fills in what is absent and has a default, in objects that are there
// as well.
function withDefaults (value, schema) {
  if (!isObject(value) || Array.isArray(value) || !isObject(schema.properties)) return value
  for (const name of Object.keys(schema.properties)) {
    const property = schema.properties[name]
    if (!isObject(property)) continue
    if (hasOwn(value, name)) withDefaults(value[name], property)
    else if (property.default !== undefined) value[name] = copied(property.default)
  }
  return value
}

const block = text => ({ type: 'text', text })

// result is what a call's value is to a client: MCP content as it is, an object
// also as structured content, everything else as text.
function result (value, tool) {
  if (value === undefined || value === null) return { content: [block('The tool returned nothing.')] }
  if (typeof value === 'string') return { content: [block(value)] }
  const text = JSON.stringify(value)
  if (!isObject(value) || Array.isArray(value)) return { content: [block(text)] }
  if (value.success === false) {
    const said = isObject(value.error) ? value.error : { message: value.error || value.message, code: value.error_code || value.code }
    return refusal(told(tool, said.code, String(said.message || 'the tool says that it had no success')))
  }
  if (Array.isArray(value.content)) return value
  return { content: [block(text)], structuredContent: JSON.parse(text) }
}

// told is an error with what the tool's author foresaw of it.
function told (tool, code, message) {
  const error = { code: code === undefined ? 'EXECUTION_ERROR' : String(code), message }
  const all = Array.isArray(tool.definition.values.getBusinessErrors) ? tool.definition.values.getBusinessErrors : []
  const known = all.find(e => isObject(e) && e.code === code) || all.find(e => isObject(e) && matches(e.match, message))
  if (known === undefined) return error
  const { description, solution, retryable } = known
  return { ...error, hint: solution, retryable, details: { business: { code: known.code, description, solution, retryable } } }
}

function matches (match, message) {
  if (typeof match === 'string') return match !== '' && message.includes(match)
  return isObject(match) && new RegExp(match.source, match.flags).test(message)
}

function refusal (error) {
  const text = error.hint ? error.message + '. ' + error.hint : error.message
  return { isError: true, content: [block(text)], structuredContent: { error } }
}

module.exports = { createToolInstance, createMcpServer }
