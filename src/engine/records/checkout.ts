import { isCount, isListOf, isText, isTupleOf } from '../base/checks.js'
import { keyPrefixes, keys } from '../storage/keys.js'
import type { EncodedNode } from '../tree/encoded.js'
import { RecordKind } from './record-kind.js'
import { isRoot } from './tree-root.js'

/** A directory of the host that a session was written to. */
export interface CheckoutRecord {
  readonly sessionId: string
  /**
   * The tree that was written there last. After an interrupted write, there are several trees. Each path is
   * then as in one of them.
   */
  readonly trees: readonly EncodedNode[]
}

export const checkoutKind = new RecordKind<CheckoutRecord>({
  name: 'checkout',
  prefix: keyPrefixes.hostEntries,
  scope: 'tenant',
  isKey: keys.isCheckout,
  checks: { sessionId: isText, trees: isListOf(isRoot) },
  references: ({ trees }, _key, to) => {
    for (const root of trees) to.root(root)
  },
})

/**
 * The files of one directory of the host, as the last scan found them. Scans of sources and checkouts share
 * this key prefix, but each uses places of its own. For a scan, the host adapter defines the value. For a
 * checkout, the value is of one of the two kinds below.
 */
export const seenDirectoryKind = new RecordKind<unknown>({
  name: 'seen directory',
  prefix: keyPrefixes.hostEntries,
  scope: 'tenant',
  isKey: (key) => !keys.isCheckout(key),
  checks: () => true,
})

export type SeenFileLine = readonly [name: string, stamp: string, content: string]

/** The first record of a directory, and the number of its records. */
export interface SeenFiles {
  readonly texts: number
  readonly files: readonly SeenFileLine[]
}

const isFiles = isListOf(isTupleOf(isText, isText, isText))

export const seenFilesKind = new RecordKind<SeenFiles>({
  name: 'checked out directory',
  prefix: keyPrefixes.hostEntries,
  scope: 'tenant',
  checks: { texts: isCount, files: isFiles },
})

export const furtherSeenFilesKind = new RecordKind<readonly SeenFileLine[]>({
  name: 'checked out directory',
  prefix: keyPrefixes.hostEntries,
  scope: 'tenant',
  checks: isFiles,
})
