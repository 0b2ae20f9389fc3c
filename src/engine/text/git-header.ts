/** The head of a part of a patch in the dialect of git: the lines from `diff --git` to the first hunk. */
import { decodeText, type ByteText } from './byte-text.js'
import type { LeafKind } from './file-patch.js'
import { invalidPatch } from './patch-error.js'
import { hasGitPrefixes, nameIn, nameInGitLine, toPath } from './patch-names.js'

/** What a head says, with paths in the session. */
export interface GitHeader {
  /** Undefined for a new file. */
  readonly oldPath: string | undefined
  /** Undefined for a deleted file. */
  readonly newPath: string | undefined
  readonly isRename: boolean
  readonly isCopy: boolean
  /** The new permission bits, if the head states them. */
  readonly mode: number | undefined
  readonly leaf: LeafKind | undefined
  readonly changesMode: boolean
  /** The ids of both contents, in hex; they may be shortened. */
  readonly ids: { readonly old: string; readonly new: string } | undefined
}

const keywords = [
  '--- ',
  '+++ ',
  'old mode ',
  'new mode ',
  'deleted file mode ',
  'new file mode ',
  'copy from ',
  'copy to ',
  'rename old ',
  'rename new ',
  'rename from ',
  'rename to ',
  'similarity index ',
  'dissimilarity index ',
  'index ',
] as const

type Keyword = (typeof keywords)[number]

/** A line of a head. */
export interface HeaderLine {
  readonly keyword: Keyword
  readonly rest: ByteText
}

/** Undefined for a line that is not of a head. */
export function headerLine(line: ByteText): HeaderLine | undefined {
  const keyword = keywords.find((word) => line.startsWith(word))
  return keyword && { keyword, rest: line.slice(keyword.length) }
}

/** Reads a head. `names`: the rest of the line `diff --git`. `number`: its line. */
export function readGitHeader(
  { names, number }: { readonly names: ByteText; readonly number: number },
  lines: readonly HeaderLine[],
  strip: number | undefined,
): GitHeader {
  const find = (...wanted: readonly Keyword[]): ByteText | undefined =>
    lines.findLast(({ keyword }) => wanted.includes(keyword))?.rest
  const count = strip ?? (hasGitPrefixes(names) && haveGitPrefixes(find('--- '), find('+++ ')) ? 1 : 0)
  const [oldLine, newLine] = [find('--- '), find('+++ ')].map((rest) =>
    rest === undefined ? undefined : { name: nameIn(rest, { endsAtTab: true }) },
  )
  const isNew = find('new file mode ') !== undefined || (oldLine !== undefined && oldLine.name === undefined)
  const isDelete =
    find('deleted file mode ') !== undefined || (newLine !== undefined && newLine.name === undefined)
  const [from, to] = [find('rename from ', 'rename old '), find('rename to ', 'rename new ')]
  const [copyFrom, copyTo] = [find('copy from '), find('copy to ')]
  const isRename = from !== undefined || to !== undefined
  const isCopy = copyFrom !== undefined || copyTo !== undefined
  if ([isNew, isDelete, isRename, isCopy].filter(Boolean).length > 1)
    throw invalidPatch(
      `the head in line ${number} must be of a new, deleted, renamed or copied file; it is of several of them`,
      { line: String(number) },
    )
  const [hasOld, hasNew] = [oldLine?.name ?? from ?? copyFrom, newLine?.name ?? to ?? copyTo].map(
    (name) => name !== undefined,
  )
  const isOneSided = !isNew && !isDelete && hasOld !== hasNew
  if (isOneSided || new Set(lines.map(({ keyword }) => keyword)).size < lines.length)
    throw invalidPatch(`the head in line ${number} lacks a line, or has one twice; make the patch again`, {
      line: String(number),
    })
  const shared = nameInGitLine(names, count)
  const pathOf = (
    isNone: boolean,
    moved: ByteText | undefined,
    line: { readonly name: ByteText | undefined } | undefined,
  ): string | undefined => {
    const inLine = line?.name === undefined ? undefined : toPath(line.name, count)
    const bare = moved === undefined ? undefined : nameIn(moved, { endsAtTab: false })
    const stated = bare === undefined ? undefined : toPath(bare, Math.max(0, count - 1))
    if (isNone ? inLine !== undefined : line !== undefined && stated !== undefined && inLine !== stated)
      throw invalidPatch(`the names in the head in line ${number} contradict each other`, {
        line: String(number),
      })
    if (isNone) return undefined
    const path = stated ?? inLine ?? (shared === undefined ? undefined : toPath(shared, 0))
    if (path !== undefined) return path
    throw invalidPatch(
      `the head in line ${number} has no name of a file without ${count} leading parts; pass another strip`,
      { line: String(number) },
    )
  }
  const oldPath = pathOf(isNew, from ?? copyFrom, oldLine)
  const newPath = pathOf(isDelete, to ?? copyTo, newLine)
  const ids = /^([0-9a-f]{1,64})\.\.([0-9a-f]{1,64})(?: +(\d+))?\s*$/.exec(find('index ') ?? '')
  const [oldMode, newMode, indexMode] = [
    modeIn(find('old mode ', 'deleted file mode '), number),
    modeIn(find('new mode ', 'new file mode '), number),
    modeIn(ids?.[3], number),
  ]
  const leafs = new Set([oldMode, newMode, indexMode].flatMap((mode) => mode?.leaf ?? []))
  if (leafs.size > 1)
    throw invalidPatch(
      `the part in line ${number} turns a file into a symlink or back; git writes it as a deletion and a creation`,
      { line: String(number) },
    )
  const [leaf] = leafs
  return {
    oldPath,
    newPath,
    isRename,
    isCopy,
    mode: newMode?.bits,
    leaf,
    changesMode: oldMode !== undefined && newMode !== undefined && oldMode.bits !== newMode.bits,
    ids: ids === null ? undefined : { old: ids[1] ?? '', new: ids[2] ?? '' },
  }
}

function haveGitPrefixes(oldName: ByteText | undefined, newName: ByteText | undefined): boolean {
  return (
    (oldName === undefined || /^(?:"?a\/|\/dev\/null)/.test(oldName)) &&
    (newName === undefined || /^(?:"?b\/|\/dev\/null)/.test(newName))
  )
}

interface Mode {
  readonly bits: number
  readonly leaf: LeafKind
}

/** A mode as git writes it, such as 100644. */
function modeIn(text: ByteText | undefined, number: number): Mode | undefined {
  if (text === undefined) return undefined
  const digits = /^[0-7]{1,7}(?=\s|$)/.exec(text)?.[0] ?? ''
  const mode = Number.parseInt(digits, 8)
  const type = mode & 0o170000
  if (type === 0o100000) return { bits: mode & 0o777, leaf: 'file' }
  if (type === 0o120000) return { bits: 0, leaf: 'symlink' }
  const kind =
    type === 0o160000 ? 'is of a submodule' : `has the mode ${JSON.stringify(decodeText(text.slice(0, 16)))}`
  throw invalidPatch(`the part in line ${number} ${kind}; only files and symlinks are supported`, {
    line: String(number),
  })
}
