import { constants, deflateRawSync, deflateSync } from 'node:zlib'
import {
  commitBody,
  idDelta,
  idOf,
  makeDelta,
  offsetDelta,
  plainEntry,
  rawPack,
  treeBody,
  type Format,
} from './raw-pack.js'

/** A malicious pack as a remote could send it. */
export interface HostilePack {
  readonly pack: Buffer
  /** The commit to request. */
  readonly want: string
  /** The code that reading the pack throws; undefined if the pack is valid and only its trees must be rejected. */
  readonly reason: 'GIT_CORRUPT' | 'GIT_TOO_LARGE' | undefined
}

const MiB = 2 ** 20

/** The malicious packs by name, built on demand because some take a moment. */
export const hostilePacks: Readonly<Record<string, (format: Format) => HostilePack>> = {
  'one huge blob in a small pack': (format) => {
    const size = 800 * MiB + 2
    const blob = plainEntry('blob', Buffer.alloc(0), { size, deflated: deflatedZeros(800) })
    return { ...withCommit([blob], 'f'.repeat(idLength(format)), format), reason: 'GIT_TOO_LARGE' }
  },
  'many large blobs of little': (format) => {
    const size = 3 * MiB
    const first = idOf('blob', Buffer.alloc(size), format)
    const entries = Array.from({ length: 300 }, (_, index) => {
      const start = Buffer.from([index >> 8, index & 255])
      return plainEntry('blob', Buffer.alloc(0), { size: size + 2, deflated: deflatedZeros(3, start) })
    })
    return { ...withCommit(entries, first, format), reason: 'GIT_TOO_LARGE' }
  },
  'many large results of small deltas': (format) => {
    const base = Buffer.alloc(3 * MiB, 'x')
    const oid = idOf('blob', base, format)
    const entries = Array.from({ length: 3000 }, (_, index) => {
      const number = Buffer.alloc(4)
      number.writeUInt32BE(index)
      return idDelta(oid, makeDelta(base.length, base.length, [number, [4, base.length - 4]]))
    })
    return { ...withCommit([plainEntry('blob', base), ...entries], oid, format), reason: 'GIT_TOO_LARGE' }
  },
  'many small results of one large base': (format) => {
    const size = 9 * MiB + 2
    const oid = idOf('blob', Buffer.alloc(size), format)
    const deltas = Array.from({ length: 1000 }, (_, index) =>
      idDelta(oid, makeDelta(size, 4, [Buffer.from(`${index}`.padStart(4))])),
    )
    const base = plainEntry('blob', Buffer.alloc(0), { size, deflated: deflatedZeros(9) })
    return { ...withCommit([base, ...deltas], oid, format), reason: 'GIT_TOO_LARGE' }
  },
  'a result that doubles with each delta': (format) => {
    const base = Buffer.alloc(1024, 'x')
    const entries = [plainEntry('blob', base)]
    for (let size = base.length; size < 8192 * MiB; size *= 2) {
      const delta = makeDelta(size, size * 2, [
        [0, size],
        [0, size],
      ])
      entries.push(offsetDelta(entries.at(-1)!.length, delta))
    }
    return { ...withCommit(entries, idOf('blob', base, format), format), reason: 'GIT_TOO_LARGE' }
  },
  'a delta of very many steps': (format) => {
    const base = Buffer.alloc(16, 'x')
    const steps = 1_000_000
    // Each step copies one byte; the result claims to be one longer.
    const delta = Buffer.concat([
      makeDelta(base.length, steps + 1, []),
      Buffer.alloc(steps * 2, Buffer.from([0x90, 1])),
    ])
    const entries = [plainEntry('blob', base), idDelta(idOf('blob', base, format), delta)]
    return { ...withCommit(entries, idOf('blob', base, format), format), reason: 'GIT_CORRUPT' }
  },
  'a large delta in front of its base, again and again': (format) => {
    const delta = Buffer.concat([makeDelta(16, 4 * MiB, []), Buffer.alloc(3 * MiB)])
    const deflated = deflateSync(delta)
    const entries = Array.from({ length: 200 }, (_, index) =>
      idDelta(idOf('blob', Buffer.from(`${index}`), format), delta, { deflated }),
    )
    return { ...withCommit(entries, 'f'.repeat(idLength(format)), format), reason: 'GIT_TOO_LARGE' }
  },
  'a header of a smaller size': (format) => lyingBlob({ size: 10 }, format),
  'a header of a larger size': (format) => lyingBlob({ size: 5000 }, format),
  'a header of an impossible size': (format) => ({
    ...lyingBlob({ size: 2 ** 52 }, format),
    reason: 'GIT_TOO_LARGE',
  }),
  'a small size for a bomb': (format) => lyingBlob({ size: 100, deflated: deflatedZeros(256) }, format),
  'a delta for a smaller base': (format) => lyingDelta(makeDelta(10, 10, [[0, 10]]), format),
  'a delta for a larger base': (format) => lyingDelta(makeDelta(5000, 10, [[0, 10]]), format),
  'a delta of a shorter result': (format) => lyingDelta(makeDelta(1000, 5, [[0, 10]]), format),
  'a delta of a longer result': (format) => lyingDelta(makeDelta(1000, 5000, [[0, 10]]), format),
  'a delta that copies from beyond its base': (format) =>
    lyingDelta(makeDelta(1000, 10, [[995, 10]]), format),
  'a delta that ends within a step': (format) =>
    lyingDelta(makeDelta(1000, 10, [[0, 10]]).subarray(0, -2), format),
  'more objects than there are': (format) => {
    const { want } = withCommit([], 'f'.repeat(idLength(format)), format)
    return { pack: rawPack([plainEntry('blob', Buffer.from('x'))], format, 2), want, reason: 'GIT_CORRUPT' }
  },
  'an extremely large number of objects': (format) => {
    const { want } = withCommit([], 'f'.repeat(idLength(format)), format)
    return { pack: rawPack([], format, 0xffffffff), want, reason: 'GIT_TOO_LARGE' }
  },
  'a wrong trailer': (format) => {
    const { pack, want } = soundPack(format)
    pack[pack.length - 1]! ^= 1
    return { pack, want, reason: 'GIT_CORRUPT' }
  },
  'bytes after the trailer': (format) => {
    const { pack, want } = soundPack(format)
    return { pack: Buffer.concat([pack, Buffer.alloc(20)]), want, reason: 'GIT_CORRUPT' }
  },
  'very deep trees': (format) => {
    const blob = Buffer.from('x')
    const entries = [plainEntry('blob', blob)]
    let body = treeBody([['100644', 'f', idOf('blob', blob, format)]])
    for (let depth = 0; depth < 5000; depth++) {
      entries.push(plainEntry('tree', body))
      body = treeBody([['40000', 'd', idOf('tree', body, format)]])
    }
    return { ...finished(entries, body, format), reason: undefined }
  },
  'trees that fan out': (format) => {
    const blob = Buffer.from('x')
    const entries = [plainEntry('blob', blob)]
    let body = treeBody([['100644', 'f', idOf('blob', blob, format)]])
    for (let depth = 0; depth < 40; depth++) {
      entries.push(plainEntry('tree', body))
      const oid = idOf('tree', body, format)
      body = treeBody(Array.from({ length: 16 }, (_, index) => ['40000', index.toString(16), oid]))
    }
    return { ...finished(entries, body, format), reason: undefined }
  },
}

