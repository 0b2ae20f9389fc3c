import { TimeSlice } from '../../base/cooperative.js'
import { limits } from '../../base/limits.js'
import { compareUtf8 } from '../../base/order.js'
import { sortedInSlices } from '../../base/sorted.js'
import type { Core } from '../../session/core.js'
import { attributesOf, Dir, FileNode, type Node } from '../../tree/node.js'
import { ConflictKind, type ConflictRecord, type SideNames } from '../../records/merge.js'
import {
  changedPaths,
  isBelow,
  parentsOf,
  sameAttributes,
  sameNode,
  type ChangedPath,
  type MergeTrees,
} from './changed-paths.js'
import { exactRenames, type Renames } from './exact-renames.js'
import { lostChanges, lostMoves } from './lost-moves.js'
import { tooManyPasses } from './merge-errors.js'
import { merged, mergeXattrs, type FileMerger, type MergedFile } from './merge-files.js'
import type { Merger, MergePolicy, PathRules } from './merge-policies.js'
import type { File, FoundConflict, MergedTrees, MergePasses, Placed } from './merged-trees.js'
import { followedRenames } from './obstructed-renames.js'
import { newSubmoduleOf } from './submodules.js'

export interface MergeRules {
  readonly policies: PathRules<MergePolicy>
  readonly mergers: PathRules<Merger>
  readonly names: SideNames
  /** true: the result is the base of another merge. Conflicts have markers, or else the content of the base. */
  readonly isVirtual: boolean
}

/** The versions of a file at the path where the merge puts it. */
interface Slot {
  base?: Placed | undefined
  ours?: Placed | undefined
  theirs?: Placed | undefined
}

/** A directory whose bits or attributes one side changed. */
interface ChangedDirectory {
  readonly path: string
  readonly before: Dir
  readonly side: 'ours' | 'theirs'
  readonly node: Dir
}

/** Merges two frozen trees with their base. It changes nothing. */
export async function mergeTrees(
  core: Core,
  trees: MergeTrees,
  rules: MergeRules,
  merger: FileMerger,
): Promise<MergedTrees> {
  const paths = await changedPaths(core, trees)
  const renames = await followedRenames(core, paths, {
    ours: await exactRenames(core, paths, 'ours'),
    theirs: await exactRenames(core, paths, 'theirs'),
  })
  const undeleted = new Set<string>()
  const unfollowed = new Set<string>()
  const passes: MergePasses = { undeleted, unfollowed, mergedFiles: new Map() }
  for (let pass = 0; pass < limits.mergePasses; pass++) {
    const merge = new TreeMerge(core, rules, merger, trees, paths, passes)
    const result = await merge.run(renames)
    if (rules.isVirtual) return result
    const known = undeleted.size + unfollowed.size
    for (const path of await lostMoves(core, paths, merge.contested)) undeleted.add(path)
    for (const path of lostChanges(paths, renames, merge)) unfollowed.add(path)
    if (undeleted.size + unfollowed.size === known) return result
  }
  throw tooManyPasses()
}

class TreeMerge {
  /** The paths where the sides have different things that cannot both stay, whether or not a policy decides. */
  readonly contested = new Set<string>()
  /** The contested paths where one side has a directory. */
  readonly separated = new Set<string>()
  readonly #core: Core
  readonly #rules: MergeRules
  readonly #merger: FileMerger
  readonly #trees: MergeTrees
  readonly #paths: ReadonlyMap<string, ChangedPath>
  readonly #passes: MergePasses
  readonly #slots = new Map<string, Slot>()
  readonly #files = new Map<string, File | undefined>()
  readonly #directories = new Map<string, Dir | undefined>()
  readonly #moves = new Map<string, string>()
  readonly #conflicts = new Map<string, FoundConflict>()
  readonly #slice: TimeSlice

  constructor(
    core: Core,
    rules: MergeRules,
    merger: FileMerger,
    trees: MergeTrees,
    paths: ReadonlyMap<string, ChangedPath>,
    passes: MergePasses,
  ) {
    this.#core = core
    this.#rules = rules
    this.#merger = merger
    this.#trees = trees
    this.#paths = paths
    this.#passes = passes
    this.#slice = new TimeSlice(core.environment)
  }

