// A tool as they are written for the Prompt Manager: what it uses, and how, is what
// its own tools do.
import path from 'path'
import os from 'os'
import { URL } from 'url'
import { randomUUID } from 'crypto'
import { promises as fs } from 'fs'

const LIMIT = Number(process.env?.OLDER_LIMIT) || 7
const instances = new Map() // lives as long as the worker

class Store {
  constructor (file, logger) {
    this.file = file
    this.logger = logger
    this.items = []
  }

  static async load (toolDir, logger) {
    const dir = path.join(toolDir, 'data')
    await fs.mkdir(dir, { recursive: true })
    const store = new Store(path.join(dir, 'items.json'), logger)
    try {
      store.items = JSON.parse(await fs.readFile(store.file, 'utf-8')).items
    } catch (error) {
      if (error.code !== 'ENOENT') logger?.error('cannot be read', { error: error.message })
    }
    return store
  }

  async save () {
    const temporary = this.file + '.tmp'
    await fs.writeFile(temporary, JSON.stringify({ items: this.items }, null, 2), 'utf-8')
    await fs.rename(temporary, this.file)
  }
}

export default {
  getDependencies () { return {} },
  getMetadata () {
    return { id: 'older', name: '旧工具', description: '一个旧式工具', version: '2.0.0', category: 'system', author: 'us', tags: ['a'], scenarios: ['测试'], limitations: ['无'], dataStorage: { path: '~/.prompt-manager/toolbox/older/data/' } }
  },
  getSchema () {
    return {
      parameters: { type: 'object', properties: { method: { type: 'string', enum: ['write', 'read'] }, pages: { oneOf: [{ type: 'number', minimum: 1 }, { type: 'array', items: { type: 'number' } }] } }, required: ['method'] },
      environment: { type: 'object', properties: { ALLOWED_DIRECTORIES: { type: 'string', default: '["~/.prompt-manager"]' } }, required: [] }
    }
  },
  getBusinessErrors () {
    return [
      { code: 'PATH_OUTSIDE_SCOPE', description: '路径越权访问', match: /路径越权/, solution: '确保路径在允许的目录范围内', retryable: false },
      { code: 'FILE_NOT_FOUND', description: '文件不存在', match: /ENOENT|no such file/i, solution: '检查路径', retryable: false },
      { code: 'MISSING', description: '缺少参数', match: /缺少必需参数|missing.*required/i, solution: '提供参数', retryable: false }
    ]
  },

  async initializeDatabase () {
    const toolDir = this.__toolDir || path.join(os.homedir(), '.prompt-manager', 'toolbox', this.__toolName || 'older')
    return Store.load(toolDir, this.api?.logger)
  },

  async session () {
    const { api } = this
    if (api?.context?.sessionId) return api.context.sessionId
    const stored = api?.storage?.getItem('session')
    if (stored) return stored
    const made = randomUUID()
    api.storage.setItem('session', made)
    return made
  },

  // ownDirectories is how some tools find out by themselves what they may use.
  ownDirectories () {
    const { api } = this
    let dirs = ['~/.prompt-manager']
    const text = api.environment.get('ALLOWED_DIRECTORIES')
    if (text) dirs = JSON.parse(text.replace(/\\"/g, '"'))
    return dirs.map(dir => path.resolve(dir.replace(/^~/, os.homedir())))
  },

  parse (text) {
    if (text.startsWith('file://')) return new URL(text).pathname
    return text.startsWith('~') ? path.join(os.homedir(), text.slice(1)) : text
  },

  async execute (params, mode = 'execute') {
    const { api } = this
    api?.logger?.info('执行开始', { tool: this.__toolName, method: params.method, hasApi: !!api })
    try {
      const missing = (params.method === 'write' ? ['path', 'content'] : []).filter(field => !params[field])
      if (missing.length > 0) throw new Error(`方法 ${params.method} 缺少必需参数: ${missing.join(', ')}`)
      await this.initializeFilesystem()
      const module = await import('fs')
      const promises = module.promises
      const resolved = params.path ? this.resolvePromptManagerPath(this.parse(params.path)) : undefined
      switch (params.method) {
        case 'directories': return this._allowedDirectories ?? this.getAllowedDirectories()
        case 'own': return this.ownDirectories()
        case 'write': {
          await promises.mkdir(path.dirname(resolved), { recursive: true })
          await promises.writeFile(resolved, params.content, 'utf-8')
          return { bytesWritten: Buffer.byteLength(params.content, 'utf-8'), path: params.path }
        }
        case 'read': return await promises.readFile(resolved, 'utf-8')
        case 'list': return (await promises.readdir(resolved || this.resolvePromptManagerPath(), { withFileTypes: true })).map(e => ({ name: e.name, type: e.isDirectory() ? 'directory' : 'file' }))
        case 'relative': return path.relative((this._allowedDirectories ?? this.getAllowedDirectories())[0], resolved)
        case 'media': return { base64: (await promises.readFile(resolved)).toString('base64'), mimeType: 'image/png' }
        case 'session': return this.session()
        case 'add': {
          const store = await this.initializeDatabase()
          store.items.push(params.content)
          await store.save()
          return { total: store.items.length, limit: LIMIT }
        }
        case 'kept': {
          if (!instances.has(this.__toolName)) instances.set(this.__toolName, { used: 0 })
          return ++instances.get(this.__toolName).used
        }
        case 'modules': {
          const named = await this.importToolModule('named')
          const Named = named.Named && typeof named.Named === 'function' ? named.Named : named.default
          const plain = (await this.importToolModule('plain')).default
          const both = await this.importToolModule('both')
          return [new Named({ data: 1 }).text, plain(2), both.lookup?.('x') ?? both.default?.lookup?.('x'), this.requireToolModule('plain')(3)]
        }
        case 'child': {
          const { exec } = await import('child_process')
          const { promisify } = await import('util')
          return (await promisify(exec)(`"${process.execPath}" -p 1+1`, { cwd: this.__toolDir, env: { PATH: process.env.PATH } })).stdout.trim()
        }
        case 'content': return { content: [{ type: 'text', text: this.describeItself() }] }
        case 'batch': return { success: false, total: 2, succeeded: 0, failed: 2, results: [{ index: 0, success: false, error: '任务不存在' }] }
      }
      throw new Error(`不支持的方法: ${params.method}`)
    } catch (error) {
      api?.logger?.error('执行失败', { method: params.method, error: error.message, stack: error.stack })
      throw error
    }
  },

  describeItself () { return '# ' + this.getMetadata().name }
}
