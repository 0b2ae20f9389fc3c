/** Reads patches in the unified format, in the dialect of git too, by the rules of `git apply`. */
import type { Steps } from '../base/cooperative.js'
import { limits } from '../base/limits.js'
import { tooLarge } from '../base/input.js'
import { BinaryData, type BinaryChange } from './binary-change.js'
import { decodeText, encodeText, type ByteText } from './byte-text.js'
import type { FilePatch, Hunk, HunkLine } from './file-patch.js'
import { invalidPatch } from './patch-error.js'
import { headerLine, readGitHeader, type GitHeader, type HeaderLine } from './git-header.js'
import { splitInSteps } from './lines.js'
import { nameIn, toPath } from './patch-names.js'

/** Parses a patch in the unified format. `strip`: leading names to remove. */
export function* parseUnified(patch: string, strip: number | undefined): Steps<FilePatch[], undefined> {
  const lines = yield* splitInSteps(encodeText(patch))
  const patches = yield* new UnifiedReader(lines, strip).files()
  if (patches.length > 0) return patches
  throw invalidPatch(
    'has no changes of a file; a unified patch has lines such as --- a/src/a.ts and +++ b/src/a.ts',
  )
}

class UnifiedReader {
  readonly #lines: readonly ByteText[]
  /** Whether the last line has no line end. */
  readonly #isCut: boolean
  readonly #strip: number | undefined
  #at = 0
  #binaryBytes = 0
  #hunkCount = 0

