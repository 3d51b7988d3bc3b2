// Loaded before a tool's tests: makes toolyard:test known, to import and to require.
import Module, { register } from 'node:module'
import { fileURLToPath } from 'node:url'

register('./hooks.mjs', import.meta.url)

const helper = fileURLToPath(new URL('./toolyard-test.cjs', import.meta.url))
const resolve = Module._resolveFilename
Module._resolveFilename = function (request, ...rest) {
  return request === 'toolyard:test' ? helper : Reflect.apply(resolve, this, [request, ...rest])
}
