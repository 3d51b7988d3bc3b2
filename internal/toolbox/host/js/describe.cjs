'use strict'
// What describe does.
const { keys, defineProperty } = Object
const Text = String

const methodTime = 2000 // ms that one method may take
const maxFaults = 100
const maxDepth = 64

// optional are the methods that are called.
const optional = ['getMetadata', 'getSchema', 'getDependencies', 'getBusinessErrors', 'getRuntimeConfig', 'generateManual']

function isObject (v) { return v !== null && typeof v === 'object' }

// describe asks the module what it is. It fails for nothing that the module does:
// what goes wrong is among the problems.
module.exports = async (tool, context, members, peek, { join, show }) => {
  const methods = [...members(tool)].filter(n => typeof peek(tool, n) === 'function')
  if (typeof tool === 'function' && !methods.includes('execute')) methods.push('execute')
  const values = {}
  const problems = []
  if (!isObject(tool) && typeof tool !== 'function') problems.push({ method: '', message: 'the module exports ' + (tool === undefined ? 'nothing' : show(tool)) + ' instead of a tool' })
  for (const method of optional) {
    if (!methods.includes(method)) continue
    let value
    try {
      value = await soon(context.run(context.find(method), []))
    } catch (e) {
      problems.push({ method, message: isObject(e) && e.message ? Text(e.message) : Text(e), threw: true })
      continue
    }
    if (value === undefined) {
      problems.push({ method, message: 'it returned nothing' })
      continue
    }
    const state = { left: 100000, seen: new Set(), note: (at, what) => { if (problems.length < maxFaults) problems.push({ method, message: (at === '' ? 'the result' : at.replace(/^\./, '')) + ' ' + what }) } }
    try {
      const clean = plain(value, '', state, join)
      if (clean !== undefined) values[method] = clean
    } catch (e) {
      problems.push({ method, message: 'the result cannot be read: ' + e.message })
    }
  }
  return { methods, values, problems }
}

// soon is a promise that does not wait for ever.
function soon (value) {
  if (!isObject(value) || typeof value.then !== 'function') return value
  let timer
  const limit = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error('it did not answer within ' + methodTime / 1000 + ' s')), methodTime)
  })
  return Promise.race([value, limit]).finally(() => clearTimeout(timer))
}

// plain makes JSON of a value and notes what it had to leave out.
function plain (value, at, state, join) {
  if (--state.left < 0) throw new Error('it is too large')
  switch (typeof value) {
    case 'string': case 'boolean': return value
    case 'number':
      if (Number.isFinite(value)) return value
      state.note(at, 'is ' + value + ', which is no JSON')
      return undefined
    case 'undefined':
      state.note(at, 'is undefined')
      return undefined
    case 'object': break
    default:
      state.note(at, 'is a ' + typeof value + ', which is no JSON')
      return undefined
  }
  if (value === null) return null
  if (value instanceof RegExp) return { source: value.source, flags: value.flags }
  if (state.seen.has(value)) {
    state.note(at, 'contains itself')
    return undefined
  }
  if (state.seen.size > maxDepth) {
    state.note(at, 'is nested too deeply')
    return undefined
  }
  if (typeof value.toJSON === 'function') return plain(value.toJSON(), at, state, join)
  if (value instanceof Map || value instanceof Set || typeof value.then === 'function') {
    state.note(at, 'is a ' + (value.constructor && value.constructor.name) + ', which is no JSON')
    return undefined
  }
  state.seen.add(value)
  let copy
  if (Array.isArray(value)) {
    copy = value.map((v, i) => { const c = plain(v, at + '[' + i + ']', state, join); return c === undefined ? null : c })
  } else {
    copy = {}
    for (const name of keys(value)) {
      let v
      try {
        v = value[name]
      } catch (e) {
        state.note(join(at, name), 'cannot be read: ' + (e && e.message))
        continue
      }
      const c = plain(v, join(at, name), state, join)
      if (c !== undefined) defineProperty(copy, name, { value: c, enumerable: true, configurable: true, writable: true })
    }
  }
  state.seen.delete(value)
  return copy
}
