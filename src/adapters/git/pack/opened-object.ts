import { createHash } from 'node:crypto'
import { EngineError, type GitObject } from '../../../engine/ports.js'
import { gather } from './inflate.js'
import { gitLimits } from '../limits.js'
import { objectId, type ObjectFormat } from '../objects/object-id.js'
import type { ObjectSource } from '../objects/object-source.js'

/** An object before its id is verified. A large object of any type is in pieces. */
export type OpenedObject =
  | { readonly type: GitObject['type']; readonly body: Uint8Array }
  | {
      readonly type: GitObject['type']
      readonly body?: undefined
      readonly size: number
      /** Exactly `size` bytes in total. Throws GIT_CORRUPT. */
      readonly pieces: AsyncGenerator<Buffer, void, undefined>
    }

/** Returns the whole body in memory. Throws GIT_TOO_LARGE if it is too large for that. */
export async function wholeBody(object: OpenedObject): Promise<Uint8Array> {
  if (object.body !== undefined) return object.body
  if (object.size > gitLimits.deltaBytes) {
    throw new EngineError('GIT_TOO_LARGE', `an object is over ${gitLimits.deltaBytes} bytes`, {
      limit: String(gitLimits.deltaBytes),
    })
  }
  return gather(object.pieces, object.size)
}

/** Opens objects by id and verifies their content. */
export class VerifiedSource implements ObjectSource {
  readonly #format: ObjectFormat
  readonly #open: (oid: string) => Promise<OpenedObject | undefined>
  /** A small object that `readBlob` has opened. The caller usually reads it next. */
  #last: { readonly oid: string; readonly object: OpenedObject } | undefined

  constructor(format: ObjectFormat, open: (oid: string) => Promise<OpenedObject | undefined>) {
    this.#format = format
    this.#open = open
  }

  async read(oid: string): Promise<GitObject> {
    const object = await this.#take(oid)
    const { type } = object
    if (object.body === undefined) {
      const pieces = verifiedPieces(oid, this.#format, object)
      return { oid, type, body: await wholeBody({ ...object, pieces }) }
    }
    if (objectId(type, object.body, this.#format) !== oid) throw damaged(oid)
    return { oid, type, body: object.body }
  }

  async readBlob(oid: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    const object = await this.#take(oid)
    const { type, body } = object
    if (body === undefined) {
      return type === 'blob' ? verifiedPieces(oid, this.#format, object) : undefined
    }
    if (type === 'blob' && body.length > gitLimits.streamedBlobBytes) {
      return verifiedPieces(oid, this.#format, { type, size: body.length, pieces: piecesOf(body) })
    }
    this.#last = { oid, object }
    return undefined
  }

  async #take(oid: string): Promise<OpenedObject> {
    const last = this.#last
    this.#last = undefined
    const object = last?.oid === oid ? last.object : await this.#open(oid)
    if (object !== undefined) return object
    throw new EngineError('GIT_CORRUPT', `the object ${oid} is missing`, { objectId: oid })
  }
}

/** Splits a body that is already in memory. */
async function* piecesOf(body: Uint8Array): AsyncGenerator<Buffer, void, undefined> {
  for (let at = 0; at < body.length; at += gitLimits.pieceBytes) {
    yield Buffer.from(body.subarray(at, at + gitLimits.pieceBytes))
  }
}

async function* verifiedPieces(
  oid: string,
  format: ObjectFormat,
  object: Extract<OpenedObject, { size: number }>,
): AsyncGenerator<Buffer, void, undefined> {
  const hash = createHash(format).update(`${object.type} ${object.size}\0`)
  for await (const piece of object.pieces) {
    hash.update(piece)
    yield piece
  }
  if (hash.digest('hex') !== oid) throw damaged(oid)
}

function damaged(oid: string): EngineError {
  return new EngineError('GIT_CORRUPT', `the object ${oid} is damaged`, { objectId: oid })
}
