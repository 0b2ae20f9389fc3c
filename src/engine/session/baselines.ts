import { invalid } from '../base/errors.js'
import { limits } from '../base/limits.js'
import { joinPath, parsePath } from '../base/path.js'
import { TimeSlice } from '../base/slices.js'
import { StagedContent } from '../cas/staging.js'
import { Dir } from '../tree/node.js'
import { emptyRoot, Tree } from '../tree/tree.js'
import { apply } from './apply.js'
import type { Core } from './core.js'
import { piecesFrom } from './events.js'
import { manifestHash } from './manifest.js'
import type { Baseline } from './records.js'
import type { FileContent } from './writes.js'

/** A tree in the making that no session sees yet: what an import or an object of files becomes. */
export class TreeBuilder {
  readonly tree: Tree
  readonly #core: Core
  #pending: { hash: string; bytes: Uint8Array }[] = []
  #pendingBytes = 0

  constructor(core: Core) {
    this.#core = core
    this.tree = new Tree(emptyDirectory(core), core.loader)
  }

  directory(path: string, mode: number, at: number): void {
    apply(this.tree, ['d', path, mode, this.#core.ids.newIno()], at, this.#core)
  }

  symlink(path: string, target: string, at: number): void {
    apply(this.tree, ['s', path, target, this.#core.ids.newIno()], at, this.#core)
  }

  /** A promise when blobs have to be stored before more may come. */
  file(path: string, content: FileContent, mode: number, at: number): Promise<void> | undefined {
    const { store } = this.#core
    const staged = new StagedContent(content, this.#core)
    if (!staged.ready) return staged.storeAhead().then(() => this.#put(path, staged, mode, at))
    this.#put(path, staged, mode, at)
    if (!store.capabilities.durable) {
      store.wrote(staged.size)
      return undefined
    }
    for (const blob of staged.blobs()) {
      this.#pending.push({ hash: blob.hash, bytes: blob.bytes! })
      this.#pendingBytes += blob.length
      // Nobody reads an import before it is done; what is read then comes from the store.
      blob.bytes = undefined
    }
    return this.#pendingBytes >= limits.importCommitBytes ? this.#store() : undefined
  }

  /** Resolves when every blob is stored. */
  async finish(): Promise<Dir> {
    if (this.#pending.length > 0) await this.#store()
    return this.tree.freeze()
  }

  #put(path: string, staged: StagedContent, mode: number, at: number): void {
    const blobs = staged.blobs()
    const [first] = blobs
    apply(
      this.tree,
      ['w', path, mode, this.#core.ids.newIno(), blobs.length === 1 ? first! : 0],
      at,
      this.#core,
    )
    if (blobs.length > 1) apply(this.tree, ['p', path, staged.size, piecesFrom(0, blobs)], at, this.#core)
  }

  async #store(): Promise<void> {
    const blobs = this.#pending
    this.#pending = []
    this.#pendingBytes = 0
    await this.#core.store.commit({ blobs })
  }
}

const blanks = new WeakMap<Core['roots'], Promise<[Baseline, Dir]>>()

/** The empty tree, one for all blank sessions of an engine. */
export function blankBaseline(core: Core): Promise<[Baseline, Dir]> {
  let blank = blanks.get(core.roots)
  if (blank === undefined) {
    blank = saveBaseline(core, emptyDirectory(core))
    blanks.set(core.roots, blank)
  }
  return blank
}

/** A tree made from paths and contents; parents come by themselves. */
export async function filesBaseline(
  core: Core,
  files: Readonly<Record<string, FileContent>>,
): Promise<[Baseline, Dir]> {
  if (typeof files !== 'object' || files === null)
    throw invalid('files', 'must be an object of paths and contents')
  // Bytes are copied at the call; text cannot change.
  const entries = Object.entries(files).map(
    ([path, content]) => [path, content instanceof Uint8Array ? Uint8Array.from(content) : content] as const,
  )
  const builder = new TreeBuilder(core)
  const at = core.environment.wallClockMs()
  const slice = new TimeSlice(core.environment)
  for (const [path, content] of entries) {
    if (slice.over) await slice.next()
    const names = parsePath(path, 'files')
    if (names.length === 0) throw invalid('files', 'the root is a directory')
    for (let depth = 1; depth < names.length; depth++) {
      const parent = builder.tree.find(names.slice(0, depth))
      if (parent === undefined) builder.directory(joinPath(names.slice(0, depth)), 0o755, at)
      else if (!(parent instanceof Dir))
        throw invalid('files', `${joinPath(names.slice(0, depth))} is a file and a directory`)
    }
    if (builder.tree.find(names) !== undefined) throw invalid('files', `${path} is a file and a directory`)
    await builder.file(path, content, 0o644, at)
  }
  return saveBaseline(core, await builder.finish())
}

export async function saveBaseline(core: Core, root: Dir): Promise<[Baseline, Dir]> {
  const fingerprint = await manifestHash(core, root)
  return [{ fingerprint, root: await core.roots.save(root) }, root]
}

function emptyDirectory(core: Core): Dir {
  const at = core.environment.wallClockMs()
  return emptyRoot({ ino: core.ids.newIno(), mode: 0o755, mtime: at, ctime: at, birthtime: at })
}