  async run(renames: { readonly ours: Renames; readonly theirs: Renames }): Promise<MergedTrees> {
    for (const [path, { base, ours, theirs }] of this.#paths) {
      if (this.#slice.over) await this.#slice.next()
      const slot = { base: placed(path, base), ours: placed(path, ours), theirs: placed(path, theirs) }
      if (slot.base !== undefined || slot.ours !== undefined || slot.theirs !== undefined)
        this.#slots.set(path, slot)
    }
    await this.#applyRenames(renames)
    for (const [path, slot] of this.#slots) {
      if (this.#slice.over) await this.#slice.next()
      await this.#mergeSlot(path, slot)
    }
    await this.#mergeDirectories()
    await this.#separateFilesFromDirectories()
    await this.#keepNeededDirectories()
    const conflicts = await sortedInSlices(
      this.#conflicts.values(),
      (a, b) => compareUtf8(a.path, b.path),
      this.#slice,
    )
    return { files: this.#files, directories: this.#directories, moves: this.#moves, conflicts }
  }

  async #applyRenames(renames: { readonly ours: Renames; readonly theirs: Renames }): Promise<void> {
    const both = new Set([...renames.ours.keys(), ...renames.theirs.keys()])
    for (const from of await sortedInSlices(both, compareUtf8, this.#slice)) {
      if (this.#slice.over) await this.#slice.next()
      const slot = this.#slots.get(from)
      if (slot === undefined || this.#passes.unfollowed.has(from)) continue
      const [our, their] = [renames.ours.get(from), renames.theirs.get(from)]
      if (our !== undefined && their !== undefined) {
        if (our === their) this.#slotAt(our).base = slot.base
        else this.#renamedTwice(from, slot.base, our, their)
        slot.base = undefined
      } else if (our !== undefined) this.#renamedOnce(from, slot, our, 'ours')
      else if (their !== undefined) this.#renamedOnce(from, slot, their, 'theirs')
    }
  }

  /** One side moved the file, and the other one changed or deleted it. */
  #renamedOnce(from: string, slot: Slot, to: string, side: 'ours' | 'theirs'): void {
    const other = side === 'ours' ? 'theirs' : 'ours'
    const target = this.#slotAt(to)
    const { base } = slot
    const changed = slot[other]
    const moved = target[side]
    slot.base = undefined
    if (base === undefined || moved === undefined) return
    if (changed === undefined || !isSameKind(changed.file, moved.file)) {
      const isTaken = target[other] !== undefined || this.#hasDirectory(to, other)
      const conflict = { kind: ConflictKind.RENAME_DELETE, base: base.path, [side]: to }
      this.#conflictAt(to, isTaken ? { ...conflict, [other]: to } : conflict)
      // The other side has another file, or a directory, at the new path. The two are merged there.
      if (isTaken) return
      this.#decide(to, { base: base.file, ours: target.ours?.file, theirs: target.theirs?.file })
      this.#decided.add(to)
      return
    }
    slot[other] = undefined
    target.base = base
    target[other] = changed
    if (side === 'theirs') this.#moves.set(from, to)
  }

  #renamedTwice(from: string, base: Placed | undefined, our: string, their: string): void {
    const [ours, theirs] = [this.#slotAt(our), this.#slotAt(their)]
    this.#conflictAt(our, {
      kind: ConflictKind.RENAME_RENAME,
      base: from,
      ours: our,
      theirs: their,
    })
    const kept = this.#rules.isVirtual ? 'base' : (this.#keeps(our) ?? 'ours')
    const results = [
      [from, undefined, kept === 'base' ? base?.file : undefined],
      [our, ours.theirs, kept === 'ours' ? ours.ours?.file : undefined],
      [their, theirs.ours, kept === 'theirs' ? theirs.theirs?.file : undefined],
    ] as const
    for (const [path, otherFile, file] of results) {
      // The other side has another file at the new path.
      if (otherFile !== undefined) continue
      this.#files.set(path, file)
      this.#decided.add(path)
    }
    this.#newPaths.add(their)
  }

  /** Paths whose result is already known. */
  readonly #decided = new Set<string>()
  /** Paths to which theirs moved a file that ours moved too. */
  readonly #newPaths = new Set<string>()

  #slotAt(path: string): Slot {
    const known = this.#slots.get(path)
    if (known !== undefined) return known
    const slot: Slot = {}
    this.#slots.set(path, slot)
    return slot
  }

  async #mergeSlot(path: string, { base, ours, theirs }: Slot): Promise<void> {
    if (this.#decided.has(path)) return
    const core = this.#core
    if (this.#passes.undeleted.has(path)) return this.#deletion(path, { base, ours, theirs })
    if (await sameNode(core, ours?.file, base?.file)) {
      if (!(await sameNode(core, theirs?.file, base?.file)) || theirs?.path !== path || ours?.path !== path)
        this.#files.set(path, theirs?.file)
      return
    }
    if (
      (await sameNode(core, theirs?.file, base?.file)) ||
      (await sameNode(core, ours?.file, theirs?.file))
    ) {
      this.#files.set(path, ours?.file)
      return
    }
    if (ours === undefined || theirs === undefined) return this.#deletion(path, { base, ours, theirs })
    if (!(ours.file instanceof FileNode && theirs.file instanceof FileNode)) {
      const isAdded = base === undefined && !isSameKind(ours.file, theirs.file)
      return this.#conflict(
        path,
        { base, ours, theirs },
        isAdded ? ConflictKind.ADD_ADD : ConflictKind.SYMLINK,
      )
    }
    await this.#mergeFile(path, { base, ours, theirs }, { ours: ours.file, theirs: theirs.file })
  }

  #deletion(path: string, slot: Slot): void {
    const isReplaced = this.#hasDirectory(path, slot.ours === undefined ? 'ours' : 'theirs')
    this.#conflict(path, slot, isReplaced ? ConflictKind.FILE_DIRECTORY : ConflictKind.DELETE_MODIFY)
  }

