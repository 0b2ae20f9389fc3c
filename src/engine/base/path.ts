import { Buffer } from 'node:buffer'
import { EngineError, invalid } from './errors.js'
import { given } from './input.js'
import { limits } from './limits.js'

/** The names in an absolute path, from the root down. The root itself has none. */
export type PathNames = readonly string[]

/**
 * Checks a path and splits it into its names. A path must be absolute and well-formed Unicode, without empty
 * parts, `.`, `..` and NUL, and within the limits on name, path and depth.
 */
export function parsePath(path: string, field = 'path'): PathNames {
  // One operation parses its path several times. A larger cache would cost more than parsing.
  if (path === lastPath) return lastNames
  const names = parse(path, field)
  lastPath = path
  lastNames = names
  return names
}

/**
 * The names in a path that comes from a tree. A move may have made it longer than the limits allow. Such a
 * path is listed and can be moved back, but operations cannot reach it.
 */
export function splitPath(path: string): PathNames {
  return path === '/' ? [] : path.slice(1).split('/')
}

export function joinPath(names: PathNames): string {
  return names.length === 0 ? '/' : `/${names.join('/')}`
}

/** Checks one name by the rules of {@link parsePath}. */
export function checkName(name: string, field = 'path'): void {
  if (name === '' || name === '.' || name === '..')
    throw invalid(field, `has the part ${JSON.stringify(name)}: a path has no empty, "." or ".." part`)
  if (name.includes('\0')) throw invalid(field, 'contains a NUL character')
  if (name.length * 3 > limits.nameBytes && Buffer.byteLength(name) > limits.nameBytes) {
    const message = `the name ${given(name)} has ${Buffer.byteLength(name)} bytes; at most ${limits.nameBytes} are allowed`
    throw new EngineError('NAME_TOO_LONG', `${field}: ${message}`, { field })
  }
}

let lastPath = '/'
let lastNames: PathNames = []

function parse(path: unknown, field: string): PathNames {
  if (typeof path !== 'string')
    throw invalid(field, `must be a string, such as "/src/a.ts"; it is ${given(path)}`)
  if (path.charCodeAt(0) !== 47)
    throw invalid(field, `must be absolute, such as "/src/a.ts"; it is ${given(path)}`)
  if (!path.isWellFormed()) throw invalid(field, 'contains a lone surrogate')
  if (path.length * 3 > limits.pathBytes && Buffer.byteLength(path) > limits.pathBytes) {
    const message = `the path has ${Buffer.byteLength(path)} bytes; at most ${limits.pathBytes} are allowed`
    throw new EngineError('NAME_TOO_LONG', `${field}: ${message}`, { field })
  }
  const names: string[] = []
  if (path.length === 1) return names
  if (path.endsWith('/')) throw invalid(field, `must not end with "/"; it is ${given(path)}`)
  for (let start = 1; start <= path.length;) {
    let end = path.indexOf('/', start)
    if (end < 0) end = path.length
    const name = path.slice(start, end)
    checkName(name, field)
    names.push(flatten(name))
    start = end + 1
  }
  if (names.length > limits.pathDepth) {
    const message = `the path has ${names.length} levels; at most ${limits.pathDepth} are allowed`
    throw new EngineError('NAME_TOO_LONG', `${field}: ${message}`, { field })
  }
  return names
}

const scratch = Buffer.allocUnsafe(4 * limits.nameBytes)

/**
 * Copies a name into a string of its own. A substring keeps a reference to the whole string, and comparing it
 * takes about ten times longer. Substrings of fewer than 13 characters are always copies.
 */
function flatten(name: string): string {
  if (name.length < 13) return name
  const length = scratch.write(name, 0, 'utf8')
  return length === name.length ? scratch.toString('latin1', 0, length) : scratch.toString('utf8', 0, length)
}
