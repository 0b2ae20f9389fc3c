import * as disk from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { levelStorage } from '../../src/adapters/level/index.js'
import { expect } from 'vitest'
import { openEngine, type Engine, type Session, type SessionFs } from '../../src/index.js'

/** The promise form of node:fs, against which all three forms are compared. */
export type Promises = typeof disk.promises

export type Form = 'promise' | 'callback' | 'sync'

export type At = (path: string) => string

type Functions = Record<string, (...parameters: unknown[]) => unknown>

/** One form of the calls, wrapped in the promise form. Marks errors that are thrown synchronously. */
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
  // A path may be missing on purpose. Omitted options are not passed.
  const end = parameters.length > 1 && parameters.at(-1) === undefined ? -1 : undefined
  return parameters.slice(0, end)
}

/** A session and a directory on disk, with the same calls made on both. */
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

  /** Opens another engine on the same store. */
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
   * Like {@link begin}, with a tree that `prepare` makes on both sides, the same for all tests. The session is forked
   * from one that is prepared once; the directory is reused until a test changes its tree. Tests must change it only
   * through `same` and `sameFs`.
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

  /** Makes the same calls on both sides, and expects equal results and equal trees. */
  async same(
    label: string,
    operation: (fs: Promises, at: At) => unknown,
    errors: 'whole' | 'code only' = 'whole',
  ): Promise<void> {
    await this.sameFs(label, (fs, at) => operation(inForm(fs, this.form), at), errors)
  }

  /** Like {@link same}, with all forms available. */
  async sameFs(
    label: string,
    operation: (fs: typeof disk, at: At) => unknown,
    errors: 'whole' | 'code only' = 'whole',
  ): Promise<void> {
    const onDisk = await outcome(() => operation(disk, this.onDisk), errors)
    const inSession = await outcome(() => operation(this.fs, (path) => path), errors)
    const treeInSession = tree(this.fs, '')
    this.#treeOnDisk = withoutRoot(this.directory, tree(disk, this.directory))
    // A single assertion: there are thousands, and each costs more than the comparison itself.
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
    // No operation returns true as a result. A separate test covers the calls that return nothing.
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

/** The value with the directory's path replaced by the root. */
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

/** The names, modes, targets and contents of a tree. */
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
