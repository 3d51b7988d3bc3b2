import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import test from 'node:test'
import { createMcpServer, createToolInstance } from 'toolyard:test'

const module = new URL('./thing.tool.js', import.meta.url)

test('an instance is named, placed and described', async () => {
  const tool = await createToolInstance(module)
  assert.equal(tool.name, 'thing')
  assert.equal(tool.dir, import.meta.dirname ?? new URL('.', import.meta.url).pathname.replace(/\/$/, ''))
  assert.equal(tool.definition.values.getMetadata.version, '2.0.1')
  assert.deepEqual(tool.definition.problems, [])
  assert.equal(tool.greet('me'), 'hello me of thing')
})

test('this is that of a call', async () => {
  const tool = await createToolInstance(module.pathname, { allowedDirectories: ['one', 'two'] })
  assert.deepEqual(await tool.execute({ do: 'this' }), {
    text: 'hello you of thing', mode: 'execute', directories: ['one', 'two'], valid: false, dir: tool.dir
  })
  assert.deepEqual(tool.logs, [{ level: 'info', text: 'greeting', meta: { who: 'you' } }])
  assert.deepEqual(tool.progress, [{ done: 1, total: 2, text: 'half' }])
  assert.equal((await tool.execute({ do: 'this' }, 'manual')).mode, 'manual')
})

test('instances do not share module state, calls do', async () => {
  const [a, b] = [await createToolInstance(module), await createToolInstance(module)]
  assert.equal((await a.execute({ do: 'count' })).calls, 1)
  assert.equal((await a.execute({ do: 'count' })).calls, 2)
  assert.equal((await b.execute({ do: 'count' })).calls, 1)
})

test('the environment is the instance\'s own, also side by side', async () => {
  process.env.ONLY_OUTSIDE = 'secret'
  const tools = await Promise.all(['x', 'y'].map(MODE => createToolInstance(module, { env: { MODE } })))
  const [x, y] = await Promise.all(tools.map(tool => tool.execute({ do: 'env' })))
  assert.deepEqual(x, { started: 'x', speed: '7', colour: 'red', mode: 'x', process: 'x', host: undefined, names: true })
  assert.equal(y.process, 'y')
  await tools[0].environment.set('MODE', 'z')
  assert.equal((await tools[0].execute({ do: 'env' })).process, 'z')
  assert.equal(process.env.MODE, undefined)
  assert.equal(process.env.ONLY_OUTSIDE, 'secret')
})

test('storage is in data', async () => {
  const fresh = await createToolInstance(module)
  assert.deepEqual(await fresh.execute({ do: 'store', key: 'n' }), { n: 1 })
  assert.deepEqual(JSON.parse(readFileSync(join(fresh.data, 'storage.json'), 'utf8')), { n: { n: 1 } })
  const filled = await createToolInstance(module, { data: { n: { n: 41 } } })
  assert.deepEqual(await filled.execute({ do: 'store', key: 'n' }), { n: 42 })
  assert.deepEqual(filled.storage.getItem('n'), { n: 42 })
  const again = await createToolInstance(module, { data: filled.data })
  assert.deepEqual(again.storage.getItem('n'), { n: 42 })
})

test('the runtime answers what the test says', async () => {
  const tool = await createToolInstance(module, { ask: question => ({ said: question.text }), tools: { other: async args => args.n + 1 } })
  assert.deepEqual(await tool.execute({ do: 'ask' }), { answer: { said: 'really?' } })
  assert.deepEqual(tool.questions, [{ text: 'really?' }])
  assert.deepEqual(await tool.execute({ do: 'call' }), { got: 2 })
  const kept = await tool.execute({ do: 'keep' })
  assert.ok(existsSync(kept.path))
  assert.equal(tool.artifacts[0].path, kept.path)

  const alone = await createToolInstance(module)
  await assert.rejects(alone.execute({ do: 'ask' }), { code: 'NO_CHANNEL' })
  await assert.rejects(alone.execute({ do: 'call' }), { code: 'TOOL_NOT_FOUND' })
})

test('a call can be aborted', async () => {
  const controller = new AbortController()
  const tool = await createToolInstance(module, { signal: controller.signal })
  assert.deepEqual(await tool.execute({ do: 'stop' }), { aborted: false })
  controller.abort()
  assert.deepEqual(await tool.execute({ do: 'stop' }), { aborted: true })
})

test('a module that is there already, and CommonJS', async () => {
  const tool = await createToolInstance({ execute: params => ({ twice: params.n * 2 }) }, { name: 'double' })
  assert.deepEqual(await tool.execute({ n: 4 }), { twice: 8 })
  assert.equal(tool.name, 'double')
  const helper = createRequire(import.meta.url)('toolyard:test')
  assert.equal(helper.createToolInstance, createToolInstance)
})

test('a server of MCP', async t => {
  const server = createMcpServer(await createToolInstance(module))
  const call = args => server.request('tools/call', { name: 'thing', arguments: args })

  await t.test('introduces itself', async () => {
    const hello = await server.request('initialize', { protocolVersion: '2025-06-18' })
    assert.deepEqual(hello, { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'thing', version: '2.0.1' } })
    assert.equal(await server.handle({ jsonrpc: '2.0', method: 'notifications/initialized' }), undefined)
    const { tools } = await server.request('tools/list')
    assert.equal(tools.length, 1)
    assert.equal(tools[0].title, 'Thing')
    assert.deepEqual(tools[0].inputSchema.required, ['do'])
  })
  await t.test('refuses what is wrong', async () => {
    await assert.rejects(server.request('nothing/here'), { code: -32601 })
    await assert.rejects(server.request('tools/call', { name: 'other' }), { code: -32602 })
    assert.equal((await server.handle({ id: 1 })).error.code, -32600)
    for (const args of [{}, { do: 'dance' }, { do: 'text', key: 5 }]) {
      const refused = await call(args)
      assert.equal(refused.isError, true)
      assert.equal(refused.structuredContent.error.code, 'VALIDATION_ERROR')
    }
  })
  await t.test('gives what a client gets', async () => {
    assert.deepEqual(await call({ do: 'count' }), { content: [{ type: 'text', text: '{"calls":1}' }], structuredContent: { calls: 1 } })
    assert.deepEqual(await call({ do: 'mcp' }), { content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }] })
    assert.deepEqual(await call({ do: 'list', nested: {} }), { content: [{ type: 'text', text: '["k",{"depth":3}]' }] })
    assert.deepEqual(await call({ do: 'text' }), { content: [{ type: 'text', text: 'words' }] })
    assert.equal((await call({ do: 'nothing' })).content[0].text, 'The tool returned nothing.')
  })
  await t.test('says how it failed', async () => {
    const failed = await call({ do: 'fail' })
    assert.equal(failed.isError, true)
    assert.equal(failed.content[0].text, 'the thing is broken. Mend it.')
    assert.deepEqual(failed.structuredContent.error.details.business, { code: 'BROKEN', description: 'it is broken', solution: 'Mend it.', retryable: true })
    assert.deepEqual((await call({ do: 'unsuccessful' })).structuredContent, { error: { code: 'LUCK', message: 'no luck' } })
  })
})
