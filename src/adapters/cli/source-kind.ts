import { open, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Failure, UsageError } from './failure.js'

export const sourceKinds = ['git', 'repository', 'directory', 'archive', 'bundle'] as const
export type SourceKindName = (typeof sourceKinds)[number]

const headBytes = 16

/**
 * Detects the kind of a source from the form of a URL, the entries of a directory or the first bytes of a
 * file.
 */
export async function detectKind(what: string): Promise<SourceKindName> {
  if (/^https?:\/\//i.test(what)) return 'git'
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(what))
    throw new UsageError(`only http and https URLs are supported, but got '${what}'`)
  const entry = await stat(what).catch((error: NodeJS.ErrnoException) => {
    const hint = /^[^/]+@[^/]+:/.test(what) ? '. Git remotes must be http or https URLs' : ''
    throw new Failure(
      error.code === 'ENOENT' ? `there is no file or directory ${what}${hint}` : error.message,
    )
  })
  if (entry.isDirectory()) return (await isRepository(what)) ? 'repository' : 'directory'
  return isBundle(await readHead(what)) ? 'bundle' : 'archive'
}

/** Whether these are the first bytes of a git bundle. Any other content is treated as an archive. */
export function isBundle(head: Uint8Array): boolean {
  return /^# v\d+ git bundle/.test(Buffer.from(head).toString('latin1'))
}

async function isRepository(directory: string): Promise<boolean> {
  if (await exists(join(directory, '.git'))) return true
  const parts = await Promise.all(['HEAD', 'objects', 'refs'].map((name) => exists(join(directory, name))))
  return parts.every(Boolean)
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

async function readHead(path: string): Promise<Uint8Array> {
  const handle = await open(path)
  try {
    const head = new Uint8Array(headBytes)
    const { bytesRead } = await handle.read(head, 0, headBytes, 0)
    return head.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}
