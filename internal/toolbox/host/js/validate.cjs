'use strict'
// What validateParameters does.
const { hasOwn, keys } = Object
const { stringify } = JSON

const maxFaults = 100
const maxDepth = 64

function isObject (v) { return v !== null && typeof v === 'object' }

exports.validate = (self, params, schema) => {
  if (schema === undefined) {
    const own = typeof self.getSchema === 'function' ? self.getSchema() : undefined
    schema = isObject(own) ? own.parameters : undefined
  }
  const errors = []
  check(params, schema, 'parameters', { root: schema, errors, depth: 0 })
  return { valid: errors.length === 0, errors }
}
exports.join = join
exports.show = show

// check notes what in a value does not fit a JSON Schema (draft 2020-12; of its
// keywords all that look at the value itself, and references within the schema;
// format is a comment).
function check (value, schema, at, state) {
  if (schema === undefined || schema === true || state.errors.length >= maxFaults) return
  if (schema === false) return void state.errors.push(at + ': nothing is allowed here')
  if (!isObject(schema)) return
  if (state.depth >= maxDepth) return void state.errors.push(at + ': the schema or the value is nested too deeply')
  state = { ...state, depth: state.depth + 1 }
  if (typeof schema.$ref === 'string') check(value, follow(state.root, schema.$ref), at, state)
  const fault = (expected, got) => state.errors.push(at + ': expected ' + expected + ', got ' + (got === undefined ? show(value) : got))
  if (schema.type !== undefined) {
    const types = Array.isArray(schema.type) ? schema.type : [schema.type]
    if (!types.some(t => is(value, t))) return void fault(types.join(' or '))
  }
  if (Array.isArray(schema.enum) && !schema.enum.some(v => same(v, value))) fault('one of ' + schema.enum.map(show).join(', '))
  if (hasOwn(schema, 'const') && !same(schema.const, value)) fault(show(schema.const))
  if (typeof value === 'number') checkNumber(value, schema, fault)
  else if (typeof value === 'string') checkString(value, schema, fault)
  else if (Array.isArray(value)) checkArray(value, schema, at, state, fault)
  else if (isObject(value)) checkObject(value, schema, at, state, fault)
  checkCombined(value, schema, at, state, fault)
}

function checkNumber (value, schema, fault) {
  if (value < schema.minimum) fault('at least ' + schema.minimum)
  if (value > schema.maximum) fault('at most ' + schema.maximum)
  if (value <= schema.exclusiveMinimum) fault('more than ' + schema.exclusiveMinimum)
  if (value >= schema.exclusiveMaximum) fault('less than ' + schema.exclusiveMaximum)
  if (schema.multipleOf > 0) {
    const times = value / schema.multipleOf
    if (Math.abs(times - Math.round(times)) > 1e-9 * Math.max(1, Math.abs(times))) fault('a multiple of ' + schema.multipleOf)
  }
}

function checkString (value, schema, fault) {
  if (schema.minLength !== undefined || schema.maxLength !== undefined) {
    let length = 0
    for (const _ of value) length++ // eslint-disable-line no-unused-vars
    if (length < schema.minLength) fault('at least ' + schema.minLength + ' characters', length + '')
    if (length > schema.maxLength) fault('at most ' + schema.maxLength + ' characters', length + '')
  }
  if (typeof schema.pattern === 'string') {
    const pattern = regexp(schema.pattern)
    if (pattern !== undefined && !pattern.test(value)) fault('a text that matches ' + schema.pattern)
  }
}

function regexp (source) {
  for (const flags of ['u', '']) {
    try { return new RegExp(source, flags) } catch { /* the other flags may do */ }
  }
}

function checkArray (value, schema, at, state, fault) {
  if (value.length < schema.minItems) fault('at least ' + schema.minItems + ' items', value.length + '')
  if (value.length > schema.maxItems) fault('at most ' + schema.maxItems + ' items', value.length + '')
  const first = Array.isArray(schema.prefixItems) ? schema.prefixItems : Array.isArray(schema.items) ? schema.items : []
  const rest = Array.isArray(schema.items) ? schema.additionalItems : schema.items
  value.forEach((v, i) => check(v, i < first.length ? first[i] : rest, at + '[' + i + ']', state))
  if (schema.uniqueItems === true && value.some((v, i) => value.slice(0, i).some(w => same(v, w)))) fault('items that differ')
  if (schema.contains !== undefined) {
    const n = value.filter(v => fits(v, schema.contains, at, state)).length
    const least = schema.minContains === undefined ? 1 : schema.minContains
    if (n < least || n > schema.maxContains) fault('an item that fits contains', n + '')
  }
}

