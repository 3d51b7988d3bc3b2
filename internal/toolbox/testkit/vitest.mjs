// Runs a tool's tests with the vitest that is installed for it, with its own
// configuration, and with toolyard:test. The arguments are the files.
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const dir = process.cwd()
const { startVitest } = await import(pathToFileURL(createRequire(join(dir, 'package.json')).resolve('vitest/node')))
const vitest = await startVitest('test', process.argv.slice(2), { run: true, watch: false, root: dir }, {
  cacheDir: join(tmpdir(), 'toolyard-vite'),
  resolve: { alias: { 'toolyard:test': fileURLToPath(new URL('./toolyard-test.cjs', import.meta.url)) } }
})
await vitest?.close()
