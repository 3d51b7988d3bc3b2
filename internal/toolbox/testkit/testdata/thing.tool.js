import { createRequire } from 'node:module'

let calls = 0
const started = process.env.MODE // what the module itself sees

export default {
  greeting: 'hello',
  getMetadata () { return { name: 'Thing', description: 'For tests. Use it there.', version: '2.0.1' } },
  getSchema () {
    return {
      parameters: {
        type: 'object',
        required: ['do'],
        properties: {
          do: { type: 'string', enum: ['count', 'store', 'env', 'ask', 'call', 'keep', 'this', 'fail', 'mcp', 'list', 'text', 'nothing', 'unsuccessful', 'stop'] },
          key: { type: 'string', default: 'k' },
          nested: { type: 'object', properties: { depth: { type: 'integer', default: 3 } } }
        }
      },
      environment: { type: 'object', properties: { SPEED: { type: 'integer', default: 7 }, MODE: { type: 'string' } } }
    }
  },
  getBusinessErrors () {
    return [{ code: 'BROKEN', description: 'it is broken', match: /br[o0]ken/i, solution: 'Mend it.', retryable: true }]
  },
  getRuntimeConfig () { return { environment: { COLOUR: 'red' } } },
  greet (who) { return `${this.greeting} ${who} of ${this.__toolName}` },
  async execute (params, mode) {
    const { api } = this
    switch (params.do) {
      case 'count': return { calls: ++calls }
      case 'store':
        api.storage.setItem(params.key, { n: (api.storage.getItem(params.key)?.n ?? 0) + 1 })
        return api.storage.getItem(params.key)
      case 'env': {
        await new Promise(resolve => setImmediate(resolve))
        const { get } = api.environment
        return { started, speed: get('SPEED'), colour: get('COLOUR'), mode: get('MODE'), process: process.env.MODE, host: get('ONLY_OUTSIDE'), names: Object.keys(process.env).includes('SPEED') }
      }
      case 'ask': return { answer: await api.ask('really?') }
      case 'call': return { got: await api.tools.other({ n: 1 }) }
      case 'keep': return api.artifact('thing.tool.js')
      case 'this': {
        const { greet } = this
        api.logger.info('greeting', { who: 'you' })
        api.progress(1, 2, 'half')
        const path = createRequire(import.meta.url)('node:path')
        return { text: greet('you'), mode, directories: this.getAllowedDirectories().map(d => path.basename(d)), valid: this.validateParameters({}).valid, dir: this.__toolDir }
      }
      case 'fail': throw new Error('the thing is broken')
      case 'mcp': return { content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }] }
      case 'list': return [params.key, params.nested]
      case 'text': return 'words'
      case 'nothing': return undefined
      case 'unsuccessful': return { success: false, error: 'no luck', code: 'LUCK' }
      case 'stop': return { aborted: api.signal.aborted }
    }
  }
}