function checkObject (value, schema, at, state, fault) {
  const names = keys(value)
  const properties = isObject(schema.properties) ? schema.properties : {}
  const patterns = isObject(schema.patternProperties) ? keys(schema.patternProperties).map(p => [regexp(p), schema.patternProperties[p]]) : []
  for (const name of Array.isArray(schema.required) ? schema.required : []) {
    if (!hasOwn(value, name) || value[name] === undefined) state.errors.push(join(at, name) + ': is required')
  }
  if (names.length < schema.minProperties) fault('at least ' + schema.minProperties + ' properties', names.length + '')
  if (names.length > schema.maxProperties) fault('at most ' + schema.maxProperties + ' properties', names.length + '')
  for (const name of names) {
    if (value[name] === undefined) continue
    let known = false
    if (hasOwn(properties, name)) {
      known = true
      check(value[name], properties[name], join(at, name), state)
    }
    for (const [pattern, s] of patterns) {
      if (pattern === undefined || !pattern.test(name)) continue
      known = true
      check(value[name], s, join(at, name), state)
    }
    if (!known && schema.additionalProperties === false) state.errors.push(join(at, name) + ': is not known; known are ' + (keys(properties).join(', ') || 'none'))
    else if (!known) check(value[name], schema.additionalProperties, join(at, name), state)
    if (schema.propertyNames !== undefined) check(name, schema.propertyNames, join(at, name), state)
  }
  if (isObject(schema.dependentRequired)) {
    for (const name of keys(schema.dependentRequired)) {
      if (!hasOwn(value, name)) continue
      for (const other of schema.dependentRequired[name]) {
        if (!hasOwn(value, other)) state.errors.push(join(at, other) + ': is required with ' + name)
      }
    }
  }
  if (isObject(schema.dependentSchemas)) {
    for (const name of keys(schema.dependentSchemas)) if (hasOwn(value, name)) check(value, schema.dependentSchemas[name], at, state)
  }
}

function checkCombined (value, schema, at, state, fault) {
  for (const s of Array.isArray(schema.allOf) ? schema.allOf : []) check(value, s, at, state)
  if (Array.isArray(schema.anyOf) && !schema.anyOf.some(s => fits(value, s, at, state))) fault('one of the choices of anyOf')
  if (Array.isArray(schema.oneOf)) {
    const n = schema.oneOf.filter(s => fits(value, s, at, state)).length
    if (n !== 1) fault('exactly one of the choices of oneOf', n + ' that fit')
  }
  if (schema.not !== undefined && fits(value, schema.not, at, state)) fault('something that does not fit not')
  if (schema.if !== undefined) check(value, fits(value, schema.if, at, state) ? schema.then : schema.else, at, state)
}

function fits (value, schema, at, state) {
  const errors = []
  check(value, schema, at, { ...state, errors })
  return errors.length === 0
}

function follow (root, ref) {
  if (ref[0] !== '#') return true
  let at = root
  for (const part of ref.slice(1).split('/').filter(p => p !== '')) {
    const name = decodeURIComponent(part).replace(/~1/g, '/').replace(/~0/g, '~')
    if (!isObject(at) || !hasOwn(at, name)) return true
    at = at[name]
  }
  return at
}

function is (value, type) {
  switch (type) {
    case 'null': return value === null
    case 'array': return Array.isArray(value)
    case 'object': return isObject(value) && !Array.isArray(value)
    case 'integer': return Number.isInteger(value)
    case 'number': return typeof value === 'number' && !Number.isNaN(value)
    case 'string': case 'boolean': return typeof value === type // eslint-disable-line valid-typeof
  }
  return true
}

function same (a, b) {
  if (a === b) return true
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) return false
  const names = keys(a)
  return names.length === keys(b).length && names.every(n => hasOwn(b, n) && same(a[n], b[n]))
}

function join (at, name) {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? at + '.' + name : at + '[' + stringify(name) + ']'
}

function show (value) {
  if (value === undefined) return 'nothing'
  let text
  try { text = stringify(value) } catch { text = undefined }
  if (text === undefined) text = typeof value
  return text.length > 80 ? text.slice(0, 80) + '\u2026' : text
}
