import type { Steps } from '../base/cooperative.js'
import { tooLarge } from '../base/input.js'
import { limits } from '../base/limits.js'
import { joinPath } from '../base/path.js'
import { decodeText, encodeText, type ByteText } from './byte-text.js'
import type { FilePatch, HunkLine, V4aSection } from './file-patch.js'
import { splitInSteps } from './lines.js'
import { invalidPatch } from './patch-error.js'

/** Whether a text is a patch in the format V4A of OpenAI. */
export function isV4a(patch: string): boolean {
  return patch.trimStart().startsWith(begin)
}

const begin = '*** Begin Patch'
const end = '*** End Patch'
const endOfFile = '*** End of File'

/** Parses a patch in the format V4A. */
export function* parseV4a(patch: string): Steps<FilePatch[], undefined> {
  // One conversion of all lines, because many small ones take long.
  const lines = yield* splitInSteps(encodeText(patch.trim()).replaceAll('\r\n', '\n'))
  if (lines[0]?.trimEnd() !== begin) throw invalidPatch(`must begin with the line ${begin}`, { line: '1' })
  if (lines.at(-1)?.trimEnd() !== end)
    throw invalidPatch(`must end with the line ${end}`, { line: String(lines.length) })
  const patches = yield* new V4aReader(lines).files()
  if (patches.length === 0) throw invalidPatch('has no changes of a file')
  return patches
}

class V4aReader {
  readonly #lines: readonly ByteText[]
  #at = 1
  #sectionCount = 0

  constructor(lines: readonly ByteText[]) {
    this.#lines = lines
  }

  *files(): Steps<FilePatch[], undefined> {
    const patches: FilePatch[] = []
    while (this.#at < this.#lines.length - 1) {
      const line = this.#line
      const add = nameAfter(line, '*** Add File: ')
      const remove = nameAfter(line, '*** Delete File: ')
      const update = nameAfter(line, '*** Update File: ')
      this.#at++
      if (add !== undefined)
        patches.push({ kind: 'create', path: this.#path(add), content: yield* this.#added() })
      else if (remove !== undefined) patches.push({ kind: 'delete', path: this.#path(remove) })
      else if (update !== undefined) patches.push(yield* this.#update(update))
      else if (!isBlank(line)) {
        this.#at--
        throw this.#unexpected('*** Add File:, *** Update File: or *** Delete File:')
      }
      yield
    }
    return patches
  }

  get #line(): ByteText {
    return this.#lines[this.#at] ?? end
  }

  *#update(name: string): Steps<FilePatch, undefined> {
    const path = this.#path(name)
    const moved = nameAfter(this.#line, '*** Move to: ')
    if (moved !== undefined) this.#at++
    const newPath = moved === undefined ? undefined : this.#path(moved)
    const sections: V4aSection[] = []
    while (!this.#isAtFile()) sections.push(yield* this.#section())
    if (sections.length === 0 && newPath === undefined)
      throw invalidPatch(`the update of ${path} has no lines`, { line: String(this.#at + 1), file: path })
    return {
      kind: 'update',
      path,
      ...(newPath !== undefined && newPath !== path && { newPath }),
      change: { format: 'v4a', sections },
    }
  }

  *#section(): Steps<V4aSection, undefined> {
    if (++this.#sectionCount > limits.patchHunks) throw tooLarge('patch', 'sections', limits.patchHunks)
    const anchors: ByteText[] = []
    for (let line = this.#line; line.startsWith('@@'); line = this.#line) {
      const anchor = line.slice(2).replace(/^ /, '')
      if (!isBlank(anchor)) anchors.push(anchor)
      this.#at++
      if (this.#at % limits.visitsPerLook === 0) yield
    }
    const lines: HunkLine[] = []
    while (!this.#isAtFile() && !this.#line.startsWith('@@') && this.#line.trimEnd() !== endOfFile) {
      const line = this.#line
      const sign = line === '' ? ' ' : line[0]
      if (sign !== ' ' && sign !== '-' && sign !== '+')
        throw this.#unexpected('a line that begins with a space, - or +')
      lines.push({ kind: sign, text: line.slice(1) })
      this.#at++
      if (this.#at % limits.visitsPerLook === 0) yield
    }
    const isAtEnd = this.#line.trimEnd() === endOfFile
    if (isAtEnd) this.#at++
    if (lines.length === 0) throw this.#unexpected('changed lines')
    return { anchors, lines, isAtEnd }
  }

  *#added(): Steps<ByteText, undefined> {
    const lines: ByteText[] = []
    while (!this.#isAtFile()) {
      if (!this.#line.startsWith('+')) throw this.#unexpected('a line of the new file that begins with +')
      lines.push(this.#line.slice(1))
      this.#at++
      if (this.#at % limits.visitsPerLook === 0) yield
    }
    // The last line has a line end too.
    return lines.length === 0 ? '' : `${lines.join('\n')}\n`
  }

  #isAtFile(): boolean {
    return /^\*\*\* (?:Add|Delete|Update) File: /.test(this.#line) || this.#at >= this.#lines.length - 1
  }

  #path(name: string): string {
    const names = name.split('/').filter((part) => part !== '' && part !== '.')
    if (names.length === 0) throw invalidPatch('a file has no name', { line: String(this.#at) })
    return joinPath(names)
  }

  #unexpected(expected: string): Error {
    const line = String(this.#at + 1)
    const shown = JSON.stringify(decodeText(this.#line).slice(0, 64))
    return invalidPatch(`line ${line} is ${shown}; expected ${expected}`, { line })
  }
}

function nameAfter(line: ByteText, marker: string): string | undefined {
  return line.startsWith(marker) ? decodeText(line.slice(marker.length)).trim() : undefined
}

function isBlank(line: ByteText): boolean {
  return line === '' || decodeText(line).trim() === ''
}
