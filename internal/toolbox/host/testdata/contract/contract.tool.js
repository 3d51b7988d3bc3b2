// The tool that the contract calls. Each method shows one thing that a tool may
// use; tool.py is the same in Python.
import path from 'path'

let calls = 0 // state of the module

export default {
  shared: { n: 0 },
  getMetadata () {
    return {
      id: 'contract',
      name: 'Contract',
      description: 'shows what a tool may use',
      version: '1.2.3',
      category: 'test',
      author: 'us',
      tags: ['a', 'b'],
      scenarios: ['in tests'],
      limitations: ['only there']
    }
  },
  getSchema () {
    return {
      parameters: { type: 'object', properties: { method: { type: 'string' }, n: { type: 'integer', minimum: 1 } }, required: ['method'] },
      environment: { type: 'object', properties: { GREETING: { type: 'string', default: 'hi' }, LIMIT: { type: 'number', default: 3 } } }
    }
  },
  getDependencies () { return { lodash: '^4.17.21', './local.js': 'local', docker: '>=20' } },
  getBusinessErrors () {
    return [
      { code: 'OUT_OF_STOCK', description: 'nothing is left', match: /nothing\s+left/i, solution: 'Order more.', retryable: true },
      { code: 'PATH_OUTSIDE', description: 'a path outside', match: /路径越权/, solution: 'Stay inside.', retryable: false }
    ]
  },
  getRuntimeConfig () {
    return { sandboxType: 'nodejs', maxMemory: 256, maxExecutionTime: 10, allowedDirectories: ['~/.prompt-manager/toolbox/{toolname}/data'], networkAccess: ['example.org'], environment: { NODE_ENV: 'production', N: 1 }, shared: false, concurrencySafe: true }
  },
  generateManual () { return '# ' + this.__toolName + '\n' + this.title() },
  title () { return 'made by ' + this.__toolName },

  async execute (params, mode) {
    const { api } = this
    switch (params.method) {
      case 'identity': return { dir: this.__toolDir, name: this.__toolName, mode, cwd: process.cwd() }
      case 'count': return { calls: ++calls, shared: ++this.shared.n, own: (this.own = (this.own || 0) + 1) }
      case 'bound': {
        const { title, getMetadata } = this
        return title() + ' ' + getMetadata().version
      }
      case 'environment': return { get: api.environment.get('GREETING'), process: process.env.GREETING, none: api.environment.get('NOT_THERE') === undefined, names: Object.keys(process.env).sort() }
      case 'setEnvironment':
        api.environment.set('GREETING', params.value)
        return process.env.GREETING
      case 'log':
        api.logger.debug('a debug')
        api.logger.info('an info', { n: 1 })
        api.logger.warn('a warning', ['x'])
        api.logger.error('an error', { error: new Error('inner').message })
        console.log('printed', { a: 1 })
        process.stderr.write('raw error\n')
        return 'logged'
      case 'directories':
        await this.initializeFilesystem()
        return this.getAllowedDirectories()
      case 'resolve': return params.old ? this.resolvePromptManagerPath(params.path) : this.resolvePath(params.path)
      case 'require': return typeof this.requireToolModule(params.name)
      case 'import': {
        const m = await this.importToolModule(params.name)
        return { keys: Object.keys(m).sort(), value: params.field ? m[params.field] : typeof m.default }
      }
      case 'resolveAll': return params.paths.map(p => { try { return this.resolvePath(p) } catch (e) { return { refused: e.code } } })
      case 'validateAll': return params.cases.map(c => this.validateParameters(c.value, c.schema))
      case 'validate': return this.validateParameters(params.params, params.schema)
      case 'progress':
        api.progress(1, 2, 'half')
        api.progress(2, 2)
        return 'done'
      case 'ask': return api.ask(params.question)
      case 'tool': return api.tools[params.name](params.args)
      case 'tools': {
        const { greet } = api.tools
        return [await greet({ who: 'a' }), typeof (await api.tools)]
      }
      case 'artifact': return api.artifact(params.path)
      case 'wait':
        api.progress(0, 1, 'waiting')
        return new Promise((resolve, reject) => {
          const { signal } = this.api
          const timer = setTimeout(() => resolve('not cancelled'), 20000)
          signal.addEventListener('abort', () => { clearTimeout(timer); reject(new Error('stopped')) })
        })
      case 'get': return { value: api.storage.getItem(params.key), none: api.storage.getItem(params.key) === undefined }
      case 'set': return api.storage.setItem(params.key, params.value) === undefined
      case 'add': return add(api.storage, params.key, params.n)
      case 'remove': return api.storage.removeItem(params.key) === undefined
      case 'clear': return api.storage.clear() === undefined
      case 'fill': return api.storage.setItem('large', 'x'.repeat(params.n))
      case 'copy': {
        const list = api.storage.getItem(params.key)
        list.push('only here')
        return api.storage.getItem(params.key)
      }
      case 'value': return params.value
      case 'throw': {
        const e = new (params.type ? globalThis[params.type] : Error)(params.message)
        if (params.code) e.code = params.code
        throw e
      }
      case 'concurrent': {
        this.mine = params.n
        api.progress(params.n, 0)
        await new Promise(resolve => setTimeout(resolve, 50))
        api.logger.info('call ' + params.n)
        return { n: params.n, mine: this.mine, same: this.api === api, base: path.basename(this.__toolDir) }
      }
    }
    return this.dies(params)
  },

  // dies has the ways in which a tool ends its worker, or nearly.
  dies ({ method, n }) {
    switch (method) {
      case 'exit': return process.exit(n)
      case 'throwLate':
        setTimeout(() => { throw new Error('thrown late') }, 1)
        return new Promise(() => {})
      case 'reject':
        Promise.reject(new Error('nobody cares'))
        return new Promise(() => {})
      case 'loop': for (;;);
      case 'never': return new Promise(() => {})
      case 'heap': {
        const all = []
        for (;;) all.push(new Array(10000).fill(Math.random()))
      }
      case 'buffers': {
        const all = []
        for (let i = 0; i < 20; i++) all.push(Buffer.alloc(100 << 20, 1))
        return all.length
      }
      case 'large': return 'x'.repeat(n)
      case 'cyclic': {
        const o = { a: 1 }
        o.o = o
        return o
      }
      case 'big': return { n: 10n }
      case 'undefined': return undefined
      case 'binary':
        process.stdout.write(Buffer.from([0, 255, 10, 1, 2, 0, 200]))
        return 'printed'
      case 'pollute':
        // eslint-disable-next-line no-extend-native
        Object.prototype.polluted = 'yes'
        // eslint-disable-next-line no-extend-native
        Object.prototype.toJSON = () => 'forged'
        return 'polluted'
      case 'function': return () => 1
    }
    throw new Error('there is no method ' + method)
  }
}

function add (storage, key, n) {
  for (let i = 0; i < n; i++) storage.setItem(key + process.pid + '-' + i, i)
  return n
}
