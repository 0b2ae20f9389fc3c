import { createHash } from 'node:crypto'
import { deflateSync } from 'node:zlib'

export type Format = 'sha1' | 'sha256'
export type ObjectType = 'commit' | 'tree' | 'blob' | 'tag'

const typeNumbers = { commit: 1, tree: 2, blob: 3, tag: 4 } as const

/** A pack of raw entries with a correct trailer. */
export function rawPack(
  entries: readonly Uint8Array[],
  format: Format = 'sha1',
  count = entries.length,
): Buffer {
  const header = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1')
  header.writeUInt32BE(count, 8)
  return withTrailer(Buffer.concat([header, ...entries]), format)
}

export function withTrailer(bytes: Buffer, format: Format = 'sha1'): Buffer {
  return Buffer.concat([bytes, createHash(format).update(bytes).digest()])
}

export interface Lies {
  /** Written to the header instead of the real size. */
  readonly size?: number
  /** Written instead of the deflated body. */
  readonly deflated?: Uint8Array
}

export function plainEntry(type: ObjectType, body: Uint8Array, lies: Lies = {}): Buffer {
  return Buffer.concat([
    entryHeader(typeNumbers[type], lies.size ?? body.length),
    lies.deflated ?? deflateSync(body),
  ])
}

/** A delta whose base entry starts this many bytes earlier. */
export function offsetDelta(distance: number, delta: Uint8Array, lies: Lies = {}): Buffer {
  const bytes = [distance & 127]
  for (let rest = Math.floor(distance / 128); rest > 0; rest = Math.floor(rest / 128)) {
    rest--
    bytes.unshift(128 | (rest & 127))
  }
  return Buffer.concat([
    entryHeader(6, lies.size ?? delta.length),
    Buffer.from(bytes),
    lies.deflated ?? deflateSync(delta),
  ])
}

export function idDelta(baseOid: string, delta: Uint8Array, lies: Lies = {}): Buffer {
  return Buffer.concat([
    entryHeader(7, lies.size ?? delta.length),
    Buffer.from(baseOid, 'hex'),
    lies.deflated ?? deflateSync(delta),
  ])
}

/** Bytes to insert, or an offset and length in the base. */
export type DeltaStep = Uint8Array | readonly [from: number, count: number]

export function makeDelta(baseSize: number, resultSize: number, steps: readonly DeltaStep[]): Buffer {
  const parts = [sizeBytes(baseSize), sizeBytes(resultSize)]
  for (const step of steps) {
    if (step instanceof Uint8Array) {
      for (let at = 0; at < step.length; at += 127) {
        const part = step.subarray(at, at + 127)
        parts.push(Buffer.from([part.length]), Buffer.from(part))
      }
    } else {
      for (let [from, count] = step; count > 0;) {
        const part = Math.min(count, 0xffffff)
        parts.push(Buffer.from([0xff, ...littleEndian(from, 4), ...littleEndian(part, 3)]))
        from += part
        count -= part
      }
    }
  }
  return Buffer.concat(parts)
}

export function idOf(type: ObjectType, body: Uint8Array, format: Format = 'sha1'): string {
  return createHash(format).update(`${type} ${body.length}\0`).update(body).digest('hex')
}

export type TreeLine = readonly [mode: string, name: string, oid: string]

export function treeBody(lines: readonly TreeLine[]): Buffer {
  return Buffer.concat(
    lines.flatMap(([mode, name, oid]) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(oid, 'hex')]),
  )
}

export function commitBody(tree: string): Buffer {
  const person = 'Ada Author <ada@example.org> 1700000000 +0000'
  return Buffer.from(`tree ${tree}\nauthor ${person}\ncommitter ${person}\n\na commit\n`)
}

function entryHeader(type: number, size: number): Buffer {
  const bytes: number[] = []
  let byte = (type << 4) | (size & 15)
  for (let rest = Math.floor(size / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes.push(byte | 128)
    byte = rest & 127
  }
  return Buffer.from([...bytes, byte])
}

function sizeBytes(size: number): Buffer {
  const bytes: number[] = []
  let rest = size
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push(128 | (rest & 127))
  return Buffer.from([...bytes, rest])
}

function littleEndian(value: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => Math.floor(value / 256 ** index) & 255)
}
