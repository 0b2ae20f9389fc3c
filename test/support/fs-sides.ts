import * as disk from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { levelStorage } from '../../src/adapters/level/index.js'
import { expect } from 'vitest'
import { openEngine, type Engine, type Session, type SessionFs } from '../../src/index.js'

/** The promise form of node:fs, by which all three forms are compared. */
export type Promises = typeof disk.promises

export type Form = 'promise' | 'callback' | 'sync'

export type At = (path: string) => string

type Functions = Record<string, (...parameters: unknown[]) => unknown>

/** A form of the calls that the promise form has too, behind promises. What is thrown at once is marked. */
export function inForm(fs: typeof disk | SessionFs, form: Form): Promises {
  if (form === 'promise') return fs.promises
  const functions = fs as unknown as Functions
  return new Proxy(fs.promises, {
    get: (_promises, name: string) =>
      form === 'sync'
        ? async (...parameters: unknown[]) => functions[`${name}Sync`]!(...parameters)
        : (...parameters: unknown[]) => calledBack(functions[name]!, parameters),
  })
}

function calledBack(call: Functions[string], parameters: unknown[]): Promise<unknown> {
  return new Promise((resolve, reject) => {
    try {
      call(...withoutTail(parameters), (error: unknown, result: unknown) => {
        if (error === null || error === undefined) resolve(result)
        else reject(error)
      })
    } catch (error) {
      reject(Object.assign(error as Error, { atOnce: true }))
    }
  })
}

function withoutTail(parameters: unknown[]): unknown[] {
  // A path may be missing, which is what some cases are about; options that are not there are left out.
  const end = parameters.length > 1 && parameters.at(-1) === undefined ? -1 : undefined
  return parameters.slice(0, end)
}

/** A session and a directory of the disk, on which everything is done alike. */
export class Sides {
  readonly form: Form
  readonly durable: boolean
  engine!: Engine
  session!: Session
  fs!: SessionFs
  directory = ''
  #store: string | undefined
  #prepared: { readonly session: Session; readonly tree: unknown } | undefined
  #treeOnDisk: unknown

  constructor(form: Form, durable: boolean) {
    this.form = form
    this.durable = durable
  }

  async open(): Promise<void> {
    if (this.durable) this.#store = await disk.promises.mkdtemp(join(tmpdir(), 'fs-store-'))
    this.engine = await this.#openEngine()
  }

  /** Another engine on the same store. */
  async reopen(): Promise<void> {
    await this.engine.close()
    this.engine = await this.#openEngine()
  }

