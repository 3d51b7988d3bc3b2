// Run with: toolyard toolbox test {{name}}
import assert from 'node:assert/strict'
import test from 'node:test'
import { createMcpServer, createToolInstance } from 'toolyard:test'

const module = new URL('./{{name}}.tool.js', import.meta.url)

test('counts words, lines and characters', async () => {
  const tool = await createToolInstance(module)
  const result = await tool.execute({ text: 'The cat and\nthe dog' })
  assert.equal(result.words, 5)
  assert.equal(result.lines, 2)
  assert.equal(result.characters, 19)
  assert.deepEqual(result.frequent[0], { word: 'the', count: 2 })
})

test('lists as many words as asked for', async () => {
  const tool = await createToolInstance(module)
  assert.deepEqual((await tool.execute({ text: 'b a b', top: 1 })).frequent, [{ word: 'b', count: 2 }])
  assert.deepEqual((await tool.execute({ text: 'b a b', top: 0 })).frequent, [])
})

test('takes the reading speed from its settings', async () => {
  const tool = await createToolInstance(module, { env: { WORDS_PER_MINUTE: '10' } })
  assert.equal((await tool.execute({ text: 'one two three four five' })).minutes, 0.5)
})

test('says what is wrong with a text without words', async () => {
  const tool = await createToolInstance(module)
  await assert.rejects(tool.execute({ text: '...' }), /holds no words/)
})

test('is a tool over MCP', async () => {
  const server = createMcpServer(await createToolInstance(module))
  const { tools } = await server.request('tools/list')
  assert.equal(tools[0].name, '{{name}}')
  const result = await server.request('tools/call', { name: '{{name}}', arguments: { text: 'one two' } })
  assert.equal(result.structuredContent.words, 2)
  const refused = await server.request('tools/call', { name: '{{name}}', arguments: { top: 3 } })
  assert.equal(refused.isError, true)
})
