import type { promises as fs } from 'node:fs'
import { inflateSync } from 'node:zlib'
import { EngineError, type GitObject } from '../../../engine/ports.js'
import { exactly, gather, inflatePieces, type ByteInput } from '../pack/inflate.js'
import { gitLimits } from '../limits.js'
import { errorCode, readFully } from './local-files.js'
import { FileGone, type FilePlace } from './open-files.js'
import type { OpenedObject } from '../pack/opened-object.js'
import { checkObjectSize } from '../pack/pack-budget.js'

/** An upper bound on the length of a header such as `commit 1234`. */
const headerBytes = 32

/** Opens a loose object. Returns undefined if there is no such file. Throws GIT_CORRUPT. */
export async function openLoose(place: FilePlace): Promise<OpenedObject | undefined> {
  const handle = await place.open()
  if (handle === undefined) return undefined
  try {
    const { size } = await handle.stat()
    const small =
      size > gitLimits.streamedBlobBytes ? undefined : inflateSmall(await readFully(handle, 0, size))
    return small ?? (await openLarge(handle, place))
  } finally {
    await handle.close()
  }
}

function inflateSmall(file: Buffer): OpenedObject | undefined {
  let bytes: Buffer
  try {
    bytes = inflateSync(file, {
      chunkSize: Math.min(Math.max(gitLimits.smallPieceBytes, file.length * 4), gitLimits.packStepBytes),
      maxOutputLength: gitLimits.streamedBlobBytes + headerBytes,
    })
  } catch (error) {
    if (errorCode(error) === 'ERR_BUFFER_TOO_LARGE') return undefined
    throw damaged(error)
  }
  const header = readHeader(bytes)
  const body = bytes.subarray(header.end)
  if (body.length !== header.size) throw damaged()
  return { type: header.type, body }
}

async function openLarge(handle: fs.FileHandle, place: FilePlace): Promise<OpenedObject> {
  const start = inflatePieces(new HandleInput(handle))
  const first = await start.next()
  await start.return()
  const header = readHeader(first.value ?? Buffer.alloc(0))
  const { type, size } = header
  checkObjectSize(type, size)
  const pieces = exactly(contentPieces(place, header.end), size)
  if (size > gitLimits.streamedBlobBytes) return { type, size, pieces }
  return { type, body: await gather(pieces, size) }
}

/** Streams the content after the header. It opens the file itself, so unread pieces leave no file open. */
async function* contentPieces(place: FilePlace, start: number): AsyncGenerator<Buffer, void, undefined> {
  const handle = await place.open()
  if (handle === undefined) throw new FileGone()
  try {
    let left = start
    for await (const piece of inflatePieces(new HandleInput(handle))) {
      yield piece.subarray(left)
      left = 0
    }
  } finally {
    await handle.close()
  }
}

function readHeader(bytes: Buffer): { type: GitObject['type']; size: number; end: number } {
  const text = bytes.toString('latin1', 0, headerBytes)
  const [header, type, size] = /^(commit|tree|blob|tag) (0|[1-9]\d{0,15})\0/.exec(text) ?? []
  if (header === undefined || !Number.isSafeInteger(Number(size))) throw damaged()
  return { type: type as GitObject['type'], size: Number(size), end: header.length }
}

class HandleInput implements ByteInput {
  readonly #handle: fs.FileHandle
  #offset = 0

  constructor(handle: fs.FileHandle) {
    this.#handle = handle
  }

  peek(): Promise<Buffer> {
    return readFully(this.#handle, this.#offset, gitLimits.pieceBytes)
  }

  skip(count: number): void {
    this.#offset += count
  }
}

function damaged(cause?: unknown): EngineError {
  return new EngineError('GIT_CORRUPT', 'a loose object is damaged', {}, { cause })
}
