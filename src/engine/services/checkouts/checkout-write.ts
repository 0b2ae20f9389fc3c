import { limits } from '../../base/limits.js'
import type { TreeChange } from '../../tree/diff.js'
import { Dir, LinkedFile, Symlink, type FileNode, type Node } from '../../tree/node.js'
import { contentOf, isIn, modified, shownMode, type Disk, type FrozenTree } from './checkout-disk.js'
import type { Exclusions } from './checkout-exclusions.js'
import { splitParent } from './checkout-index.js'
import { namesOf } from './checkout-entries.js'
import type { HostStat } from '../sources/host-ports.js'

/** The progress of writing a checkout. */
export interface CheckoutProgress {
  /** Bytes of the files written so far. */
  readonly bytesProcessed: number
  /** Number of files and symlinks written so far. */
  readonly filesProcessed: number
}

export interface WriteContext {
  /** The trees that a path of the directory may match: one, or several after an interruption. */
  readonly bases: readonly FrozenTree[]
  readonly to: FrozenTree
  /** Whether to overwrite changes by others. */
  readonly force: boolean
  /** Whether the directory was empty, so that writes need no checks. */
  readonly empty: boolean
  readonly exclusions: Exclusions
  readonly signal: AbortSignal
  readonly onProgress: (progress: CheckoutProgress) => void
  /** Awaited before the first change. */
  readonly onFirstChange: () => Promise<void>
}

const ownerBits = 0o700

interface Frame {
  readonly path: string
  /** true: the directory is removed after its contents. false: it gets its mode and time after its contents. */
  readonly removed: boolean
}

/** Makes a directory of the host match a tree, path by path, in the order of a diff. */
export class CheckoutWriter {
  written = 0
  removed = 0
  /** The number of paths that differed from the trees, whether or not they were written. */
  differing = 0
  readonly #disk: Disk
  readonly #context: WriteContext
  /** The directories that have been entered. Each is below the one before it. */
  readonly #frames: Frame[] = []
  readonly #writing = new Set<Promise<void>>()
  #failure: { readonly error: unknown } | undefined
  /** The path that was removed last. An entry of another kind may follow at this path. */
  #gone = ''
  #started = false
  #bytes = 0
  #files = 0
  /** For each hard-linked file, a path on the host that has it. */
  readonly #linked = new Map<number, { readonly path: string; readonly ino: string }>()
  /** The names of hard-linked files by inode number, for each of the trees. */
  #linkNames: Promise<Map<number, string[]>[]> | undefined

  constructor(disk: Disk, context: WriteContext) {
    this.#disk = disk
    this.#context = context
  }