  #openEngine(): Promise<Engine> {
    return openEngine(
      this.#store === undefined
        ? {}
        : { storage: levelStorage(join(this.#store, 'db'), { durability: 'relaxed' }) },
    )
  }

  async close(): Promise<void> {
    this.#removeDirectory()
    await this.engine.close()
    if (this.#store !== undefined) await disk.promises.rm(this.#store, { recursive: true })
  }

  async begin(): Promise<void> {
    this.#makeDirectory()
    this.session = await this.engine.sessions.create()
    this.fs = this.session.fs
  }

  /**
   * As {@link begin}, with the tree that `prepare` makes on both sides, the same for all tests. The session is a fork of
   * one that is prepared once, and the directory stays as long as no test changes its tree. Tests change it by `same` and
   * `sameFs` alone.
   */
  async beginWith(prepare: (fs: typeof disk, at: At) => unknown): Promise<void> {
    if (this.directory === '') {
      this.#makeDirectory()
      await prepare(disk, this.onDisk)
    }
    if (this.#prepared === undefined) {
      const session = await this.engine.sessions.create()
      await prepare(session.fs, (path) => path)
      this.#prepared = { session, tree: tree(session.fs, '') }
    }
    this.#treeOnDisk = this.#prepared.tree
    this.session = await this.#prepared.session.fork()
    this.fs = this.session.fs
  }

  end(): void {
    const isAsPrepared =
      this.#prepared !== undefined && isDeepStrictEqual(this.#treeOnDisk, this.#prepared.tree)
    if (!isAsPrepared) this.#removeDirectory()
  }

  #makeDirectory(): void {
    this.directory = disk.realpathSync(disk.mkdtempSync(join(tmpdir(), 'fs-sides-')))
    disk.chmodSync(this.directory, 0o755)
  }

  #removeDirectory(): void {
    if (this.directory !== '') disk.rmSync(this.directory, { recursive: true, force: true })
    this.directory = ''
  }

  /** The same calls on both sides, which must come to the same and leave the same trees. */
  async same(
    label: string,
    operation: (fs: Promises, at: At) => unknown,
    errors: 'whole' | 'code only' = 'whole',
  ): Promise<void> {
    await this.sameFs(label, (fs, at) => operation(inForm(fs, this.form), at), errors)
  }

  /** As {@link same}, with all forms at hand. */
  async sameFs(
    label: string,
    operation: (fs: typeof disk, at: At) => unknown,
    errors: 'whole' | 'code only' = 'whole',
  ): Promise<void> {
    const onDisk = await outcome(() => operation(disk, this.onDisk), errors)
    const inSession = await outcome(() => operation(this.fs, (path) => path), errors)
    const treeInSession = tree(this.fs, '')
    this.#treeOnDisk = withoutRoot(this.directory, tree(disk, this.directory))
    // One check, as there are thousands: each costs more than what it compares.
    expect([label, inSession, treeInSession]).toEqual([
      label,
      withoutRoot(this.directory, onDisk),
      this.#treeOnDisk,
    ])
  }

  readonly onDisk: At = (path) => (path === '/' ? this.directory : this.directory + path)
}

export async function outcome(operation: () => unknown, errors: 'whole' | 'code only'): Promise<unknown> {
  let pending: unknown
  try {
    pending = operation()
  } catch (error) {
    return { thrownAtOnce: describeError(error, errors) }
  }
  try {
    const result = await pending
    // None of the operations gives true; that such a call gives nothing has a test of its own.
    return { result: result === true ? undefined : result }
  } catch (thrown) {
    return describeError(thrown, errors)
  }
}

function describeError(thrown: unknown, errors: 'whole' | 'code only'): object {
  const { name, message, code, errno, syscall, path, dest, atOnce } = thrown as NodeJS.ErrnoException & {
    dest?: string
    atOnce?: true
  }
  return errors === 'whole'
    ? { name, message, code, errno, syscall, path, dest, atOnce }
    : { name, code, atOnce }
}

/** Everything in it as it would be with the directory as root. */
function withoutRoot(directory: string, value: unknown): unknown {
  if (typeof value === 'string') {
    if (!value.includes(directory)) return value
    return value === directory
      ? '/'
      : value.replaceAll(`${directory}/`, '/').replaceAll(`'${directory}'`, "'/'")
  }
  if (Array.isArray(value)) return value.map((part) => withoutRoot(directory, part))
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, withoutRoot(directory, part)]))
}

export function describeStats(stats: disk.Stats): unknown {
  return {
    kinds: [stats.isFile(), stats.isDirectory(), stats.isSymbolicLink(), stats.isFIFO(), stats.isSocket()],
    devices: [stats.isBlockDevice(), stats.isCharacterDevice()],
    size: stats.isDirectory() ? 0 : stats.size,
    mode: stats.mode,
    nlink: stats.isDirectory() ? 1 : stats.nlink,
    dates: [stats.mtime, stats.atime, stats.ctime, stats.birthtime].map((date) => date instanceof Date),
    times: [stats.mtimeMs, stats.atimeMs, stats.ctimeMs, stats.birthtimeMs].map((ms) => typeof ms),
  }
}

/** Names, modes, targets and contents of everything. */
function tree(fs: typeof disk, root: string): unknown[] {
  const found: unknown[] = []
  const visit = (path: string): void => {
    const entries = fs.readdirSync(root + path || '/', { withFileTypes: true })
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const child = `${path}/${entry.name}`
      if (entry.isSymbolicLink()) {
        found.push([child, fs.readlinkSync(root + child)])
        continue
      }
      const { mode, size, nlink } = fs.lstatSync(root + child)
      if (entry.isDirectory()) {
        found.push([child, mode])
        visit(child)
      } else found.push([child, mode, size, fs.readFileSync(root + child, 'hex'), nlink])
    }
  }
  visit('')
  return found
}
