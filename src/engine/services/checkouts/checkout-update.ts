import { limits } from '../../base/limits.js'
import type { Core } from '../../session/core.js'
import { treeChanges } from '../../session/tree-changes.js'
import { emptyDirectory } from '../../session/tree-builder.js'
import type { TreeChange } from '../../tree/diff.js'
import { Symlink, type Dir } from '../../tree/node.js'
import { Disk, FrozenTree, isIn, modified } from './checkout-disk.js'
import type { Exclusions } from './checkout-exclusions.js'
import { mustWriteRepository, writeRepository, type CheckoutRepository } from './checkout-git.js'
import type { NameRule } from './checkout-name-rules.js'
import type { Place } from './checkout-place.js'
import type { CheckoutUpdate, CheckoutUpdateOptions } from './checkout-requests.js'
import { checkShared, placeShared, type OpenShared } from './checkout-shared.js'
import { CheckoutWriter } from './checkout-write.js'
import type { HostTree } from '../sources/host-ports.js'

export interface UpdateOptions extends CheckoutUpdateOptions {
  readonly signal: AbortSignal
  readonly names: NameRule
  readonly exclusions: Exclusions
  readonly shared: readonly OpenShared[]
  readonly repository: CheckoutRepository | undefined
  readonly excludeLines: readonly string[]
}

/** One write of a tree to a directory. */
export class Update {
  readonly #core: Core
  readonly #place: Place
  readonly #tree: HostTree
  readonly #options: UpdateOptions

  constructor(core: Core, place: Place, tree: HostTree, options: UpdateOptions) {
    this.#core = core
    this.#place = place
    this.#tree = tree
    this.#options = options
  }

  async run(sessionId: string, to: Dir): Promise<CheckoutUpdate> {
    const { force = false, signal, names, exclusions, shared, onProgress = () => undefined } = this.#options
    const known = await this.#place.load()
    const bases = known?.trees.map((root) => new FrozenTree(this.#core, root)) ?? []
    const { first, empty } = await this.#firstName(bases)
    const target = new FrozenTree(this.#core, to)
    await checkShared(shared, target)
    const { repository, excludeLines } = this.#options
    const isStale = repository !== undefined && (await mustWriteRepository(this.#tree, repository, force))
    if (known === undefined && first !== undefined && !force)
      throw modified(
        first,
        'already exists in the directory; check out into an empty directory, or overwrite it with { force: true }',
      )
    // If the directory was emptied, this is a new checkout.
    const nothing = emptyDirectory(this.#core)
    const trees = first === undefined || known === undefined ? [nothing] : known.trees
    const writer = new CheckoutWriter(new Disk(this.#core, this.#tree, this.#place.index), {
      bases: trees.map((root) => new FrozenTree(this.#core, root)),
      to: target,
      force,
      empty,
      exclusions,
      signal,
      onProgress,
      onFirstChange: () => this.#place.store(sessionId, [...trees.slice(-limits.checkoutInterruptions), to]),
    })
    // All names that will be written are checked before the first change.
    for (const base of force ? [nothing] : trees)
      for await (const change of this.#changes(base, to)) checkWritten(change, names)
    if (!force && !empty) for (const base of trees) await writer.check(this.#changes(base, to))
    if (exclusions.any && !empty)
      for (const base of force ? [nothing, ...trees] : trees)
        await writer.checkLeftOut(this.#changes(base, to))
    if (force) {
      for (const base of trees) await writer.write(removalsOf(this.#changes(base, to)))
      await writer.write(this.#changes(nothing, to))
    } else for (const base of trees) await writer.write(this.#changes(base, to))
    await placeShared(shared, this.#tree, signal)
    if (isStale)
      await writeRepository(this.#tree, repository, {
        exclude: excludeLines,
        mtimeMs: this.#core.environment.wallClockMs(),
      })
    if (writer.differing > 0 || known?.sessionId !== sessionId || trees.length > 1)
      await this.#place.finish(sessionId, to)
    else await this.#place.index.flush()
    return { written: writer.written, removed: writer.removed }
  }

  #changes(before: Dir, after: Dir): AsyncGenerator<TreeChange> {
    return treeChanges(this.#core, before, after)
  }

  /** The first name in the directory that is not left out. Undefined if there is none. */
  async #firstName(
    bases: readonly FrozenTree[],
  ): Promise<{ readonly first: string | undefined; readonly empty: boolean }> {
    const listed = await this.#tree.list('/')
    if (listed === undefined) return { first: undefined, empty: true }
    const { entries, skipped } = listed
    if (skipped > 0) return { first: '/', empty: false }
    for (const { name, kind } of entries) {
      const path = `/${name}`
      const isLeftOut = await this.#options.exclusions.leavesOut(path, kind === 'directory')
      if (!isLeftOut || (await isIn(bases, path))) return { first: path, empty: false }
    }
    return { first: undefined, empty: entries.length === 0 }
  }
}

/** @throws {EngineError} UNSAFE_PATH when an entry to write has a forbidden name */
function checkWritten({ path, after }: TreeChange, names: NameRule): void {
  if (after !== undefined) names(path, after instanceof Symlink)
}

async function* removalsOf(changes: AsyncIterable<TreeChange>): AsyncGenerator<TreeChange> {
  for await (const change of changes) if (change.after === undefined) yield change
}
