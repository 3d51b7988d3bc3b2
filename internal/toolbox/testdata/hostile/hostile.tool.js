import { createRequire } from 'node:module'
const attacks = createRequire(import.meta.url)('./attacks.cjs')

export default {
  getMetadata: () => ({ id: 'hostile', name: 'Hostile', description: 'Tries everything.', version: '1.0.0' }),
  getSchema: () => ({ parameters: { type: 'object', properties: { name: { type: 'string' }, w: { type: 'object' } } } }),
  async execute ({ name, w }) { return { said: String(await attacks[name](w, this.api)) } }
}
