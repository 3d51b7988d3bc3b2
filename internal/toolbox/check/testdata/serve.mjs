// Runs tools with the adapter of the runtime, each call in a thread of its own,
// without a worker and without a sandbox. Each line of the input is one call: the
// adapter, the module, its setup, its environment, and the parameters; without
// parameters the answer is what the tool says of itself. {"id", "stop"} ends one.
import readline from 'node:readline'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads'

if (isMainThread) serve()
else parentPort.postMessage(await run(workerData))

function serve () {
  const running = new Map()
  const answer = message => process.stdout.write(JSON.stringify(message) + '\n')
  readline.createInterface({ input: process.stdin }).on('line', line => {
    const request = JSON.parse(line)
    if (request.stop) return void running.get(request.id)?.terminate()
    const thread = new Worker(fileURLToPath(import.meta.url), { workerData: request, env: request.env, stdout: true, stderr: true })
    let said = { died: 'it ended its process' }
    thread.on('message', message => { said = message })
    thread.on('error', error => { said = { died: `${error.name}: ${error.message}` } })
    thread.on('exit', () => { running.delete(request.id); answer({ id: request.id, ...said }) })
    running.set(request.id, thread)
  }).on('close', () => process.exit(0))
}

async function run ({ adapter, module, setup, params }) {
  const loaded = await import(pathToFileURL(module))
  const tool = createRequire(import.meta.url)(adapter)(loaded, setup)
  const lines = ['[INFO] start']
  const host = {
    log: (level, text, meta) => { lines.push(`[${level}] ${text} ${JSON.stringify(meta ?? {})}`) },
    progress () {},
    retire (why) { throw new Error(why) },
    request: async method => { throw new Error(method + ' is not there in a trial') },
    signal: new AbortController().signal
  }
  if (params === undefined || params === null) return { described: await tool.describe(undefined, host) }
  const answer = async () => {
    let value
    try {
      value = await tool.execute({ params, mode: 'execute' }, host)
    } catch (error) {
      return { thrown: { name: error?.name ?? '', message: String(error?.message ?? error ?? ''), code: error?.code } }
    }
    if (value === undefined) return { undefined: true }
    try {
      return { value: JSON.parse(JSON.stringify(value)) }
    } catch (error) {
      return { thrown: { name: error.name, message: error.message, kind: 'value' } }
    }
  }
  return { ...await answer(), lines: [...lines, '[INFO] end'] }
}