  constructor(lines: ByteText[], strip: number | undefined) {
    this.#isCut = lines.at(-1) !== ''
    if (!this.#isCut) lines.pop()
    this.#lines = lines
    this.#strip = strip
  }

  *files(): Steps<FilePatch[], undefined> {
    const patches: FilePatch[] = []
    while (this.#at < this.#lines.length) {
      yield
      const line = this.#line()
      if (line.startsWith('diff --git ')) {
        const part = yield* this.#gitPart(line.slice('diff --git '.length))
        if (part !== undefined) patches.push(part)
      } else if (
        line.startsWith('--- ') &&
        this.#line(1).startsWith('+++ ') &&
        this.#line(2).startsWith('@@ -')
      )
        patches.push(yield* this.#plainPart())
      else if (parseRange(line) !== undefined)
        throw this.#invalid('is a hunk without a file; lines --- and +++ with its names must come before it')
      else if (isBinaryNotice(line) && /^(?:Binary files|Files) .+ and .+ differ$/.test(line))
        throw this.#withoutData(line)
      else this.#at++
    }
    return patches
  }

  /** A line of a head, without a carriage return at its end. */
  #line(offset = 0): ByteText {
    const line = this.#lines[this.#at + offset] ?? ''
    return line.endsWith('\r') ? line.slice(0, -1) : line
  }

  *#gitPart(names: ByteText): Steps<FilePatch | undefined, undefined> {
    const number = this.#at + 1
    this.#checkLength()
    const head: HeaderLine[] = []
    for (this.#at++; this.#at < this.#lines.length; this.#at++) {
      const line = headerLine(this.#line())
      if (line === undefined) break
      this.#checkEnd()
      this.#checkLength()
      head.push(line)
    }
    if (isBinaryNotice(this.#line())) throw this.#withoutData(names)
    // Git writes such a line alone for a file that only has a new time.
    if (head.length === 0) {
      this.#checkNext()
      return undefined
    }
    const header = readGitHeader({ names, number }, head, this.#strip)
    const file = header.newPath ?? header.oldPath ?? ''
    const hunks = yield* this.#hunks(file)
    const binary = hunks.length === 0 ? this.#binary(header, file) : undefined
    if (hunks.length === 0 && binary === undefined) {
      this.#checkNext()
      const { isRename, isCopy, changesMode, oldPath, newPath } = header
      if (!isRename && !isCopy && !changesMode && oldPath === newPath)
        throw invalidPatch(`the part of ${file} in line ${number} has no change; the patch may be cut off`, {
          file,
          line: String(number),
        })
    }
    return filePatch(header, hunks, binary)
  }

  /** A head without contents must end with the patch, another head or an empty line. Otherwise a line is damaged. */
  #checkNext(): void {
    const line = this.#lines[this.#at]
    if (line !== undefined && !/^(?:\r?$|diff |-- |From )/.test(line))
      throw this.#invalid('is no line of the head of a file, and no hunk')
  }

  /** A part that begins with `---`, as `diff -u` writes it. */
  *#plainPart(): Steps<FilePatch, undefined> {
    const [oldName, newName] = [this.#line(), this.#line(1)].map((line) =>
      nameIn(line.slice(4), { endsAtTab: true }),
    )
    this.#checkLength()
    this.#checkLength(1)
    const hasPrefixes = (oldName?.startsWith('a/') ?? true) && (newName?.startsWith('b/') ?? true)
    const strip = this.#strip ?? (hasPrefixes ? 1 : 0)
    const [oldPath, newPath] = [oldName, newName].map((name) =>
      name === undefined ? name : toPath(name, strip),
    )
    if (oldPath === undefined && newPath === undefined) throw this.#invalid('has no name of a file')
    this.#at += 2
    // As in git: of `a.ts` and `a.ts.new`, the shorter name is the file.
    const path = oldPath !== undefined && newPath?.startsWith(oldPath) === true ? oldPath : newPath
    const isChange = oldPath !== undefined && newPath !== undefined
    const header: GitHeader = {
      oldPath: isChange ? path : oldPath,
      newPath: isChange ? path : newPath,
      isRename: false,
      isCopy: false,
      mode: undefined,
      leaf: undefined,
      changesMode: false,
      ids: undefined,
    }
    return filePatch(header, yield* this.#hunks(newPath ?? oldPath ?? ''), undefined)
  }

  *#hunks(file: string): Steps<Hunk[], undefined> {
    const hunks: Hunk[] = []
    while (this.#line().startsWith('@@ -')) hunks.push(yield* this.#hunk(file))
    return hunks
  }

  *#hunk(file: string): Steps<Hunk, undefined> {
    if (++this.#hunkCount > limits.patchHunks) throw tooLarge('patch', 'hunks', limits.patchHunks)
    const start = this.#at + 1
    const range = parseRange(this.#line())
    if (range === undefined) throw this.#invalid(`is no head of a hunk such as @@ -1,2 +1,3 @@`, file)
    this.#at++
    let { oldCount, newCount } = range
    const lines: { kind: HunkLine['kind']; text: ByteText }[] = []
    for (; oldCount > 0 || newCount > 0; this.#at++) {
      if (this.#at % limits.visitsPerLook === 0) yield
      const line = this.#lines[this.#at]
      // Models and editors often leave out the last line end. The counts say that the part is whole.
      if (line === undefined) throw this.#wrongCounts(start, file)
      const sign = line[0] ?? ' '
      if (sign === '\\') {
        this.#endWithoutNewline(lines)
        continue
      }
      if (sign !== ' ' && sign !== '-' && sign !== '+') throw this.#wrongCounts(start, file)
      if (sign !== '+') oldCount--
      if (sign !== '-') newCount--
      if (oldCount < 0 || newCount < 0) throw this.#wrongCounts(start, file)
      lines.push({ kind: sign, text: `${line.slice(1)}\n` })
    }
    if (this.#line().startsWith('\\ ')) {
      this.#endWithoutNewline(lines)
      this.#at++
    }
    return { oldStart: range.oldStart, newStart: range.newStart, lines }
  }

  /** Reads `\ No newline at end of file`, in any language. */
  #endWithoutNewline(lines: readonly { text: ByteText }[]): void {
    if (!/^\\ .{9}/.test(this.#line()))
      throw this.#invalid('is not "\\ No newline at end of file", as the backslash promises')
    const last = lines.at(-1)
    if (last?.text.endsWith('\n') === true) last.text = last.text.slice(0, -1)
  }

  #binary({ ids }: GitHeader, file: string): BinaryChange | undefined {
    if (this.#line() !== 'GIT binary patch') return undefined
    const number = this.#at + 1
    this.#at++
    const data = this.#binaryData(file)
    if (data === undefined) throw this.#invalid('must begin with "literal" or "delta" and a size', file)
    const reverse = this.#binaryData(file)
    if (ids === undefined || !isFullId(ids.old) || ids.new.length !== ids.old.length)
      throw invalidPatch(
        `the binary change of ${file} in line ${number} has no full ids; write the patch with git diff --binary --full-index`,
        { file, line: String(number) },
      )
    return { format: 'binary', oldId: ids.old, newId: ids.new, data, reverse }
  }

  #binaryData(file: string): BinaryData | undefined {
    const head = /^(literal|delta) (\d{1,15})$/.exec(this.#line())
    if (head === null) return undefined
    const size = Number(head[2])
    this.#binaryBytes += size
    if (size > limits.textFileBytes || this.#binaryBytes > limits.patchBinaryBytes)
      throw size > limits.textFileBytes
        ? tooLarge('patch', 'bytes in a binary change', limits.textFileBytes)
        : tooLarge('patch', 'bytes in all binary changes', limits.patchBinaryBytes)
    const start = ++this.#at
    for (; this.#lines[this.#at] !== ''; this.#at++)
      if (this.#at >= this.#lines.length)
        throw this.#invalid(
          `must be the empty line after the binary data of ${file}; the patch is cut off`,
          file,
        )
    const lines = this.#lines.slice(start, this.#at++)
    const method = head[1] === 'delta' ? 'delta' : 'literal'
    return new BinaryData({ method, size }, lines, { file, line: start })
  }

  /** As in git: a line of a head without a line end may be a part of a line. */
  #checkEnd(): void {
    if (this.#isCut && this.#at === this.#lines.length - 1)
      throw this.#invalid('has no line end; a patch ends with a newline, so it may be cut off')
  }

  /** Bounds the work on the names in a line. */
  #checkLength(offset = 0): void {
    if (this.#line(offset).length > limits.patchHeaderLength)
      throw this.#invalid(`is longer than ${limits.patchHeaderLength} characters, which no name needs`)
  }

  #wrongCounts(start: number, file: string): Error {
    return this.#invalid(
      `does not fit the numbers of lines that the head of its hunk in line ${start} states; the patch may be cut off`,
      file,
    )
  }

  #withoutData(names: ByteText): Error {
    const shown = decodeText(names.slice(0, limits.shownLength))
    return this.#invalid(
      `says only that a binary file differs (${shown}), without its content; write the patch with git diff --binary --full-index, or write the file instead`,
    )
  }

  #invalid(message: string, file?: string): Error {
    const line = String(this.#at + 1)
    return invalidPatch(`line ${line} ${message}`, { line, ...(file !== undefined && { file }) })
  }
}

function isBinaryNotice(line: ByteText): boolean {
  return /^(?:Binary files|Files) (?:.* )?differ$/.test(line)
}

function isFullId(id: string): boolean {
  return id.length === 40 || id.length === 64
}

interface Range {
  readonly oldStart: number
  readonly oldCount: number
  readonly newStart: number
  readonly newCount: number
}

function parseRange(line: ByteText): Range | undefined {
  const match = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@/.exec(line)
  if (match === null) return undefined
  const numbers = match.slice(1).map((part: string | undefined) => Number(part ?? '1'))
  const [oldStart = 0, oldCount = 0, newStart = 0, newCount = 0] = numbers
  return { oldStart, oldCount, newStart, newCount }
}

function filePatch(header: GitHeader, hunks: readonly Hunk[], binary: BinaryChange | undefined): FilePatch {
  const { oldPath, newPath, isCopy, mode, leaf } = header
  const change = binary ?? ({ format: 'unified', hunks } as const)
  const lines = hunks.flatMap((hunk) => hunk.lines)
  const stated = leaf === undefined ? {} : { leaf }
  const bits = mode === undefined || leaf === 'symlink' ? {} : { mode }
  if (oldPath === undefined) {
    const path = newPath ?? ''
    if (hunks.length > 1 || lines.some(({ kind }) => kind !== '+'))
      throw invalidPatch(`${path} is created, but has lines of an old file`, { file: path })
    const content = binary ?? lines.map(({ text }) => text).join('')
    return { kind: 'create', path, content, ...bits, ...stated }
  }
  if (newPath === undefined) {
    if (lines.some(({ kind }) => kind !== '-'))
      throw invalidPatch(`${oldPath} is deleted, but has lines of a new file`, { file: oldPath })
    return { kind: 'delete', path: oldPath, change, ...stated }
  }
  return {
    kind: 'update',
    path: oldPath,
    ...(newPath !== oldPath && { newPath }),
    ...(isCopy && { isCopy: true }),
    ...bits,
    ...stated,
    change,
  }
}
