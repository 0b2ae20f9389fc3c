import { createHash } from 'node:crypto'
import { inflateSync, type Inflate } from 'node:zlib'
import { EngineError } from '../../engine/ports.js'
import { gitLimits } from './limits.js'
import type { Pacer } from './pacer.js'

/**
 * Walks over a pack before isomorphic-git, which has no bounds, may read it: header, trailer, the number of
 * objects, their sizes before and after deltas, and the length of delta chains. Throws GIT_CORRUPT or
 * GIT_TOO_LARGE. Nothing larger than its own header says is ever inflated.
 */
export async function checkPack(pack: Buffer, pacer: Pacer): Promise<void> {
  if (pack.length < 32 || pack.toString('latin1', 0, 4) !== 'PACK' || pack.readUInt32BE(4) !== 2) {
    throw corrupt('it is no pack of version 2')
  }
  const end = pack.length - 20
  await checkTrailer(pack, end, pacer)
  const count = pack.readUInt32BE(8)
  if (count > gitLimits.objects) throw tooLarge('objects', gitLimits.objects)

  const depths = new Map<number, number>()
  let at = 12
  let inflatedBytes = 0
  for (let index = 0; index < count; index++) {
    const start = at
    const header = readHeader(pack, at, end)
    at = header.bodyAt
    if (header.size > gitLimits.objectBytes) throw tooLarge('bytes in an object', gitLimits.objectBytes)
    const { body, consumed } = inflate(pack.subarray(at, end), header.size)
    at += consumed
    let size = header.size
    if (header.isDelta) {
      size = deltaTargetSize(body)
      if (size > gitLimits.objectBytes) throw tooLarge('bytes in an object', gitLimits.objectBytes)
      if (header.baseDistance !== undefined) {
        const depth = (depths.get(start - header.baseDistance) ?? 0) + 1
        if (depth > gitLimits.deltaDepth) throw tooLarge('deltas in a chain', gitLimits.deltaDepth)
        depths.set(start, depth)
      }
    }
    inflatedBytes += size
    if (inflatedBytes > gitLimits.inflatedBytes) throw tooLarge('bytes in objects', gitLimits.inflatedBytes)
    if (pacer.due()) await pacer.rest()
  }
  if (at !== end) throw corrupt('bytes follow its last object')
}

async function checkTrailer(pack: Buffer, end: number, pacer: Pacer): Promise<void> {
  const hash = createHash('sha1')
  const step = 4 * 2 ** 20
  for (let at = 0; at < end; at += step) {
    hash.update(pack.subarray(at, Math.min(at + step, end)))
    if (pacer.due()) await pacer.rest()
  }
  if (hash.digest('hex') !== pack.toString('hex', end)) throw corrupt('its checksum is wrong')
}

interface EntryHeader {
  readonly isDelta: boolean
  /** How far back the base starts, for a delta that says so. */
  readonly baseDistance: number | undefined
  readonly size: number
  readonly bodyAt: number
}

function readHeader(pack: Buffer, start: number, end: number): EntryHeader {
  let at = start
  const next = (): number => {
    if (at >= end) throw corrupt('it ends too early')
    return pack[at++]!
  }
  let byte = next()
  const type = (byte >> 4) & 7
  let size = byte & 15
  for (let factor = 16; byte & 128; factor *= 128) {
    byte = next()
    size += (byte & 127) * factor
    if (!Number.isSafeInteger(size)) throw corrupt('an object has an impossible size')
  }
  let baseDistance: number | undefined
  if (type === 6) {
    byte = next()
    baseDistance = byte & 127
    while (byte & 128) {
      byte = next()
      baseDistance = (baseDistance + 1) * 128 + (byte & 127)
    }
    if (baseDistance <= 0 || baseDistance > start - 12) throw corrupt('a delta has no base')
  } else if (type === 7) {
    at += 20
  } else if (type === 0 || type === 5) {
    throw corrupt('an object has an unknown type')
  }
  return { isDelta: type >= 6, baseDistance, size, bodyAt: at }
}

function inflate(input: Buffer, size: number): { body: Buffer; consumed: number } {
  try {
    const options = { info: true, chunkSize: Math.max(64, size + 1), maxOutputLength: Math.max(1, size) }
    // With `info` the engine comes back too, which the types do not know.
    const { buffer, engine } = inflateSync(input, options) as unknown as { buffer: Buffer; engine: Inflate }
    if (buffer.length !== size) throw corrupt('an object is not as long as it says')
    return { body: buffer, consumed: engine.bytesWritten }
  } catch (error) {
    if (error instanceof EngineError) throw error
    throw corrupt('an object cannot be inflated', error)
  }
}

/** A delta starts with the sizes of its base and of its result. */
function deltaTargetSize(delta: Buffer): number {
  let at = 0
  let size = 0
  for (let field = 0; field < 2; field++) {
    size = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = delta[at++]
      if (byte === undefined || factor > 2 ** 49) throw corrupt('a delta is malformed')
      size += (byte & 127) * factor
      if (byte < 128) break
    }
  }
  return size
}

function corrupt(what: string, cause?: unknown): EngineError {
  return new EngineError('GIT_CORRUPT', `the pack is damaged: ${what}`, {}, { cause })
}

function tooLarge(what: string, limit: number): EngineError {
  return new EngineError('GIT_TOO_LARGE', `the pack has over ${limit} ${what}`, { limit: String(limit) })
}
