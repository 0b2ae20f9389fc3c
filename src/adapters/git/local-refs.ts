import { promises as fs } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { EngineError, isRefName } from '../../engine/ports.js'
import { gitLimits } from './limits.js'
import { errorCode, readOptional } from './local-files.js'
import { isObjectId } from './object-id.js'
import { branchMoved, pushRejected } from './remote-errors.js'

const symrefDepth = 5
const lockRetryMs = 20

/** The refs of a repository directory: files below `refs`, and `packed-refs` for those without a file. */
export class LocalRefs {
  readonly #gitDir: string
  readonly #commonDir: string
  readonly #allowed: readonly string[]

  constructor(places: { gitDir: string; commonDir: string; allowed: readonly string[] }) {
    this.#gitDir = places.gitDir
    this.#commonDir = places.commonDir
    this.#allowed = places.allowed
  }

  async list(prefixes: readonly string[]): Promise<Map<string, string>> {
    const packed = await this.#packed()
    const names = new Set(['HEAD', ...packed.keys(), ...(await this.#loose('refs'))])
    const refs = new Map<string, string>()
    for (const name of names) {
      if (prefixes.length > 0 && !prefixes.some((prefix) => name.startsWith(prefix))) continue
      const oid = await this.read(name, packed)
      if (oid !== null) refs.set(name, oid)
    }
    return refs
  }

  /** What the ref holds, through symbolic refs; null when there is none. */
  async read(name: string, packed?: ReadonlyMap<string, string>): Promise<string | null> {
    let ref = name
    for (let depth = 0; depth < symrefDepth; depth++) {
      const text = (await readOptional(this.#path(ref)))?.trim()
      if (text === undefined) return (packed ?? (await this.#packed())).get(ref) ?? null
      const target = /^ref: *(\S+)$/.exec(text)?.[1]
      if (target === undefined) return isObjectId(text) ? text : null
      if (!isRefName(target)) return null
      ref = target
    }
    return null
  }

  /**
   * Sets the ref to `newOid` while git's own lock on it is held, if it still is at `expectedOid`. Throws
   * BRANCH_MOVED, or GIT_PUSH_REJECTED when the name cannot be used.
   */
  async compareAndSet(change: { ref: string; expectedOid: string | null; newOid: string }): Promise<void> {
    const { ref, expectedOid, newOid } = change
    await this.#refuseNameConflict(ref)
    const path = this.#path(ref)
    await this.#makeParent(path)
    const lock = `${path}.lock`
    const file = await openLock(lock)
    try {
      try {
        if ((await readOptional(path))?.startsWith('ref:') === true) {
          throw pushRejected('the branch is a symbolic ref', '')
        }
        const tip = await this.read(ref)
        if (tip !== expectedOid) throw branchMoved(ref, expectedOid, tip)
        await file.writeFile(`${newOid}\n`)
        await file.sync()
      } finally {
        await file.close()
      }
      await fs.rename(lock, path)
    } catch (error) {
      await fs.rm(lock, { force: true })
      throw error
    }
  }

  #path(ref: string): string {
    // HEAD and other names outside `refs` belong to the worktree.
    return join(ref.startsWith('refs/') ? this.#commonDir : this.#gitDir, ...ref.split('/'))
  }

  async #packed(): Promise<Map<string, string>> {
    const refs = new Map<string, string>()
    const text = (await readOptional(join(this.#commonDir, 'packed-refs'))) ?? ''
    for (const line of text.split('\n')) {
      const [, oid, name] = /^([0-9a-f]{40}|[0-9a-f]{64}) (refs\/.+)$/.exec(line) ?? []
      if (oid !== undefined && name !== undefined) refs.set(name, oid)
    }
    return refs
  }

  async #loose(directory: string): Promise<string[]> {
    const entries = await fs.readdir(this.#path(`${directory}/`), { withFileTypes: true }).catch(() => [])
    const names: string[] = []
    for (const entry of entries) {
      const name = `${directory}/${entry.name}`
      if (entry.isDirectory()) names.push(...(await this.#loose(name)))
      else if (isRefName(name)) names.push(name)
    }
    return names
  }

  /** A branch `a` and a branch `a/b` cannot both be. */
  async #refuseNameConflict(ref: string): Promise<void> {
    const others = [...(await this.#packed()).keys(), ...(await this.#loose('refs/heads'))]
    const other = others.find((name) => name.startsWith(`${ref}/`) || ref.startsWith(`${name}/`))
    if (other !== undefined) throw pushRejected(`${ref} conflicts with ${other}`, '')
    // Directories that deleted branches left behind.
    await removeEmptyDirectories(this.#path(ref))
  }

  async #makeParent(path: string): Promise<void> {
    const parent = dirname(path)
    await fs.mkdir(parent, { recursive: true })
    const real = await fs.realpath(parent)
    if (this.#allowed.some((root) => real.startsWith(root.endsWith(sep) ? root : root + sep))) return
    throw new EngineError('PERMISSION_DENIED', 'the refs of the repository are outside the allowed roots')
  }
}

async function openLock(lock: string): Promise<fs.FileHandle> {
  const end = performance.now() + gitLimits.lockWaitMs
  for (;;) {
    try {
      return await fs.open(lock, 'wx', 0o644)
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error
      if (performance.now() > end)
        throw new EngineError('GIT_REMOTE_ERROR', 'the branch is locked by someone')
      await setTimeout(lockRetryMs)
    }
  }
}

async function removeEmptyDirectories(path: string): Promise<void> {
  const entries = await fs.readdir(path, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) if (entry.isDirectory()) await removeEmptyDirectories(join(path, entry.name))
  await fs.rmdir(path).catch(() => {})
}
