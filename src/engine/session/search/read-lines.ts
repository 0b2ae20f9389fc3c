import { Buffer } from 'node:buffer'
import { EngineError, invalid } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { formatHash } from '../../base/hash.js'
import { given } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { itemAt } from '../../base/present.js'
import { Shape } from '../../base/shape.js'
import type { LoadedBody } from '../../cas/body.js'
import type { LineEnding } from '../../text/byte-text.js'
import { bytesOfUnits, cutLine } from '../../text/line-text.js'
import type { FileNode } from '../../tree/node.js'
import type { Core } from '../core.js'
import { parseCount } from './search-input.js'

/** The request of `session.text.readLines`. */
export interface ReadLinesRequest {
  /** Absolute path of a file in the session, such as `/src/a.ts`. Symlinks are followed. */
  readonly path: string
  /** The first line, from 1; 1 by default. */
  readonly startLine?: number
  /** The last line; −1, the default, is the last line of the file. */
  readonly endLine?: number
  /** The most lines that are returned, up to 10,000; 2,000 by default. */
  readonly limit?: number
  /** The most UTF-16 units of a line, up to 100,000; 2,000 by default. Longer lines are cut. */
  readonly maxLineLength?: number
}

/** A line of a file. */
export interface TextLine {
  /** The number of the line in the file, from 1. */
  readonly lineNumber: number
  /** The line without its line end. Bytes that are not UTF-8 are shown as U+FFFD. */
  readonly text: string
  /** Whether the line is longer than `text`. */
  readonly isTruncated: boolean
}

/** Lines of a file, and facts about the whole file. */
export interface ReadLinesResult {
  /** The lines, in order. */
  readonly lines: TextLine[]
  /** The number of lines of the file. The text after the last line end counts as a line unless it is empty. */
  readonly totalLines: number
  /** Whether the requested range has more lines than were returned. */
  readonly isTruncated: boolean
  /** `sha256:<hex>` of the whole content: the `expectedHash` of an edit. */
  readonly contentHash: string
  /** The size of the whole file, in bytes. */
  readonly sizeBytes: number
  /** `'LF'`, `'CRLF'`, `'mixed'`, or `'none'` for a file without a line end. */
  readonly lineEnding: LineEnding
  /** Whether the file begins with a byte order mark. It is not in the first line. */
  readonly hasBom: boolean
}

const shape = new Shape<ReadLinesRequest>({
  path: true,
  startLine: true,
  endLine: true,
  limit: true,
  maxLineLength: true,
})

export interface LineRangeToRead {
  readonly path: string
  readonly startLine: number
  /** Infinity: up to the last line. */
  readonly endLine: number
  readonly limit: number
  readonly maxLineLength: number
}

/** Returns a checked copy of the request. */
export function parseReadLines(request: ReadLinesRequest): LineRangeToRead {
  const { path, startLine, endLine, limit, maxLineLength } = shape.read(request)
  const start = parseCount('startLine', startLine, { least: 1, most: Number.MAX_SAFE_INTEGER, fallback: 1 })
  const end =
    endLine === undefined || endLine === -1
      ? Number.POSITIVE_INFINITY
      : parseCount('endLine', endLine, { least: 1, most: Number.MAX_SAFE_INTEGER, fallback: 1 })
  if (end < start)
    throw invalid(
      'endLine',
      `must not be before startLine ${start}; it is ${given(endLine)}. Pass -1 for the last line`,
    )
  return {
    path,
    startLine: start,
    endLine: end,
    limit: parseCount('limit', limit, {
      least: 1,
      most: limits.readLines,
      fallback: limits.readLinesDefault,
    }),
    maxLineLength: parseCount('maxLineLength', maxLineLength, {
      least: 1,
      most: limits.lineLength,
      fallback: limits.lineLengthDefault,
    }),
  }
}

/** Where lines begin in a content: the number of line ends before each block. */
interface LineIndex {
  readonly lineEndsBefore: readonly number[]
  readonly totalLines: number
  readonly lineEnding: LineEnding
  readonly hasBom: boolean
}

/** The indexes of contents that were read before. A later call reads only the blocks that have its lines. */
const indexes = new WeakMap<object, LineIndex>()

/** Reads lines of a file as it is now. The caller protects it from collections. */
export async function readLines(
  core: Core,
  file: FileNode,
  range: LineRangeToRead,
): Promise<ReadLinesResult> {
  if (file.size > limits.readLinesFileBytes)
    throw new EngineError(
      'TOO_LARGE',
      `${range.path} has ${file.size} bytes; lines are read from files up to ${limits.readLinesFileBytes} bytes. Use session.files.read with an offset`,
      { path: range.path, limit: String(limits.readLinesFileBytes) },
    )
  const body = await whenLoaded(() => core.contentIds.body(file))
  const index =
    body === undefined ? emptyIndex : (indexes.get(body) ?? (await indexLines(core, body, file.size)))
  if (body !== undefined) indexes.set(body, index)
  const { lines, isTruncated } = await new LineReader(core, body, file.size, index).read(range)
  const contentHash = formatHash(await whenLoaded(() => core.contentIds.contentHash(file)))
  const { totalLines, lineEnding, hasBom } = index
  return { lines, totalLines, isTruncated, contentHash, sizeBytes: file.size, lineEnding, hasBom }
}

