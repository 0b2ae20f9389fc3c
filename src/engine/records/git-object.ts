import { isCount, isListOf, isObject, isText, isTupleOf } from '../base/checks.js'
import type { EncodedBlob } from '../cas/blob.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

interface StoredObject {
  readonly type: 'commit' | 'tree' | 'blob' | 'tag'
  readonly size: number
}

/** A git object and the blobs that hold its content: one blob, or several. */
export type GitObjectRecord =
  | (StoredObject & { readonly hash: string })
  | (StoredObject & { readonly blobs: readonly EncodedBlob[] })

export const gitObjectKind = new RecordKind<GitObjectRecord>({
  name: 'git object',
  prefix: keyPrefixes.gitObject,
  scope: 'tenant',
  checks: isGitObject,
  references: (object, _key, to) => {
    for (const [hash, length] of blobsOf(object)) to.blob(hash, length)
  },
})

export function blobsOf(object: GitObjectRecord): readonly EncodedBlob[] {
  return 'hash' in object ? [[object.hash, object.size]] : object.blobs
}

function isGitObject(value: unknown): boolean {
  if (!isObject(value)) return false
  const { type, size, hash, blobs } = value as Record<string, unknown>
  return isText(type) && isCount(size) && (isText(hash) || isListOf(isTupleOf(isText, isCount))(blobs))
}
