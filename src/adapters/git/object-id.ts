import { createHash } from 'node:crypto'
import type { GitObject } from '../../engine/ports.js'

/** The tree without entries, which every repository has without storing it. */
export const emptyTreeId = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'

export const zeroId = '0'.repeat(40)

export function isObjectId(text: string): boolean {
  return /^[0-9a-f]{40}$/.test(text)
}

export function objectId(type: GitObject['type'], body: Uint8Array): string {
  return createHash('sha1').update(`${type} ${body.length}\0`).update(body).digest('hex')
}
