'use strict'
// What the helpers of this do that find paths and modules.
const fs = require('fs')
const os = require('os')
const path = require('path')
const Module = module.constructor
const { createRequire } = Module
const { stringify } = JSON
const Text = String

function isObject (v) { return v !== null && typeof v === 'object' }

function exists (p) {
  try { return fs.lstatSync(p, { throwIfNoEntry: false }) !== undefined } catch { return false }
}

function coded (error, code) {
  error.code = code
  return error
}

module.exports = setup => {
  const code = setup.code || setup.dir
  const require = requirer(code, setup.dir)
  let real // of the directories
  let importHere // import() as if it stood in the tool's folder

  function expand (p) {
    const home = setup.userHome
    if (home && (p === '~' || p.startsWith('~/'))) p = path.join(home, p.slice(1))
    for (const h of [home, os.homedir()]) { // tools put in either of them for ~
      if (!h) continue
      const old = path.join(h, '.prompt-manager')
      if (p === old || p.startsWith(old + '/')) return setup.home + p.slice(old.length)
    }
    return p
  }

  function within (p, all) {
    return all.some(d => p === d || p.startsWith(d.endsWith('/') ? d : d + '/'))
  }

  // actual is where a path leads, of which not all needs to exist.
  function actual (p) {
    const rest = []
    for (let at = p; ;) {
      try {
        return path.join(fs.realpathSync.native(at), ...rest)
      } catch (e) {
        const up = path.dirname(at)
        if (up === at) return p
        rest.unshift(path.basename(at))
        at = up
      }
    }
  }

  function refuse (p, all) {
    const e = new Error('outside of what the tool may use (\u8def\u5f84\u8d8a\u6743): ' + p + ' is not in the allowed directories [' + all.join(', ') + ']')
    return coded(e, 'EACCES')
  }

  function resolvePath (self, p) {
    const all = self._allowedDirectories || self.getAllowedDirectories()
    if (p === undefined || p === null || p === '') return all[0] || setup.dir
    const given = Text(p)
    if (given.includes('\0')) throw coded(new TypeError('a path with a NUL character: ' + stringify(given)), 'ERR_INVALID_ARG_VALUE')
    const expanded = expand(given)
    const mine = code === setup.dir ? [...all, code] : [...all, setup.dir, code]
    let full
    if (path.isAbsolute(expanded)) {
      full = path.resolve(expanded)
    } else {
      const found = mine.map(d => path.resolve(d, expanded)).filter(f => within(f, mine))
      full = found.find(exists) || found[0]
    }
    if (full === undefined || !within(full, mine)) throw refuse(given, all)
    if (real === undefined) real = new Map()
    const roots = mine.map(d => {
      if (!real.has(d)) real.set(d, actual(d))
      return real.get(d)
    })
    if (!within(actual(full), roots)) throw refuse(given, all)
    return full
  }

  return {
    resolvePath,
    requireModule (name) {
      try {
        return require(name)
      } catch (e) {
        throw missing(e, name, setup)
      }
    },
    async importModule (name) {
      let loaded
      try {
        loaded = require(name)
      } catch (e) {
        if (!importable.includes(e && e.code)) throw e
        if (importHere === undefined) {
          const here = new Module(path.join(code, 'import.cjs'))
          here._compile('module.exports = name => import(name)', path.join(code, 'import.cjs'))
          importHere = here.exports
        }
        try {
          return await importHere(name)
        } catch (second) {
          throw missing(second, name, setup)
        }
      }
      if (typeof loaded === 'function') return { ...loaded, default: loaded }
      if (isObject(loaded) && !loaded.default) return { ...loaded, default: loaded }
      return loaded
    }
  }
}

// requirer gives the tool's require: from where its module is, and from its folder
// if that is another one.
function requirer (code, dir) {
  const require = createRequire(path.join(code, 'package.json'))
  if (code === dir) return require
  const other = createRequire(path.join(dir, 'package.json'))
  return name => {
    try {
      return require(name)
    } catch (e) {
      if (!isObject(e) || e.code !== 'MODULE_NOT_FOUND') throw e
      try { return other(name) } catch (second) { throw isObject(second) && second.code === 'MODULE_NOT_FOUND' ? e : second }
    }
  }
}

// importable are the codes of modules that require does not find or load, but
// import may.
const importable = ['ERR_REQUIRE_ESM', 'ERR_REQUIRE_ASYNC_MODULE', 'ERR_REQUIRE_CYCLE_MODULE', 'ERR_PACKAGE_PATH_NOT_EXPORTED', 'MODULE_NOT_FOUND']

function missing (e, name, setup) {
  if (!isObject(e) || (e.code !== 'MODULE_NOT_FOUND' && e.code !== 'ERR_MODULE_NOT_FOUND')) return e
  const error = new Error('the module ' + name + ' is not installed for the tool ' + setup.name + ': ' + Text(e.message).split('\n')[0])
  error.cause = e
  return coded(error, 'MODULE_NOT_FOUND')
}
