/** Random trees whose files have one line each: a merge and its resolutions lose no change. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEngine, type Engine, type EngineError, type MergeConflict } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import type { FileTree } from '../support/git-merge-tree.js'
import { readTree, writeTree } from '../support/merge-histories.js'
import { runs, seed } from '../support/seed.js'

let engine: Engine

beforeAll(async () => {
  engine = await openEngine()
})

afterAll(() => engine.close())

const names = ['a', 'b', 'd']

/** Makes trees. A path is drawn from few, so that files meet directories. No two new files have the same content. */
class Editor {
  readonly #random: () => number
  #made = 0

  constructor(random: () => number) {
    this.#random = random
  }

  tree(): Map<string, string> {
    const files = new Map<string, string>()
    for (let n = 2 + this.#below(4); n > 0; n--) this.#put(files, this.#path(), this.#file())
    return files
  }

  change(before: FileTree): Map<string, string> {
    const files = new Map(before)
    for (let n = 1 + this.#below(3); n > 0; n--) this.#changeOne(before, files)
    return files
  }

  #changeOne(before: FileTree, files: Map<string, string>): void {
    const kind = this.#below(6)
    const [path, file] = [...files][this.#below(files.size)] ?? []
    if (path === undefined || file === undefined || kind === 0) this.#put(files, this.#path(), this.#file())
    else if (kind === 1) files.delete(path)
    else if (kind > 3) files.set(path, this.#file())
    else if (before.get(path) === file) {
      files.delete(path)
      this.#put(files, this.#path(), file)
    }
  }

  #put(files: Map<string, string>, path: string, file: string): void {
    for (const other of files.keys())
      if (other.startsWith(`${path}/`) || path.startsWith(`${other}/`)) files.delete(other)
    files.set(path, file)
  }

  #file(): string {
    return `${this.#below(6) === 0 ? '120000' : '100644'} ${this.#made++}`
  }

  #path(): string {
    return Array.from({ length: 1 + this.#below(3) }, () => `/${names[this.#below(names.length)]}`).join('')
  }

  #below(count: number): number {
    return this.#random() % Math.max(count, 1)
  }
}

/** The contents that a side has and the base does not, and that are not in a tree. */
function lost(tree: FileTree, base: FileTree, ...sides: readonly FileTree[]): string[] {
  const [known, old] = [new Set(tree.values()), new Set(base.values())]
  return sides.flatMap((side) => [...side.values()].filter((file) => !old.has(file) && !known.has(file)))
}

/** The files of the base that no side replaced, that both sides have somewhere, and that a tree has nowhere. */
function lostOfBoth(tree: FileTree, base: FileTree, ...sides: readonly FileTree[]): string[] {
  const isReplaced = ([path, file]: [string, string]): boolean =>
    sides.some((side) => side.has(path) && side.get(path) !== file)
  const isIn = (file: string, files: FileTree): boolean => [...files.values()].includes(file)
  const ofBoth = [...base].filter((one) => !isReplaced(one) && sides.every((side) => isIn(one[1], side)))
  return ofBoth.flatMap(([, file]) => (isIn(file, tree) ? [] : [file]))
}

/** The merged contents outside of conflicts that a resolution removed. */
function removed(merged: FileTree, resolved: FileTree, conflicts: readonly MergeConflict[]): string[] {
  const known = new Set(resolved.values())
  const paths = conflicts.flatMap((one) => [
    one.path,
    one.ours?.path ?? one.path,
    one.theirs?.path ?? one.path,
  ])
  return [...merged].flatMap(([path, file]) =>
    known.has(file) || paths.some((one) => path === one || path.startsWith(`${one}/`)) ? [] : [file],
  )
}

/** The files of the source that conflicts name, with those in directories. */
function named(conflicts: readonly MergeConflict[], files: FileTree): string[] {
  const paths = conflicts.flatMap(({ theirs }) => theirs?.path ?? [])
  const isNamed = (file: string): boolean =>
    paths.some((path) => file === path || file.startsWith(`${path}/`))
  return [...files].flatMap(([path, file]) => (isNamed(path) ? [file] : []))
}

test.each(['ours', 'theirs', 'base'] as const)(
  `a merge, and the resolution of its conflicts to %s, lose no change (FORKSPACE_SEED=${seed})`,
  { timeout: 600_000 },
  async (use) => {
    for (let n = 0; n < runs(2000); n++) {
      const editor = new Editor(randomWords(seed * 100_000 + n))
      const base = editor.tree()
      const sides = { ours: editor.change(base), theirs: editor.change(base) }
      const target = await engine.sessions.create()
      writeTree(target, base)
      const source = await target.fork()
      writeTree(target, sides.ours)
      writeTree(source, sides.theirs)
      const byPolicy = await target.fork()
      const { conflicts } = await target.merge(source)
      const merged = readTree(target)
      await target.conflicts.resolveAll({ use }).catch((error: EngineError) => {
        // Something without a conflict may be where the base was.
        if (use !== 'base' || !error.message.includes(' away')) throw error
      })
      await byPolicy.merge(source, { policies: [{ glob: '**', policy: use === 'base' ? 'ours' : use }] })
      const inConflicts = named(conflicts, sides.theirs)
      const result = {
        ours: lost(merged, base, sides.ours),
        theirs: lost(merged, base, sides.theirs).filter((file) => !inConflicts.includes(file)),
        resolved: use === 'base' ? [] : lost(readTree(target), base, sides[use]),
        byPolicy: use === 'base' ? [] : lost(readTree(byPolicy), base, sides[use]),
        removed: removed(merged, readTree(target), conflicts),
        ofBoth: [merged, readTree(target), readTree(byPolicy)].flatMap((tree) =>
          lostOfBoth(tree, base, sides.ours, sides.theirs),
        ),
      }
      const nothing = { ours: [], theirs: [], resolved: [], byPolicy: [], removed: [], ofBoth: [] }
      expect(
        result,
        `case ${n} ${JSON.stringify([[...base], [...sides.ours], [...sides.theirs], conflicts.map((c) => [c.path, c.kind, c.ours?.path, c.theirs?.path]), [...merged], [...readTree(target)]])}`,
      ).toEqual(nothing)
      for (const session of [target, source, byPolicy]) await session.delete()
    }
  },
)
