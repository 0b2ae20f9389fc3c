import { posix } from 'node:path'

const types: Readonly<Record<string, string>> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.bmp': 'image/bmp',
  '.svg': 'image/svg+xml',
  '.mp3': 'audio/mpeg',
  '.wav': 'audio/wav',
  '.ogg': 'audio/ogg',
  '.flac': 'audio/flac',
  '.pdf': 'application/pdf',
  '.json': 'application/json',
  '.html': 'text/html',
  '.css': 'text/css',
  '.md': 'text/markdown',
}

/** Returns the media type for the extension of a path, as the reference filesystem server does. Undefined if unknown. */
export function mediaTypeOf(path: string): string | undefined {
  return typeByExtension(types, path)
}

/** Looks up the extension of a path, in any case, in a table such as `{ '.png': 'image/png' }`. */
export function typeByExtension(table: Readonly<Record<string, string>>, path: string): string | undefined {
  const extension = posix.extname(path).toLowerCase()
  return Object.hasOwn(table, extension) ? table[extension] : undefined
}
