// What the runtime gives to a tool as `this`, small enough for tests with
// nothing but `node --test`.

import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** create makes an instance of a tool in a directory of its own, which is removed after the test. */
export function create(t, tool, { environment = {}, directories } = {}) {
  const dir = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'toolyard-test-')));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const data = path.join(dir, 'data');
  mkdirSync(data);
  const allowed = directories ?? [data];
  const items = new Map();
  const env = new Map(Object.entries(environment));
  const self = {
    __toolDir: dir,
    __toolName: tool.getMetadata().id,
    logs: [],
    reports: [],
    items,
    data,
    getAllowedDirectories: () => allowed,
    async initializeFilesystem() {},
    resolvePath(input) {
      const found = path.resolve(allowed[0], input.replace(/^~(?=$|\/)/, () => os.homedir()));
      if (!allowed.some((root) => found === root || found.startsWith(root + path.sep))) throw new Error(`${input} is not allowed`);
      return found;
    },
    validateParameters(params, schema) {
      const errors = faults(params, schema, '');
      return { valid: errors.length === 0, errors };
    },
    importToolModule: (name) => import(name),
  };
  self.api = {
    signal: undefined,
    logger: Object.fromEntries(['debug', 'info', 'warn', 'error'].map((level) => [level, (message) => self.logs.push(`${level} ${message}`)])),
    progress: (done, total, text) => self.reports.push([done, total, text]),
    environment: { get: (name) => env.get(name), set: (name, value) => env.set(name, value) },
    storage: {
      getItem: (key) => (items.has(key) ? JSON.parse(items.get(key)) : null),
      setItem: (key, value) => items.set(key, JSON.stringify(value)),
      removeItem: (key) => items.delete(key),
      clear: () => items.clear(),
    },
  };
  for (const [name, value] of Object.entries(tool)) self[name] = typeof value === 'function' ? value.bind(self) : value;
  return self;
}

// faults checks what the schemas of these tools use of JSON Schema.
function faults(value, schema, at) {
  const out = [];
  const say = (text) => out.push(`${at || 'parameters'} ${text}`);
  const type = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const wanted = [schema.type ?? type].flat();
  if (!wanted.some((w) => w === type || (w === 'integer' && Number.isInteger(value)))) {
    say(`must be ${wanted.join(' or ')}`);
    return out;
  }
  if (schema.enum && !schema.enum.includes(value)) say(`must be one of ${schema.enum.join(', ')}`);
  if (value < schema.minimum) say(`must be at least ${schema.minimum}`);
  if (value > schema.maximum) say(`must be at most ${schema.maximum}`);
  if (type === 'string' && value.length < (schema.minLength ?? 0)) say('is too short');
  if (type === 'string' && value.length > (schema.maxLength ?? Infinity)) say('is too long');
  if (type === 'array') {
    if (value.length < (schema.minItems ?? 0)) say('has too few items');
    if (value.length > (schema.maxItems ?? Infinity)) say('has too many items');
    value.forEach((item, i) => out.push(...faults(item, schema.items ?? {}, `${at}[${i}]`)));
  }
  if (type === 'object') {
    for (const name of schema.required ?? []) if (value[name] === undefined) out.push(`${name} is required`);
    for (const [name, item] of Object.entries(value)) {
      if (item !== undefined && Object.hasOwn(schema.properties ?? {}, name)) out.push(...faults(item, schema.properties[name], at ? `${at}.${name}` : name));
    }
  }
  return out;
}

/**
 * describe checks what a tool says of itself, the way the validator does:
 * identity, when to use it, a type for each parameter, errors that match.
 */
export function describe(assert, tool) {
  const about = tool.getMetadata();
  for (const name of ['id', 'name', 'description', 'category', 'author']) assert.equal(typeof about[name], 'string', name);
  assert.match(about.version, /^\d+\.\d+\.\d+$/);
  assert.match(about.description, /\bUse (it|this)\b/);
  assert.match(about.description, /\bDo not use\b/);
  for (const name of ['tags', 'scenarios', 'limitations']) assert.ok(about[name].length >= 1 && about[name].every((s) => typeof s === 'string'), name);
  const { parameters, environment } = tool.getSchema();
  const typed = (schema, at) => {
    assert.ok(schema.type, `${at} has no type`);
    if (at) assert.ok(schema.description || at.includes('[]'), `${at} has no description`);
    for (const [name, inner] of Object.entries(schema.properties ?? {})) typed(inner, at ? `${at}.${name}` : name);
    if (schema.items) typed(schema.items, `${at}[]`);
    for (const name of schema.required ?? []) assert.ok(schema.properties[name], `${name} is required and unknown`);
  };
  typed(parameters, '');
  assert.equal(environment.type, 'object');
  for (const [name, inner] of Object.entries(environment.properties)) {
    assert.match(name, /^[A-Z_][A-Z0-9_]*$/);
    assert.ok(inner.type && inner.description, name);
  }
  for (const error of tool.getBusinessErrors()) {
    assert.match(error.code, /^[A-Z_][A-Z0-9_]*$/);
    assert.ok(error.match instanceof RegExp, error.code);
    assert.ok(error.description.length >= 10 && error.solution.length >= 10, error.code);
    assert.equal(typeof error.retryable, 'boolean', error.code);
  }
}

/** rejects awaits a failure, and that the first business error that matches its text is the one of the code. */
export async function rejects(assert, tool, promise, code, text = /./) {
  const error = await promise.then((value) => assert.fail(`expected ${code}, got ${JSON.stringify(value)}`), (failure) => failure);
  if (error.code === 'ERR_ASSERTION') throw error;
  assert.equal(error.code, code, error.stack);
  assert.match(error.message, text);
  assert.ok(error.message.length >= 10, 'a message says something');
  assert.equal(tool.getBusinessErrors().find(({ match }) => match.test(error.message))?.code, code, `${error.message} matches another business error`);
  return error;
}
