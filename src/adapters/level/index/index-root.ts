import { Buffer } from 'node:buffer'
import { crc32 } from 'node:zlib'
import { isCount, isListOf, isText, isWith, type Checks, itemAt } from '../../../engine/ports.js'

/** A reference to a page. */
export interface PageRef {
  /**
   * The lower bound of the keys in the page. It is above the last key of the page before, and at most the
   * first key of this page.
   */
  lower: string
  readonly id: number
  readonly checksum: number
}

/** The parts of a segment that are in use. */
export interface SegmentUse {
  /** Bytes of entries that are in the index. */
  live: number
  /** Bytes of deletions. */
  deletions: number
}

/** A place between two frames. Every frame before it is in the index. */
export interface IndexPlace {
  readonly segment: number
  readonly offset: number
  /** The number and checksum of the last of these frames. */
  readonly commit: number
  readonly chain: number
}

/** The state of the pages. It is stored in one batch with the last of them. */
export interface IndexRoot extends IndexPlace {
  readonly storeId: string
  readonly nextPage: number
  /** Replaced pages. They stay in the database until the next root is stored. */
  readonly replaced: readonly number[]
  readonly uses: ReadonlyMap<number, SegmentUse>
  readonly pages: readonly PageRef[]
}

/** The state of the index after its root, with the entries that are not in the pages yet. */
export interface IndexTail extends IndexPlace {
  /** The checksum of the root that the tail belongs to. A tail of another root is ignored. */
  readonly root: number
  readonly nextPage: number
  /** The deltas with these entries, the oldest first. A delta is encoded as a page. */
  readonly deltas: readonly { readonly id: number; readonly checksum: number }[]
}

export function encodeRoot(root: IndexRoot): Buffer {
  const uses = [...root.uses].flatMap(([segment, { live, deletions }]) => [segment, live, deletions])
  const pages = root.pages.flatMap(({ lower, id, checksum }) => [lower, id, checksum])
  return encodeChecked({ ...root, uses, pages })
}

/** A root with flat lists of triples: segment, live, deletions in `uses`; lower, id, checksum in `pages`. */
type StoredRoot = Omit<IndexRoot, 'uses' | 'pages'> & {
  readonly uses: readonly number[]
  readonly pages: readonly (string | number)[]
}

const placeChecks: Checks<IndexPlace> = {
  segment: isCount,
  offset: isCount,
  commit: isCount,
  chain: isCount,
}

const isStoredRoot = isWith<StoredRoot>({
  ...placeChecks,
  storeId: isText,
  nextPage: isCount,
  replaced: isListOf(isCount),
  uses: isListOf(isCount),
  pages: isListOf((value) => isText(value) || isCount(value)),
})

const isTail = isWith<IndexTail>({
  ...placeChecks,
  root: isCount,
  nextPage: isCount,
  deltas: isListOf(isWith<IndexTail['deltas'][number]>({ id: isCount, checksum: isCount })),
})

/** Undefined when the bytes are not an intact root. */
export function decodeRoot(bytes: Buffer): IndexRoot | undefined {
  const root = decodeChecked(bytes)
  if (!isStoredRoot(root) || root.uses.length % 3 !== 0 || root.pages.length % 3 !== 0) return undefined
  const uses = new Map<number, SegmentUse>()
  for (let i = 0; i < root.uses.length; i += 3) {
    uses.set(itemAt(root.uses, i), { live: itemAt(root.uses, i + 1), deletions: itemAt(root.uses, i + 2) })
  }
  const pages: PageRef[] = []
  for (let i = 0; i < root.pages.length; i += 3) {
    const [lower, id, checksum] = [root.pages[i], root.pages[i + 1], root.pages[i + 2]]
    if (typeof lower !== 'string' || typeof id !== 'number' || typeof checksum !== 'number') return undefined
    pages.push({ lower, id, checksum })
  }
  return { ...root, uses, pages }
}

export function encodeTail(tail: IndexTail): Buffer {
  return encodeChecked(tail)
}

/** Undefined when the bytes are not a tail of the root with this checksum. */
export function decodeTail(bytes: Buffer, root: number): IndexTail | undefined {
  const tail = decodeChecked(bytes)
  return isTail(tail) && tail.root === root ? tail : undefined
}

/** The checksum that precedes the text of a root or tail. */
export function checksumOf(bytes: Buffer): number {
  return bytes.readUInt32LE(0)
}

function encodeChecked(value: object): Buffer {
  const text = Buffer.from(JSON.stringify(value))
  const bytes = Buffer.allocUnsafe(4 + text.length)
  bytes.writeUInt32LE(crc32(text), 0)
  text.copy(bytes, 4)
  return bytes
}

/** Undefined if the checksum does not match the bytes, or the text is not JSON. */
function decodeChecked(bytes: Buffer): unknown {
  if (bytes.length < 4 || crc32(bytes.subarray(4)) !== checksumOf(bytes)) return undefined
  try {
    return JSON.parse(bytes.toString('utf8', 4))
  } catch {
    return undefined
  }
}