/** The result of deflating two bytes and this many MiB of zeros, without building the zeros. */
function deflatedZeros(count: number, start = Buffer.alloc(2)): Buffer {
  const sum = 1 + start[0]! + start[1]!
  const checksum = Buffer.alloc(4)
  checksum.writeUInt16BE((1 + start[0]! + sum + sum * count * MiB) % 65_521)
  checksum.writeUInt16BE(sum, 2)
  return Buffer.concat([
    Buffer.from([0x78, 0x9c, 0, 2, 0, 0xfd, 0xff]),
    start,
    ...Array.from({ length: count }, () => deflatedMiB),
    Buffer.from([3, 0]),
    checksum,
  ])
}

const deflatedMiB = deflateRawSync(Buffer.alloc(MiB), { finishFlush: constants.Z_FULL_FLUSH })

function soundPack(format: Format): { pack: Buffer; want: string } {
  const blob = Buffer.from('hello\n')
  return withCommit([plainEntry('blob', blob)], idOf('blob', blob, format), format)
}

function lyingBlob(lies: { size: number; deflated?: Uint8Array }, format: Format): HostilePack {
  const body = Buffer.alloc(1000, 'x')
  return {
    ...withCommit([plainEntry('blob', body, lies)], idOf('blob', body, format), format),
    reason: 'GIT_CORRUPT',
  }
}

function lyingDelta(delta: Buffer, format: Format): HostilePack {
  const base = Buffer.alloc(1000, 'x')
  const oid = idOf('blob', base, format)
  return {
    ...withCommit([plainEntry('blob', base), idDelta(oid, delta)], oid, format),
    reason: 'GIT_CORRUPT',
  }
}

/** The entries, followed by a commit of a tree with one file. */
function withCommit(
  entries: readonly Buffer[],
  blob: string,
  format: Format,
): { pack: Buffer; want: string } {
  return finished(entries, treeBody([['100644', 'file', blob]]), format)
}

function finished(entries: readonly Buffer[], tree: Buffer, format: Format): { pack: Buffer; want: string } {
  const commit = commitBody(idOf('tree', tree, format))
  const all = [plainEntry('commit', commit), plainEntry('tree', tree), ...entries]
  return { pack: rawPack(all, format), want: idOf('commit', commit, format) }
}

function idLength(format: Format): number {
  return format === 'sha1' ? 40 : 64
}
