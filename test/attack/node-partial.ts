/** Finds the files that Node's own file system leaves when a call fails halfway. */
import type { Buffer } from 'node:buffer'
import fs from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Session } from '../../src/index.js'

export interface FsCall {
  /** `fs`, `fs.promises` or `FileHandle`. */
  readonly name: string
  readonly method: string
  /** Creates the arguments again, because hostile ones change when they are read. */
  readonly given: () => unknown[]
}

/**
 * `same`: Node also fails and leaves the same files. `other`: it does not. `unsafe`: the call could leave the
 * directory, or Node rejects it before any work. `linked`: the files have links that a call could follow out of the
 * directory. `pieces`: Node converts a piece of an iterable content to bytes, which is rejected here.
 */
export type Comparison = 'same' | 'other' | 'unsafe' | 'linked' | 'pieces'

/** A call of Node that takes longer counts as hanging. */
const hangMs = 2000

/** Whether Node can fail after part of the work, so that this engine may too. */
export function mayBePartial({ name, method }: Pick<FsCall, 'name' | 'method'>): boolean {
  if (name === 'FileHandle') return /^(?:write|append)File$/.test(method)
  return /^(?:writeFile|appendFile|cp|mkdir|rm)(?:Sync)?$/.test(method)
}

/** Repeats a failed call of a session on node:fs, and compares the files with those of the session. */
export async function compareWithNode(before: Session, after: Session, call: FsCall): Promise<Comparison> {
  const root = await mkdtemp(join(tmpdir(), 'node-partial-'))
  try {
    const tree = join(root, 'tree')
    if (!copyOut(before, '/', tree)) return 'linked'
    const start = pictureOf(fs, tree)
    const failed = await failsInNode(tree, call)
    if (failed === undefined) return 'unsafe'
    if (!failed && hasPieces(call)) return 'pieces'
    const end = pictureOf(fs, tree)
    // The position in an open file is unknown, so its content may differ.
    const isSame = call.name === 'FileHandle' ? end !== start : end === pictureOf(after.fs, '/')
    return failed && isSame ? 'same' : 'other'
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

/** Returns false for a tree with links, which a call on the copy could follow out of it. */
function copyOut({ fs: view }: Session, path: string, target: string): boolean {
  fs.mkdirSync(target)
  for (const entry of view.readdirSync(path, { withFileTypes: true })) {
    const [from, to] = [join(path, entry.name), join(target, entry.name)]
    if (entry.isSymbolicLink() || (entry.isFile() && view.statSync(from).nlink > 1)) return false
    if (entry.isFile()) fs.writeFileSync(to, view.readFileSync(from))
    else if (!copyOut({ fs: view } as Session, from, to)) return false
  }
  return true
}

interface Reader {
  readdirSync(path: string, options: { withFileTypes: true }): { name: string; isDirectory(): boolean }[]
  readFileSync(path: string): Buffer | Uint8Array
}

function pictureOf(view: unknown, path: string): string {
  const reader = view as Reader
  const lines: string[] = []
  const look = (directory: string, shown: string): void => {
    for (const entry of reader.readdirSync(directory, { withFileTypes: true })) {
      const [at, name] = [join(directory, entry.name), `${shown}/${entry.name}`]
      if (entry.isDirectory()) {
        lines.push(`${name}/`)
        look(at, name)
      } else lines.push(`${name} ${Array.from(reader.readFileSync(at)).join()}`)
    }
  }
  look(path, '')
  return lines.toSorted().join('\n')
}

/** Whether Node's call fails; undefined for a call that could leave the directory. */
async function failsInNode(root: string, { name, method, given }: FsCall): Promise<boolean | undefined> {
  const args = given()
  // The callback form only throws argument errors, before any work.
  if (name === 'fs' && !method.endsWith('Sync')) return undefined
  const paths = name === 'FileHandle' ? 0 : method.startsWith('cp') ? 2 : 1
  const handle = await fs.promises.open(join(root, 'a'), 'r+').catch(() => undefined)
  try {
    for (let index = 0; index < paths; index++) {
      const path = args[index]
      if (path === 3 && handle !== undefined && !method.startsWith('cp')) args[index] = handle.fd
      else if (typeof path === 'string' && isBelow(path)) args[index] = join(root, path)
      else return undefined
    }
    const handles: Readonly<Record<string, object | undefined>> = {
      fs,
      'fs.promises': fs.promises,
      FileHandle: handle,
    }
    const target = handles[name] as Record<string, (...all: readonly unknown[]) => unknown> | undefined
    if (target === undefined) return undefined
    try {
      const work = Promise.resolve(target[method]!(...args))
      const late = Symbol('late')
      return (await Promise.race([work, delay(hangMs, late, { ref: false })])) === late ? undefined : false
    } catch {
      return true
    }
  } finally {
    await handle?.close().catch(() => undefined)
  }
}

/** Whether the data of writeFile or appendFile is an iterable. */
function hasPieces({ name, method, given }: FsCall): boolean {
  if (!/^(?:write|append)File$/.test(method)) return false
  const data = given()[name === 'FileHandle' ? 0 : 1]
  return typeof data === 'object' && data !== null && !ArrayBuffer.isView(data) && Symbol.iterator in data
}

/** Whether an absolute path stays inside the directory that it is appended to. */
function isBelow(path: string): boolean {
  return path.startsWith('/') && path !== '/' && !path.includes('..')
}
