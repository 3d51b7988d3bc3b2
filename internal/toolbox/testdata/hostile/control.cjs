'use strict'
// Runs attacks.cjs without a sandbox: a line of JSON in, a line out.
const fs = require('fs')
const path = require('path')
const attacks = require(process.argv[2])
const { stringify, parse } = JSON
const { writeSync } = fs
require('readline').createInterface({ input: process.stdin }).on('line', async line => {
  const { name, w } = parse(line)
  const data = path.join(w.own, 'data')
  const api = {
    logger: { info () {} },
    artifact: p => fs.readFileSync(path.join(data, p), 'latin1'),
    storage: { setItem: (key, value) => fs.writeFileSync(path.join(data, 'storage.json'), stringify({ [key]: value })) }
  }
  let said
  try { said = String(await attacks[name](w, api)) } catch (e) { said = 'threw ' + e }
  writeSync(1, stringify(said) + '\n')
})
