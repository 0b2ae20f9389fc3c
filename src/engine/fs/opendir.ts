import type { LoadingSteps } from '../base/cooperative.js'
import { findDirectory } from '../session/reads/lookup.js'
import { argumentError, codedError, typeError } from './argument-errors.js'
import { checkInteger } from './values.js'
import { givenPath } from './resolve-path.js'
import { toOptions, type Options } from './arguments.js'
import { locate, readInSteps, type Define } from './calls.js'
import { deliver, type Callback } from './drivers.js'
import { listInSteps, type Listed } from './listing.js'
import type { Dirent } from './stats.js'

/** The shape of node:fs Dir. Its entries are those that existed when it was opened. */
export class OpenDirectory {
  readonly path: string
  readonly #entries: readonly Dirent[]
  #next = 0
  #closed = false

  constructor(path: string, entries: readonly Dirent[]) {
    if (entries === undefined) throw argumentError('ERR_MISSING_ARGS', 'A Dir is made by opendir only')
    this.path = path
    this.#entries = entries
  }

  read(): Promise<Dirent | null>
  read(callback: Callback): void
  read(callback?: Callback): Promise<Dirent | null> | void {
    if (callback === undefined) return new Promise((resolve) => resolve(this.readSync()))
    const receiver = checkCallback(callback)
    this.#check()
    deliver(Promise.resolve(this.readSync()), receiver)
  }

  readSync(): Dirent | null {
    this.#check()
    return this.#entries[this.#next++] ?? null
  }

  close(): Promise<void>
  close(callback: Callback): void
  close(callback?: Callback): Promise<void> | void {
    const receiver = callback === undefined ? undefined : checkCallback(callback)
    const closed = this.#closed ? Promise.reject(closedError()) : Promise.resolve()
    this.#closed = true
    if (receiver === undefined) return closed
    deliver(closed, receiver)
  }

  closeSync(): void {
    this.#check()
    this.#closed = true
  }

  async *entries(): AsyncGenerator<Dirent, void, void> {
    try {
      for (let entry = await this.read(); entry !== null; entry = await this.read()) yield entry
    } finally {
      await this.close()
    }
  }

  [Symbol.asyncIterator](): AsyncGenerator<Dirent, void, void> {
    return this.entries()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#closed) await this.close()
  }

  [Symbol.dispose](): void {
    if (!this.#closed) this.closeSync()
  }

  #check(): void {
    if (this.#closed) throw closedError()
  }
}

// The class is named Dir in node:fs. In the engine, that name is taken by a directory of the tree.
Object.defineProperty(OpenDirectory, 'name', { value: 'Dir' })

function closedError(): Error {
  return codedError('ERR_DIR_CLOSED', 'Directory handle was closed')
}

function checkCallback(callback: unknown): Callback {
  if (typeof callback === 'function') return callback as Callback
  throw typeError('callback', 'of type function', callback)
}

interface OpendirOptions extends Options {
  readonly bufferSize?: number
  readonly recursive?: boolean
}

const optionNames = ['bufferSize', 'recursive'] as const

export const opendir: Define<OpenDirectory> = ({ form }, path, options) => {
  const given = givenPath(path)
  const { encoding, recursive, bufferSize = 32 } = toOptions<OpendirOptions>(options, optionNames)
  checkInteger('options.bufferSize', bufferSize, 1, 2 ** 32 - 1)
  const names = { syscall: 'opendir', path: form === 'sync' ? undefined : given }
  return readInSteps(names, (live) => {
    const dir = findDirectory(live, locate(live, given))
    return openWith(given, listInSteps(live, dir, given, { encoding, recursive, withFileTypes: true }))
  })
}

function* openWith(given: string, listing: LoadingSteps<Listed[]>): LoadingSteps<OpenDirectory> {
  return new OpenDirectory(given, (yield* listing) as Dirent[])
}
