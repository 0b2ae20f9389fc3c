import { EngineError, messageOf } from '../base/errors.js'
import { joinPath } from '../base/path.js'
import { encodeText } from './byte-text.js'
import { invalidPatch, type FilePatch, type Hunk, type HunkLine } from './file-patch.js'
import type { StructuredPatch, StructuredPatchHunk } from './patch-parser.js'

/** Reads parsed patches in the unified format, in the dialect of git too. `strip`: leading names to remove. */
export function readUnified(parsed: readonly StructuredPatch[], strip: number | undefined): FilePatch[] {
  const patches: FilePatch[] = []
  for (const file of parsed) {
    if (isEmpty(file)) continue
    patches.push(readFile(file, strip))
  }
  if (patches.length === 0)
    throw invalidPatch(
      'has no changes of a file; a unified patch has lines such as --- a/src/a.ts and +++ b/src/a.ts',
    )
  return patches
}

/** Text before the first file, or a header without a change. */
function isEmpty(file: StructuredPatch): boolean {
  return (
    file.hunks.length === 0 &&
    file.isBinary !== true &&
    file.isRename !== true &&
    file.isCopy !== true &&
    file.isCreate !== true &&
    file.isDelete !== true &&
    file.newMode === undefined
  )
}

function readFile(file: StructuredPatch, strip: number | undefined): FilePatch {
  const { oldFileName, newFileName } = file
  if (oldFileName === undefined || newFileName === undefined)
    throw invalidPatch('a part has no names of files; it needs the lines --- and +++')
  const shown = newFileName === nowhere ? oldFileName : newFileName
  if (file.isBinary === true)
    throw invalidPatch(`${shown} is a binary change, which has no lines; write the file instead`, {
      file: shown,
    })
  const count = strip ?? (hasPrefixes(oldFileName, newFileName) ? 1 : 0)
  const pathOf = (name: string): string => toPath(name, count, file)
  if (newFileName === nowhere && (oldFileName === nowhere || file.isCreate === true))
    throw invalidPatch(`a part has the name ${nowhere} for a new file`)
  const mode = modeOf(file.newMode, shown)
  modeOf(file.oldMode, shown)
  if (oldFileName === nowhere || file.isCreate === true) {
    const path = pathOf(newFileName)
    const added = file.hunks.flatMap((hunk) => linesOf(hunk, path))
    if (file.hunks.length > 1 || added.some(({ kind }) => kind !== '+'))
      throw invalidPatch(`${shown} is created, but has lines of an old file`, { file: shown })
    return {
      kind: 'create',
      path,
      content: added.map(({ text }) => text).join(''),
      ...(mode !== undefined && { mode }),
    }
  }
  const path = pathOf(oldFileName)
  const hunks = file.hunks.map((hunk) => readHunk(hunk, path))
  if (newFileName === nowhere || file.isDelete === true) return { kind: 'delete', path, hunks }
  const newPath = pathOf(newFileName)
  return {
    kind: 'update',
    path,
    ...(newPath !== path && { newPath }),
    ...(file.isCopy === true && { isCopy: true }),
    ...(mode !== undefined && { mode }),
    change: { format: 'unified', hunks },
  }
}

const nowhere = '/dev/null'

function hasPrefixes(oldName: string, newName: string): boolean {
  return (
    (oldName.startsWith('a/') || oldName === nowhere) && (newName.startsWith('b/') || newName === nowhere)
  )
}

function toPath(name: string, strip: number, { isRename, isCopy, oldHeader }: StructuredPatch): string {
  const names = name.split('/').filter((part) => part !== '' && part !== '.')
  // The names of a rename have no prefix in git; the parser adds one. The names after `---` and `+++` replace them.
  const hasAddedPrefix = (isRename === true || isCopy === true) && oldHeader === undefined
  const count = hasAddedPrefix ? Math.max(1, strip) : strip
  if (names.length <= count)
    throw invalidPatch(
      `the name ${JSON.stringify(name)} has no more than ${count} parts; pass a smaller strip`,
      {
        file: name,
      },
    )
  return joinPath(names.slice(count))
}

/** Permission bits of a file from a mode of git. */
function modeOf(mode: string | undefined, file: string): number | undefined {
  if (mode === undefined) return undefined
  if (mode === '100644' || mode === '100755' || mode === '100664') return Number.parseInt(mode.slice(3), 8)
  const kind = mode === '120000' ? 'a symlink' : mode === '160000' ? 'a submodule' : `of mode ${mode}`
  throw invalidPatch(`${file} is ${kind}; only changes of files are supported`, { file })
}

function readHunk(hunk: StructuredPatchHunk, file: string): Hunk {
  return { oldStart: hunk.oldStart, newStart: hunk.newStart, lines: linesOf(hunk, file) }
}

function linesOf(hunk: StructuredPatchHunk, file: string): HunkLine[] {
  const lines: { kind: HunkLine['kind']; text: string }[] = []
  for (const line of hunk.lines) {
    const sign = line[0] ?? ' '
    if (sign === '\\') {
      const last = lines.at(-1)
      if (last !== undefined) last.text = last.text.slice(0, -1)
    } else if (sign === ' ' || sign === '-' || sign === '+')
      lines.push({ kind: sign, text: encodeText(`${line.slice(1)}\n`) })
    else throw invalidPatch(`a line of ${file} begins with ${JSON.stringify(sign)}`, { file })
  }
  return lines
}

/** `git format-patch` ends a patch with a line `-- ` and the version of git. The parser takes it for a line of a hunk. */
function withoutSignatures(patch: string): string {
  return patch.replaceAll(/^-- \r?\n(?=\d)/gm, '')
}

/** Runs the parser, and turns its errors into INVALID_PATCH. */
export function parseWith(parse: (patch: string) => StructuredPatch[], patch: string): StructuredPatch[] {
  if (/^GIT binary patch$/m.test(patch))
    throw invalidPatch('has a binary change, which has no lines; write the file instead')
  try {
    return parse(withoutSignatures(patch))
  } catch (cause) {
    const message = `patch: cannot be read: ${messageOf(cause)}`
    throw new EngineError('INVALID_PATCH', message, { field: 'patch' }, { cause })
  }
}
