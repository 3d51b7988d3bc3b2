'use strict'
// this.api.storage keeps JSON in one file. Other workers of the tool have the same file: it
// is read again when it has changed, and each change is made under a lock.
const fs = require('fs')
const path = require('path')
const { hasOwn, create } = Object
const { stringify, parse } = JSON
const Text = String

const storageQuota = 10 << 20 // bytes of data/storage.json
const lockTime = 5000 // ms after which who holds the lock has lost it
const lockWait = 20000 // ms that a change waits for it
const settled = 100 // ms after which a file is surely not written in the same moment again

function isObject (v) { return v !== null && typeof v === 'object' }

module.exports = ({ data, quota = storageQuota }) => {
  const file = path.join(data, 'storage.json')
  const lock = path.join(data, '.storage.lock')
  let items = create(null)
  let version = '' // of the file that items came from; '' if that cannot be told
  let source = '' // what was in it

  // stat tells two versions of the file apart, but for those that were written in
  // the same moment, as far as the clock of the file system goes.
  const stat = () => {
    const s = fs.statSync(file, { bigint: true, throwIfNoEntry: false })
    if (s === undefined) return 'none'
    return Date.now() - Number(s.mtimeMs) < settled ? '' : s.ino + ' ' + s.size + ' ' + s.mtimeNs
  }

  function load (sure) {
    const now = stat()
    if (now !== '' && now === version && !sure) return
    version = now
    let text = ''
    try {
      text = fs.readFileSync(file, 'utf8')
    } catch (e) {
      if (e.code !== 'ENOENT') throw e
    }
    if (text === source) return
    try {
      const value = text.trim() === '' ? {} : parse(text)
      if (!isObject(value) || Array.isArray(value)) throw new TypeError('it is no object')
      items = Object.setPrototypeOf(value, null)
      source = text
    } catch (e) {
      items = create(null)
      source = version = ''
      keepAside(e)
    }
  }

  // keepAside saves a file that cannot be read from being written over.
  function keepAside (e) {
    const aside = file + '.corrupt-' + Date.now()
    try {
      fs.renameSync(file, aside)
    } catch (error) {
      if (error.code === 'ENOENT') return // another worker was faster
      throw error
    }
    console.warn('storage: data/storage.json could not be read (' + e.message + '); it is kept as data/' + path.basename(aside))
  }

  // change makes new items of the old ones. Whoever holds the lock for so long that
  // it is taken away notices it before anything is written, and starts again.
  function change (make) {
    fs.mkdirSync(data, { recursive: true })
    const until = Date.now() + lockWait
    for (let done = false; !done;) {
      const token = take(until)
      const mine = () => {
        try { return fs.readFileSync(lock, 'utf8') === token } catch { return false }
      }
      try {
        load(true)
        const next = Object.assign(create(null), items)
        make(next)
        done = save(next, token, mine)
      } finally {
        if (mine()) fs.rmSync(lock, { force: true })
      }
    }
  }

  function take (until) {
    const token = Date.now().toString(36) + Math.random().toString(36).slice(2)
    for (let wait = 1; ; wait = Math.min(wait * 2, 20)) {
      try {
        fs.writeFileSync(lock, token, { flag: 'wx' })
        return token
      } catch (e) {
        if (e.code !== 'EEXIST') throw e
      }
      if (Date.now() > until) throw new Error('storage: another worker of the tool writes to it and does not end')
      const held = fs.statSync(lock, { throwIfNoEntry: false })
      // Who holds it for so long has been killed.
      if (held !== undefined && Date.now() - held.mtimeMs > lockTime) fs.rmSync(lock, { force: true })
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, wait)
    }
  }

  // save writes the file, unless the lock was lost.
  function save (next, token, mine) {
    const text = stringify(next, null, 2)
    const size = Buffer.byteLength(text)
    if (size > quota) {
      const error = new Error('storage: ' + size + ' bytes would be over its quota of ' + quota + ' bytes; remove items, or keep large data in files of the folder data')
      error.code = 'STORAGE_QUOTA'
      throw error
    }
    const temporary = path.join(data, '.storage.' + token + '.tmp')
    try {
      fs.writeFileSync(temporary, text)
      if (!mine()) return false
      fs.renameSync(temporary, file)
    } finally {
      fs.rmSync(temporary, { force: true })
    }
    items = next
    source = text
    version = stat()
    return true
  }

  const removeItem = key => {
    load()
    if (hasOwn(items, key)) change(next => { delete next[key] })
  }

  return {
    getItem (key) {
      load()
      const value = items[key]
      return isObject(value) ? parse(stringify(value)) : value
    },
    setItem (key, value) {
      if (value === undefined) return removeItem(key)
      let text
      try { text = stringify(value) } catch (e) {
        throw new TypeError('storage: the value of ' + Text(key) + ' cannot be written as JSON: ' + e.message)
      }
      if (text === undefined) throw new TypeError('storage: the value of ' + Text(key) + ' is a ' + typeof value + ', which is no JSON')
      change(next => { next[key] = parse(text) })
    },
    removeItem,
    clear () {
      load()
      if (source !== '') change(next => { for (const key of Object.keys(next)) delete next[key] })
    }
  }
}
