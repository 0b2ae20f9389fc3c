import { createHash } from 'node:crypto'
import { bytesOf, type ByteText } from './byte-text.js'

/** The id of a content in git, in hex: by SHA-1, or by SHA-256 in a repository with long ids. */
export function gitBlobId(content: Uint8Array | ByteText, algorithm: 'sha1' | 'sha256' = 'sha1'): string {
  const bytes = typeof content === 'string' ? bytesOf(content) : content
  return createHash(algorithm).update(`blob ${bytes.length}\0`).update(bytes).digest('hex')
}