  /**
   * Checks the paths that differ, and changes nothing.
   *
   * @throws {EngineError} CHECKOUT_MODIFIED when others changed a path that differs
   */
  async check(changes: AsyncIterable<TreeChange>): Promise<void> {
    for await (const { path, after } of changes) {
      this.#context.signal.throwIfAborted()
      if (path === '/') continue
      const stat = await this.#disk.tree.stat(path)
      if (!(await this.#isExpected(path, stat, after))) throw modified(path)
      if (stat?.kind === 'directory' && !(after instanceof Dir)) await this.#checkNames(path)
      await this.#disk.index.rest()
    }
  }

  /**
   * Checks that no entry that is left out would be deleted or overwritten. Changes nothing.
   *
   * @throws {EngineError} CHECKOUT_MODIFIED when one would be
   */
  async checkLeftOut(changes: AsyncIterable<TreeChange>): Promise<void> {
    for await (const { path, after } of changes) {
      this.#context.signal.throwIfAborted()
      if (path === '/' || after === undefined) continue
      const stat = await this.#disk.tree.stat(path)
      if (stat === undefined || (await this.#disk.matches(path, stat, after))) continue
      if (stat.kind !== 'directory') await this.#refuseLeftOut(path, false)
      else if (!(after instanceof Dir)) await this.#refuseLeftOutBelow(path)
    }
  }

  async #refuseLeftOutBelow(path: string): Promise<void> {
    await this.#refuseLeftOut(path, true)
    for (const { name, kind } of (await this.#disk.tree.list(path))?.entries ?? []) {
      this.#context.signal.throwIfAborted()
      if (kind === 'directory') await this.#refuseLeftOutBelow(`${path}/${name}`)
      else await this.#refuseLeftOut(`${path}/${name}`, false)
    }
  }

  async #refuseLeftOut(path: string, isDirectory: boolean): Promise<void> {
    if (await this.#isLeftOut(path, isDirectory))
      throw modified(path, 'is ignored, and in the place of a file of the session; move it elsewhere')
  }

  async #isLeftOut(path: string, isDirectory: boolean): Promise<boolean> {
    const { exclusions, bases } = this.#context
    return (await exclusions.leavesOut(path, isDirectory)) && !(await isIn(bases, path))
  }

  /** Whether a directory has entries that are left out, and no other ones. */
  async #hasOnlyLeftOut(path: string): Promise<boolean> {
    if (!this.#context.exclusions.any) return false
    const listed = await this.#disk.tree.list(path)
    if (listed === undefined || listed.skipped > 0 || listed.entries.length === 0) return false
    for (const { name, kind } of listed.entries) {
      const child = `${path}/${name}`
      const isDirectory = kind === 'directory'
      if (await this.#isLeftOut(child, isDirectory)) continue
      if (!isDirectory || !(await this.#hasOnlyLeftOut(child))) return false
    }
    return true
  }

  async write(changes: AsyncIterable<TreeChange>): Promise<void> {
    try {
      for await (const change of changes) {
        this.#context.signal.throwIfAborted()
        if (change.path === '/') continue
        this.differing++
        await this.#leave(change.path)
        await this.#repair(splitParent(change.path).parent)
        if (change.after === undefined) await this.#remove(change.path)
        else await this.#put(change.path, change.after)
      }
      await this.#leave('')
      this.#context.signal.throwIfAborted()
    } finally {
      await Promise.allSettled(this.#writing)
    }
  }

  /** After an interruption: removes the leftovers of a write, and restores the mode of the directory. */
  async #repair(path: string): Promise<void> {
    if (!this.#isUnsure) return
    if (path === '/' || (await this.#disk.tree.stat(path))?.kind === 'directory') await this.#enter(path)
  }

  get #isUnsure(): boolean {
    return this.#context.bases.length > 1
  }

  /** Whether the entry at a path matches one of the known trees, or already matches the wanted node. */
  async #isExpected(path: string, stat: HostStat | undefined, after: Node | undefined): Promise<boolean> {
    if (await this.#disk.matches(path, stat, after)) return true
    for (const base of this.#context.bases) {
      const before = await base.find(path)
      if (await this.#disk.matches(path, stat, before)) return true
      if (stat?.kind !== 'directory') continue
      // Others may have made the directory. After an interrupted write, a directory may have any mode.
      if (before instanceof Dir ? this.#isUnsure : after instanceof Dir) return true
    }
    return false
  }

  /** Checks that a directory that will be removed contains no files of others. */
  async #checkNames(path: string): Promise<void> {
    const listed = await this.#disk.tree.list(path)
    if (listed === undefined) return
    if (listed.skipped > 0) throw modified(path)
    for (const { name, kind } of listed.entries) {
      const child = `${path}/${name}`
      const isDirectory = kind === 'directory'
      if (await isIn(this.#context.bases, child)) continue
      if (await this.#context.exclusions.leavesOut(child, isDirectory)) continue
      if (!isDirectory || !(await this.#hasOnlyLeftOut(child))) throw modified(child)
    }
  }

  async #remove(path: string): Promise<void> {
    const { tree, index } = this.#disk
    const stat = await tree.stat(path)
    if (stat === undefined) return
    const known = await Promise.all(this.#context.bases.map((base) => base.find(path)))
    const isDirectory = stat.kind === 'directory'
    // An entry of another kind than in the known trees belongs to others.
    if (!known.some((node) => node !== undefined && node instanceof Dir === isDirectory)) {
      if (this.#context.force) return
      throw modified(path)
    }
    if (!this.#context.force && !(await this.#isExpected(path, stat, undefined))) throw modified(path)
    await this.#enter(splitParent(path).parent)
    if (isDirectory) {
      if ((stat.mode & ownerBits) !== ownerBits)
        await tree.setAttributes(path, { mode: stat.mode | ownerBits })
      if (this.#isUnsure) await tree.removeTemporary(path)
      this.#frames.push({ path, removed: true })
      return
    }
    await tree.remove(path)
    await index.set(path, undefined)
    this.#gone = path
    this.removed++
  }

  async #put(path: string, node: Node): Promise<void> {
    const { tree } = this.#disk
    const { empty, force } = this.#context
    const stat = empty ? undefined : await tree.stat(path)
    if (stat !== undefined && (await this.#disk.matches(path, stat, node)))
      return this.#keepLink(path, stat, node)
    const expected = empty || force || (stat === undefined && path === this.#gone)
    if (!expected && !(await this.#isExpected(path, stat, node))) throw modified(path)
    await this.#enter(splitParent(path).parent)
    if (node instanceof Dir) return this.#putDirectory(path, stat)
    if (stat?.kind === 'directory') await this.#removeAll(path)
    if (node instanceof Symlink) {
      await tree.writeSymlink(path, node.target, { mtimeMs: node.mtime })
      this.#countFile()
    } else if (node instanceof LinkedFile) {
      await this.#settle()
      if (!(await this.#link(path, node))) await this.#putFile(path, node)
    } else await this.#soon(() => this.#putFile(path, node))
  }

  async #putDirectory(path: string, stat: HostStat | undefined): Promise<void> {
    const { tree } = this.#disk
    if (stat !== undefined && stat.kind !== 'directory') await tree.remove(path)
    if (stat?.kind !== 'directory') {
      await tree.makeDirectory(path)
      await this.#disk.index.forget(path)
    } else if (this.#isUnsure) await tree.removeTemporary(path)
    this.#frames.push({ path, removed: false })
    this.written++
  }

  async #putFile(path: string, node: FileNode): Promise<void> {
    const { tree, core } = this.#disk
    const attributes = { mode: node.mode & shownMode, mtimeMs: node.mtime }
    // The file is written even if only its mode differs, because the entry may be another name of a file
    // elsewhere.
    const now = await tree.writeFile(path, this.#counted(contentOf(core, node)), attributes)
    if (now.size !== node.size) throw modified(path)
    await this.#disk.remember(path, now, node)
    if (node instanceof LinkedFile) this.#linked.set(node.ino, { path, ino: now.ino })
    this.#countFile()
  }

  /**
   * Gives a file that the host already has another name. False if there is no such file, or the host cannot
   * link it.
   */
  async #link(path: string, node: LinkedFile): Promise<boolean> {
    const existing = this.#linked.get(node.ino) ?? (await this.#findLinked(path, node))
    if (existing === undefined || existing.path === path) return false
    this.#linked.set(node.ino, existing)
    const stat = await this.#disk.tree.link(existing.path, path, existing.ino)
    if (stat === undefined) return false
    await this.#disk.remember(path, stat, node)
    await this.#disk.remember(existing.path, stat, node)
    this.#countFile()
    return true
  }

  /** Finds another name under which the host already has the final state of the file. */
  async #findLinked(path: string, node: LinkedFile): Promise<{ path: string; ino: string } | undefined> {
    const { tree } = this.#disk
    for (const other of await this.#namesOf(node)) {
      if (other === path) continue
      const stat = await tree.stat(other)
      if (stat?.kind !== 'file' || !(await this.#disk.matches(other, stat, node))) continue
      if (await this.#isOurs(stat, node)) return { path: other, ino: stat.ino }
    }
    return undefined
  }

  /** Whether all names of a host file are names of the file in the session, now or in an earlier state. */
  async #isOurs({ ino, nlink }: HostStat, node: LinkedFile): Promise<boolean> {
    let names = 0
    for (const path of await this.#namesOf(node)) if ((await this.#disk.tree.stat(path))?.ino === ino) names++
    return names >= nlink
  }

  /** The names of the file in the new tree, and in the trees that the directory may match. */
  async #namesOf({ ino }: LinkedFile): Promise<ReadonlySet<string>> {
    const { core } = this.#disk
    const { to, bases } = this.#context
    this.#linkNames ??= Promise.all([to, ...bases].map(({ root }) => namesOf(core, root)))
    return new Set((await this.#linkNames).flatMap((names) => names.get(ino) ?? []))
  }

  /** Replaces an entry that already has the right content by a hard link to the file's other names. */
  async #keepLink(path: string, stat: HostStat, node: Node): Promise<void> {
    if (!(node instanceof LinkedFile)) return
    const known = this.#linked.get(node.ino)
    if (known === undefined) {
      if (await this.#isOurs(stat, node)) this.#linked.set(node.ino, { path, ino: stat.ino })
    } else if (known.ino !== stat.ino) {
      await this.#enter(splitParent(path).parent)
      await this.#settle()
      await this.#link(path, node)
    }
  }

  /** Makes sure that a directory exists and can be written. It gets its final mode when it is left. */
  async #enter(path: string): Promise<void> {
    const { tree } = this.#disk
    if (!this.#started) {
      this.#started = true
      await this.#context.onFirstChange()
      if (this.#isUnsure) await tree.removeTemporary('/')
    }
    if (path === '/' || this.#frames.at(-1)?.path === path) return
    const stat = await tree.stat(path)
    if (stat?.kind !== 'directory') {
      if (!this.#context.force) throw modified(path)
      await this.#enter(splitParent(path).parent)
      if (stat !== undefined) await tree.remove(path)
      await tree.makeDirectory(path)
    } else if ((stat.mode & ownerBits) !== ownerBits)
      await tree.setAttributes(path, { mode: stat.mode | ownerBits })
    if (this.#isUnsure) await tree.removeTemporary(path)
    this.#frames.push({ path, removed: false })
  }

  /** Leaves the directories that do not contain the path. */
  async #leave(path: string): Promise<void> {
    for (let frame = this.#frames.at(-1); frame !== undefined; frame = this.#frames.at(-1)) {
      if (path.startsWith(`${frame.path}/`)) return
      await this.#settle()
      this.#frames.pop()
      if (frame.removed) await this.#removeLeft(frame.path)
      else {
        const node = await this.#context.to.find(frame.path)
        if (node instanceof Dir)
          await this.#disk.tree.setAttributes(frame.path, {
            mode: node.mode & shownMode,
            mtimeMs: node.mtime,
          })
      }
      await this.#disk.index.rest()
    }
    if (path === '') await this.#settle()
  }

  async #removeLeft(path: string): Promise<void> {
    const { tree, index } = this.#disk
    // The directory stays if it contains files of others.
    if (!(await tree.removeDirectory(path))) {
      if (this.#context.force || (await this.#hasOnlyLeftOut(path))) return
      throw modified(path)
    }
    await index.forget(path)
    this.#gone = path
    this.removed++
  }

  /** Removes a directory that is in the place of another entry, with everything in it. */
  async #removeAll(path: string): Promise<void> {
    const { tree, index } = this.#disk
    if (await tree.removeDirectory(path)) return
    if (!this.#context.force) throw modified(path)
    await tree.setAttributes(path, { mode: ownerBits })
    await tree.removeTemporary(path)
    for (const { name, kind } of (await tree.list(path))?.entries ?? []) {
      this.#context.signal.throwIfAborted()
      if (kind === 'directory') await this.#removeAll(`${path}/${name}`)
      else await tree.remove(`${path}/${name}`)
    }
    await index.forget(path)
    if (!(await tree.removeDirectory(path))) throw modified(path)
  }

  /** Runs a write concurrently with others. */
  async #soon(write: () => Promise<void>): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error
    while (this.#writing.size >= limits.checkoutWritesAtOnce) await Promise.race(this.#writing)
    const writing = write()
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
      .then(() => {
        this.#writing.delete(writing)
      })
    this.#writing.add(writing)
  }

  async #settle(): Promise<void> {
    await Promise.all(this.#writing)
    if (this.#failure !== undefined) throw this.#failure.error
  }

  async *#counted(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of content) {
      this.#context.signal.throwIfAborted()
      this.#bytes += piece.length
      yield piece
    }
  }

  #countFile(): void {
    this.written++
    this.#files++
    this.#context.onProgress({ bytesProcessed: this.#bytes, filesProcessed: this.#files })
  }
}
