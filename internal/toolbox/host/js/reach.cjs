'use strict'
// What api.ask, api.artifact and api.tools do.
const fs = require('fs')
const path = require('path')
const Text = String

function isObject (v) { return v !== null && typeof v === 'object' }

exports.ask = (host, question) => {
  if (!isObject(question)) question = { text: Text(question) }
  if (question.text === undefined && question.question !== undefined) question = { ...question, text: Text(question.question) }
  return host.request('ask', question)
}

// artifact finds the file in the tool's folder or in data.
exports.artifact = (host, setup, file, more) => {
  const here = path.resolve(setup.dir, Text(file))
  const there = path.resolve(setup.data, Text(file))
  return host.request('artifact', { ...more, path: !fs.existsSync(here) && fs.existsSync(there) ? there : here })
}

// tools gives api.tools: each property is a function that calls the tool of
// that name. A tool that fails throws.
exports.tools = host => {
  return new Proxy(Object.create(null), {
    get (_, name) {
      if (typeof name !== 'string' || name === 'then') return undefined
      return async args => {
        const result = await host.request('call', { name, args: args === undefined ? {} : args })
        if (!isObject(result) || result.isError !== true) return result
        const error = isObject(result.structuredContent) && isObject(result.structuredContent.error) ? result.structuredContent.error : {}
        const text = Array.isArray(result.content) ? result.content.filter(c => isObject(c) && c.type === 'text').map(c => c.text).join('\n') : ''
        const failure = new Error(error.message || text || name + ' failed')
        failure.name = 'ToolError'
        failure.code = error.code
        failure.result = result
        throw failure
      }
    },
    has: (_, name) => typeof name === 'string' && name !== 'then'
  })
}
