import { tooLarge } from '../base/input.js'
import { limits } from '../base/limits.js'
import { joinPath } from '../base/path.js'
import { decodeText, encodeText, type ByteText } from './byte-text.js'
import type { FilePatch, HunkLine, V4aSection } from './file-patch.js'
import { invalidPatch } from './patch-error.js'

/** Whether a text is a patch in the format V4A of OpenAI. */
export function isV4a(patch: string): boolean {
  return patch.trimStart().startsWith(begin)
}

const begin = '*** Begin Patch'
const end = '*** End Patch'
const endOfFile = '*** End of File'

/** Parses a patch in the format V4A. */
export function parseV4a(patch: string): FilePatch[] {
  // One conversion of all lines, because many small ones take long.
  const lines = encodeText(patch.trim()).replaceAll('\r\n', '\n').split('\n')
  if (lines[0]?.trimEnd() !== begin) throw invalidPatch(`must begin with the line ${begin}`, { line: '1' })
  if (lines.at(-1)?.trimEnd() !== end)
    throw invalidPatch(`must end with the line ${end}`, { line: String(lines.length) })
  const patches = [...new V4aReader(lines).files()]
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

  *files(): Generator<FilePatch> {
    while (this.#at < this.#lines.length - 1) {
      const line = this.#line
      const add = nameAfter(line, '*** Add File: ')
      const remove = nameAfter(line, '*** Delete File: ')
      const update = nameAfter(line, '*** Update File: ')
      this.#at++
      if (add !== undefined) yield { kind: 'create', path: this.#path(add), content: this.#added() }
      else if (remove !== undefined) yield { kind: 'delete', path: this.#path(remove) }
      else if (update !== undefined) yield this.#update(update)
      else if (!isBlank(line)) {
        this.#at--
        throw this.#unexpected('*** Add File:, *** Update File: or *** Delete File:')
      }
    }
  }

  get #line(): ByteText {
    return this.#lines[this.#at] ?? end
  }

  #update(name: string): FilePatch {
    const path = this.#path(name)
    const moved = nameAfter(this.#line, '*** Move to: ')
    if (moved !== undefined) this.#at++
    const newPath = moved === undefined ? undefined : this.#path(moved)
    const sections: V4aSection[] = []
    while (!this.#isAtFile()) sections.push(this.#section())
    if (sections.length === 0 && newPath === undefined)
      throw invalidPatch(`the update of ${path} has no lines`, { line: String(this.#at + 1), file: path })
    return {
      kind: 'update',
      path,
      ...(newPath !== undefined && newPath !== path && { newPath }),
      change: { format: 'v4a', sections },
    }
  }

  #section(): V4aSection {
    if (++this.#sectionCount > limits.patchHunks) throw tooLarge('patch', 'sections', limits.patchHunks)
    const anchors: ByteText[] = []
    for (let line = this.#line; line.startsWith('@@'); line = this.#line) {
      const anchor = line.slice(2).replace(/^ /, '')
      if (!isBlank(anchor)) anchors.push(anchor)
      this.#at++
    }
    const lines: HunkLine[] = []
    while (!this.#isAtFile() && !this.#line.startsWith('@@') && this.#line.trimEnd() !== endOfFile) {
      const line = this.#line
      const sign = line === '' ? ' ' : line[0]
      if (sign !== ' ' && sign !== '-' && sign !== '+')
        throw this.#unexpected('a line that begins with a space, - or +')
      lines.push({ kind: sign, text: line.slice(1) })
      this.#at++
    }
    const isAtEnd = this.#line.trimEnd() === endOfFile
    if (isAtEnd) this.#at++
    if (lines.length === 0) throw this.#unexpected('changed lines')
    return { anchors, lines, isAtEnd }
  }

  #added(): ByteText {
    const lines: ByteText[] = []
    while (!this.#isAtFile()) {
      if (!this.#line.startsWith('+')) throw this.#unexpected('a line of the new file that begins with +')
      lines.push(`${this.#line.slice(1)}\n`)
      this.#at++
    }
    return lines.join('')
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
