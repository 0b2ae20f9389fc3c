import { posix } from 'node:path'
import { present } from '../../engine/ports.js'
import type { NodeFs } from './node-fs.js'

type Method = (...args: readonly unknown[]) => unknown
type Methods = Record<string, Method>

/** Methods whose first argument is a path. Each has a promise form and a sync form. */
const onePath = [
  'access',
  'appendFile',
  'chmod',
  'chown',
  'lchown',
  'lstat',
  'lutimes',
  'mkdir',
  'readFile',
  'readdir',
  'readlink',
  'realpath',
  'rmdir',
  'stat',
  'unlink',
  'utimes',
  'writeFile',
] as const satisfies readonly (keyof NodeFs['promises'])[]

const twoPaths = ['copyFile', 'link', 'rename'] as const satisfies readonly (keyof NodeFs['promises'])[]

/** The methods that node:vfs calls with paths. Each calls the method of the same name on `fs`. */
export function pathMethods(fs: NodeFs): Methods {
  const methods: Methods = {}
  const add = (name: keyof NodeFs['promises'], prepare: (args: readonly unknown[]) => unknown[]): void => {
    const promise = fs.promises[name] as unknown as Method
    const sync = present((fs as unknown as Methods)[`${name}Sync`], name)
    methods[name] = (...args) => promise(...prepare(args))
    methods[`${name}Sync`] = (...args) => sync(...prepare(args))
  }
  for (const name of onePath) add(name, ([path, ...rest]) => [absolute(path), ...rest])
  for (const name of twoPaths) add(name, ([from, to, ...rest]) => [absolute(from), absolute(to), ...rest])
  add('symlink', ([target, path, type]) => [target, absolute(path), type])
  methods['existsSync'] = (path) => fs.existsSync(absolute(path))
  methods['exists'] = (path) => Promise.resolve(fs.existsSync(absolute(path)))
  const readdirSync = present(methods['readdirSync'], 'readdirSync')
  methods['readdirSync'] = (path, options) => named(absolute(path), readdirSync(path, options), options)
  return methods
}

/** A mounted node:vfs passes absolute paths. Without a mount, it passes the caller's path unchanged. */
export function absolute(path: unknown): string {
  return posix.resolve('/', String(path))
}

/**
 * Makes the names in a recursive listing with types relative to the listed directory. The sync form of
 * node:vfs expects that, and computes `name` and `parentPath` from them. Its promise form returns the listing
 * unchanged.
 */
function named(path: string, listing: unknown, options: unknown): unknown {
  const { recursive, withFileTypes } = (options ?? {}) as Record<string, unknown>
  if (recursive !== true || withFileTypes !== true) return listing
  for (const entry of listing as { name: string; parentPath: string }[]) {
    entry.name = posix.relative(path, posix.join(entry.parentPath, entry.name))
  }
  return listing
}
