import { createHash, hash } from 'node:crypto'
import type { GitObject } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'

/** The hash function of a repository's object ids. */
export type ObjectFormat = 'sha1' | 'sha256'

/** The id of the tree without entries. Every repository has this tree without storing it. */
export function emptyTreeId(format: ObjectFormat): string {
  return emptyTreeIds[format]
}

/** The id that means no object. */
export function zeroId(format: ObjectFormat): string {
  return '0'.repeat(idBytes(format) * 2)
}

/** The length of a binary id, in bytes. */
export function idBytes(format: ObjectFormat): 20 | 32 {
  return format === 'sha1' ? 20 : 32
}

/** Whether this is an id of either format: 40 or 64 hex digits in lower case. */
export function isObjectId(text: string): boolean {
  return /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text)
}

export function formatOf(oid: string): ObjectFormat {
  return oid.length === 64 ? 'sha256' : 'sha1'
}

export function objectId(type: GitObject['type'], body: Uint8Array, format: ObjectFormat): string {
  const header = `${type} ${body.length}\0`
  const length = header.length + body.length
  // For small objects, one call over contiguous bytes is by far the fastest.
  if (length > scratch.length) return createHash(format).update(header).update(body).digest('hex')
  scratch.write(header, 'latin1')
  scratch.set(body, header.length)
  return hash(format, scratch.subarray(0, length), 'hex')
}

const scratch = Buffer.allocUnsafeSlow(gitLimits.scratchBytes)

const emptyTreeIds = {
  sha1: '4b825dc642cb6eb9a060e54bf8d69288fbee4904',
  sha256: '6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321',
}