  #hasDirectory(path: string, side: 'ours' | 'theirs'): boolean {
    return this.#paths.get(path)?.[side] instanceof Dir
  }

  async #mergeFile(
    path: string,
    slot: Slot,
    { ours, theirs }: { readonly ours: FileNode; readonly theirs: FileNode },
  ): Promise<void> {
    const { policies, mergers, names, isVirtual } = this.#rules
    const base = slot.base?.file instanceof FileNode ? slot.base.file : undefined
    const policy = isVirtual ? 'markers' : policies.find(path)
    const merger = isVirtual ? undefined : mergers.find(path)
    const { mergedFiles } = this.#passes
    const versions = [path, slot.base?.path, slot.ours?.path, slot.theirs?.path].join('\0')
    const result =
      mergedFiles.get(versions) ??
      (await this.#merger.merge(path, { base, ours, theirs }, { policy, merger, names }))
    mergedFiles.set(versions, result)
    if (result.conflict === undefined) {
      this.#files.set(path, result.file)
      return
    }
    this.#conflict(path, slot, result.conflict, result)
  }

  /** Records a conflict, and decides the result by the policy of the path. */
  #conflict(path: string, slot: Slot, kind: ConflictKind, result?: MergedFile): void {
    this.contested.add(path)
    const directory = kind === ConflictKind.FILE_DIRECTORY ? { path } : undefined
    const ours = slot.ours ?? directory
    const theirs = slot.theirs ?? directory
    this.#conflictAt(path, {
      kind,
      ...(slot.base && { base: slot.base.path }),
      ...(ours && { ours: ours.path }),
      ...(theirs && { theirs: theirs.path }),
    })
    this.#decide(path, {
      base: result?.isMerged === true ? result.file : slot.base?.file,
      ours: result?.file ?? slot.ours?.file,
      theirs: slot.theirs?.file,
      whole: slot.ours?.file,
    })
  }

  #decide(
    path: string,
    sides: {
      readonly base: File | undefined
      readonly ours: File | undefined
      readonly theirs: File | undefined
      readonly whole?: File | undefined
    },
  ): void {
    if (this.#rules.isVirtual) this.#files.set(path, sides.base ?? sides.ours ?? sides.theirs)
    else {
      const keeps = this.#keeps(path)
      if (keeps === 'theirs') this.#files.set(path, sides.theirs)
      else this.#files.set(path, keeps === 'ours' && 'whole' in sides ? sides.whole : sides.ours)
    }
  }

  #keeps(path: string): 'ours' | 'theirs' | undefined {
    const policy = this.#rules.isVirtual ? undefined : this.#rules.policies.find(path)
    return policy === 'ours' || policy === 'theirs' ? policy : undefined
  }

  #conflictAt(path: string, conflict: Omit<ConflictRecord, 'path'>): void {
    if (this.#rules.isVirtual || this.#keeps(path) !== undefined) return
    const known = this.#conflicts.get(path)
    const isOfNames = conflict.kind === ConflictKind.RENAME_RENAME
    if (known === undefined || (known.kind === ConflictKind.RENAME_RENAME && !isOfNames))
      this.#conflicts.set(path, { ...conflict, path, isFatal: this.#rules.policies.find(path) === 'fail' })
    if (known === undefined) return
    // A file that both sides moved is named at their path if our path has another conflict.
    const { kind, theirs } = isOfNames ? conflict : known
    if (kind === ConflictKind.RENAME_RENAME && theirs !== undefined && !this.#conflicts.has(theirs))
      this.#conflictAt(theirs, isOfNames ? conflict : known)
  }

  async #mergeDirectories(): Promise<void> {
    const changed: ChangedDirectory[] = []
    const { separated, emptied } = await this.#separateSubmodules()
    for (const [path, { base, ours, theirs }] of this.#paths) {
      if (this.#slice.over) await this.#slice.next()
      if (separated.has(path)) continue
      if (isBelow(emptied, path)) {
        this.#directories.set(path, undefined)
        continue
      }
      const [before, our, their] = [base, ours, theirs].map((node) =>
        node instanceof Dir ? node : undefined,
      )
      if (our === undefined && their === undefined) continue
      if (our !== undefined && their !== undefined) this.#mergeDirectory(path, before, our, their)
      else if (before === undefined) this.#directories.set(path, our ?? their)
      else {
        // One side removed it. It stays if something in it does.
        this.#directories.set(path, undefined)
        const [side, node] = our === undefined ? (['theirs', their] as const) : (['ours', our] as const)
        if (node !== undefined && !sameAttributes(before, node)) changed.push({ path, before, side, node })
      }
    }
    if (changed.length > 0) await this.#keepChanged(changed)
  }

  /**
   * Finds submodules with a new commit that the other side put files into. Git has one of the two, so the result is that of
   * one side: either the files stay, or the directory is empty.
   */
  async #separateSubmodules(): Promise<Record<'separated' | 'emptied', ReadonlySet<string>>> {
    const separated = new Set<string>()
    const emptied = new Set<string>()
    const found: (readonly [path: string, changed: ChangedPath, side: 'ours' | 'theirs'])[] = []
    for (const [path, changed] of this.#paths) {
      if (this.#slice.over) await this.#slice.next()
      if (!(changed.ours instanceof Dir && changed.theirs instanceof Dir)) continue
      const side = await newSubmoduleOf(this.#core, this.#trees, path, changed)
      if (side !== undefined) found.push([path, changed, side])
    }
    if (found.length === 0) return { separated, emptied }
    const needed = await this.#parentsOfResults()
    for (const [path, changed, side] of found) {
      if (!needed.has(path)) continue
      separated.add(path)
      this.contested.add(path)
      const conflict = { kind: ConflictKind.FILE_DIRECTORY, ours: path, theirs: path }
      this.#conflictAt(path, { ...conflict, ...(changed.base && { base: path }) })
      const kept = this.#keeps(path) ?? 'ours'
      const node = changed[kept]
      this.#directories.set(path, node instanceof Dir ? node : undefined)
      if (kept === side) emptied.add(path)
    }
    for (const path of this.#files.keys()) {
      if (this.#slice.over) await this.#slice.next()
      if (isBelow(emptied, path)) this.#files.set(path, undefined)
    }
    return { separated, emptied }
  }

  /** Directories that one side changed and the other one removed. If something in them stays, they keep the change. */
  async #keepChanged(directories: readonly ChangedDirectory[]): Promise<void> {
    const needed = await this.#parentsOfResults()
    const deepestFirst = await sortedInSlices(directories, (a, b) => compareUtf8(b.path, a.path), this.#slice)
    for (const { path, before, side, node } of deepestFirst) {
      if (this.#slice.over) await this.#slice.next()
      if (needed.has(path)) continue
      let kept = this.#rules.isVirtual ? before : undefined
      // Their separation from a file in the same place is a conflict of its own.
      if (this.#mayHaveFile(path)) kept = node
      else {
        this.#conflictAt(path, { kind: ConflictKind.DELETE_MODIFY, base: path, [side]: path })
        if (kept === undefined && (this.#keeps(path) ?? 'ours') === side) kept = node
      }
      if (kept === undefined) continue
      this.#directories.set(path, kept)
      for (const above of parentsOf(path)) needed.add(above)
    }
  }

  #mergeDirectory(path: string, base: Dir | undefined, ours: Dir, theirs: Dir): void {
    const mode = merged(base?.mode, ours.mode, theirs.mode)
    const xattrs = mergeXattrs(base?.xattrs, ours.xattrs, theirs.xattrs)
    // Two new directories are one, as in git, and their bits are ours.
    const isConflict = (mode === undefined && base !== undefined) || xattrs.conflicts
    if (isConflict) {
      this.#conflictAt(path, {
        kind: mode === undefined ? ConflictKind.MODE : ConflictKind.ATTRIBUTE,
        ...(base && { base: path }),
        ours: path,
        theirs: path,
      })
      if (this.#keeps(path) === 'theirs') return void this.#directories.set(path, theirs)
    }
    const attributes = { ...attributesOf(ours), mode: mode ?? ours.mode, xattrs: xattrs.merged }
    this.#directories.set(path, new Dir(undefined, attributes, null))
  }

  /** Finds files that one side has where the other one has a directory with something in it. */
  async #separateFilesFromDirectories(): Promise<void> {
    const blocked = new Map<string, string[]>()
    for (const [path, node] of [...this.#files, ...this.#directories]) {
      if (this.#slice.over) await this.#slice.next()
      // A file that is absent because of a conflict may come back, so a file must not take the place of its directory.
      if (node === undefined && !this.#conflicts.has(path) && !this.#newPaths.has(path)) continue
      const isOwn = node instanceof Dir && this.#mayHaveFile(path)
      for (const above of isOwn ? [path, ...parentsOf(path)] : parentsOf(path)) {
        if (!this.#mayHaveFile(above)) continue
        const below = blocked.get(above)
        if (below === undefined) blocked.set(above, [path])
        else below.push(path)
      }
    }
    for (const [path, below] of blocked) this.#separate(path, below)
  }

  #mayHaveFile(path: string): boolean {
    return this.#files.get(path) !== undefined || this.#newPaths.has(path)
  }

  #separate(path: string, below: readonly string[]): void {
    this.contested.add(path)
    this.separated.add(path)
    const { base, ours, theirs } = this.#paths.get(path) ?? {}
    const hasFile = ours !== undefined && !(ours instanceof Dir) ? 'ours' : 'theirs'
    this.#conflictAt(path, {
      kind: ConflictKind.FILE_DIRECTORY,
      ...(base && { base: path }),
      ...(ours && { ours: path }),
      ...(theirs && { theirs: path }),
    })
    if (this.#files.get(path) === undefined) return
    if ((this.#keeps(path) ?? 'ours') !== hasFile) return void this.#files.set(path, undefined)
    for (const one of below) {
      if (this.#directories.has(one)) this.#directories.set(one, undefined)
      if (one !== path && this.#files.has(one)) this.#files.set(one, undefined)
    }
  }

  /** Directories that something of the result is in stay, or are made again. */
  async #keepNeededDirectories(): Promise<void> {
    for (const path of await this.#parentsOfResults()) {
      const changed = this.#paths.get(path)
      if (this.#directories.get(path) !== undefined || changed === undefined) continue
      // Only the base has it if both sides removed it, and a virtual base keeps a file that both moved out of it.
      const { ours, theirs, base } = changed
      const known = [ours, theirs, base].find((node) => node instanceof Dir)
      this.#directories.set(path, known)
    }
  }

  /** The directories above everything that the result has at the changed paths. */
  async #parentsOfResults(): Promise<Set<string>> {
    const parents = new Set<string>()
    for (const [path, node] of [...this.#files, ...this.#directories]) {
      if (this.#slice.over) await this.#slice.next()
      if (node === undefined) continue
      for (const above of parentsOf(path)) {
        if (parents.has(above)) break
        parents.add(above)
      }
    }
    return parents
  }
}

function placed(path: string, node: Node | undefined): Placed | undefined {
  return node === undefined || node instanceof Dir ? undefined : { path, file: node }
}

function isSameKind(a: File, b: File): boolean {
  return a instanceof FileNode === b instanceof FileNode
}
