import { DigestTable } from '../../base/digest-table.js'
import { sha256 } from '../../base/hash.js'
import { messageOf } from '../../base/errors.js'
import { keys } from '../../storage/keys.js'
import type { Store } from '../../storage/store.js'
import type { EncodedNode } from '../../tree/encoded.js'
import {
  encodedReferences,
  nodeEntries,
  storedReferences,
  type References,
  type StoredKind,
} from '../../tree/references.js'
import type { CheckedBlobs } from './blobs.js'
import { withPlace, type Findings, type Place } from './findings.js'

interface Unread extends Place {
  readonly address: string
  readonly kind: StoredKind
}

/** Reads each node of stored trees once, and knows its path. */
export class CheckedTrees {
  readonly #store: Store
  readonly #findings: Findings
  readonly #blobs: CheckedBlobs
  readonly #rest: () => Promise<void>
  readonly #seen = new DigestTable()
  /** Missing and damaged nodes. They are reported for each session that refers to them. */
  readonly #bad = new Map<string, { problem: 'missing' | 'damaged'; message: string }>()

  constructor(store: Store, findings: Findings, blobs: CheckedBlobs, rest: () => Promise<void>) {
    this.#store = store
    this.#findings = findings
    this.#blobs = blobs
    this.#rest = rest
  }

  get count(): number {
    return this.#seen.size
  }

  /** Checks a tree that a record refers to. */
  async root(root: EncodedNode, sessionId?: string): Promise<void> {
    const unread: Unread[] = []
    await this.#entry(root, { ...(sessionId !== undefined && { sessionId }), path: '/' }, unread)
    for (let next = unread.pop(); next !== undefined; next = unread.pop()) {
      await this.#node(next, unread)
      await this.#rest()
    }
  }

  async #node({ address, kind, ...place }: Unread, unread: Unread[]): Promise<void> {
    const known = this.#bad.get(address)
    if (known !== undefined) return this.#report(address, known, place)
    if (this.#seen.add(address) === undefined) return
    try {
      const json = await this.#store.get(keys.node(address))
      if (json === undefined) return this.#isBad(address, 'missing', 'is not in the store', place)
      if (!sha256(json).startsWith(address))
        return this.#isBad(address, 'damaged', 'its content does not match its address', place)
      const entries = kind === 'blocks' ? undefined : nodeEntries(kind, { address, json })
      // The node has the blocks of a file, or the pages of a large directory. These have the same path.
      if (entries === undefined) {
        return await this.#references(place, unread, (references) =>
          storedReferences(kind, { address, json }, references),
        )
      }
      const parent = place.path === '/' ? '' : place.path
      for (const [name, node] of entries)
        await this.#entry(node, { ...place, path: `${parent}/${name}` }, unread)
    } catch (error) {
      this.#isBad(address, 'damaged', messageOf(error), place)
    }
  }

  async #entry(node: EncodedNode, place: Place, unread: Unread[]): Promise<void> {
    await this.#references(place, unread, (references) => encodedReferences(node, references))
  }

  async #references(place: Place, unread: Unread[], look: (references: References) => void): Promise<void> {
    const blobs: [hash: string, length: number][] = []
    look({
      node: (address, kind) => unread.push({ ...place, address, kind }),
      blob: (hash, length = 0) => blobs.push([hash, length]),
    })
    for (const [hash, length] of blobs) await this.#blobs.uses(hash, length, place)
  }

  #isBad(address: string, problem: 'missing' | 'damaged', message: string, place: Place): void {
    const bad = { problem, message }
    this.#bad.set(address, bad)
    this.#report(address, bad, place)
  }

  #report(address: string, bad: { problem: 'missing' | 'damaged'; message: string }, place: Place): void {
    this.#findings.add(withPlace({ ...bad, object: `node ${address}` }, place))
  }
}