const emptyIndex: LineIndex = { lineEndsBefore: [0], totalLines: 0, lineEnding: 'none', hasBom: false }

const lineFeed = 10
const carriageReturn = 13
const bom = Buffer.from('\ufeff')

async function indexLines(core: Core, body: LoadedBody, size: number): Promise<LineIndex> {
  const lineEndsBefore: number[] = []
  const slice = core.content.slice()
  let lineEnds = 0
  let crlf = 0
  let last = lineFeed
  let hasBom = false
  for (let offset = 0; offset < size; offset += limits.blockBytes) {
    const block = await core.content.read(body, offset, Math.min(limits.blockBytes, size - offset))
    lineEndsBefore.push(lineEnds)
    if (offset === 0) hasBom = block.subarray(0, bom.length).equals(bom)
    for (let at = block.indexOf(lineFeed); at >= 0; at = block.indexOf(lineFeed, at + 1)) {
      if ((at === 0 ? last : block[at - 1]) === carriageReturn) crlf++
      if (++lineEnds % limits.linesPerLook === 0 && slice.over) await slice.next()
    }
    last = itemAt(block, -1)
    if (slice.over) await slice.next()
  }
  const lineEnding = lineEnds === 0 ? 'none' : crlf === 0 ? 'LF' : crlf === lineEnds ? 'CRLF' : 'mixed'
  return { lineEndsBefore, totalLines: lineEnds + (last === lineFeed ? 0 : 1), lineEnding, hasBom }
}

class LineReader {
  readonly #core: Core
  readonly #body: LoadedBody
  readonly #size: number
  readonly #index: LineIndex

  constructor(core: Core, body: LoadedBody, size: number, index: LineIndex) {
    this.#core = core
    this.#body = body
    this.#size = size
    this.#index = index
  }

  async read(range: LineRangeToRead): Promise<{ lines: TextLine[]; isTruncated: boolean }> {
    const { startLine, maxLineLength } = range
    const lastLine = Math.min(range.endLine, this.#index.totalLines)
    const lines: TextLine[] = []
    let bytes = 0
    // The byte order mark is read with the first line.
    const mostBytes = bytesOfUnits(maxLineLength) + bom.length
    for await (const { lineNumber, line, isCut } of this.#linesFrom(startLine, mostBytes)) {
      if (lineNumber > lastLine) break
      if (lines.length === range.limit || bytes > limits.readLinesBytes) return { lines, isTruncated: true }
      const { text, isTruncated } = cutLine(line.toString('utf8'), maxLineLength)
      lines.push({ lineNumber, text, isTruncated: isTruncated || isCut })
      bytes += line.length
    }
    return { lines, isTruncated: false }
  }

  /** The lines from a number on, each with at most so many bytes, without line ends and byte order mark. */
  async *#linesFrom(
    startLine: number,
    mostBytes: number,
  ): AsyncGenerator<{ lineNumber: number; line: Buffer; isCut: boolean }, void> {
    const { lineEndsBefore, hasBom, totalLines } = this.#index
    if (startLine > totalLines) return
    let first = 0
    // The line begins in the last block that has fewer line ends before it than the line has.
    while (first + 1 < lineEndsBefore.length && itemAt(lineEndsBefore, first + 1) < startLine) first++
    let lineNumber = itemAt(lineEndsBefore, first) + 1
    let pieces: Buffer[] = []
    let length = 0
    let wholeLength = 0
    const slice = this.#core.content.slice()
    const add = (piece: Buffer): void => {
      wholeLength += piece.length
      if (lineNumber < startLine || length > mostBytes) return
      pieces.push(piece.subarray(0, mostBytes + 1 - length))
      length += itemAt(pieces, -1).length
    }
    const taken = (hasLineEnd: boolean): { lineNumber: number; line: Buffer; isCut: boolean } => {
      let line = pieces.length === 1 ? itemAt(pieces, 0) : Buffer.concat(pieces)
      const isCut = length < wholeLength
      if (hasLineEnd && !isCut && line.at(-1) === carriageReturn) line = line.subarray(0, -1)
      if (lineNumber === 1 && hasBom) line = line.subarray(bom.length)
      return { lineNumber, line, isCut }
    }
    const restart = (): void => {
      lineNumber++
      pieces = []
      length = 0
      wholeLength = 0
    }
    for (let offset = first * limits.blockBytes; offset < this.#size; offset += limits.blockBytes) {
      const count = Math.min(limits.blockBytes, this.#size - offset)
      const block = await this.#core.content.read(this.#body, offset, count)
      let start = 0
      for (let at = block.indexOf(lineFeed); at >= 0; at = block.indexOf(lineFeed, start)) {
        add(block.subarray(start, at))
        if (lineNumber >= startLine) yield taken(true)
        restart()
        start = at + 1
        if (lineNumber % limits.linesPerLook === 0 && slice.over) await slice.next()
      }
      add(block.subarray(start))
      if (slice.over) await slice.next()
    }
    if (wholeLength > 0 && lineNumber >= startLine) yield taken(false)
  }
}
