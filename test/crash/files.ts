import { copyFile, cp, mkdtemp, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import { randomWords } from '../../src/testing.js'
import { filesIn } from './bitrot.js'
import { Victim, type Fate } from './damage.js'

export interface FilesOptions {
  readonly stores: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface FilesResult {
  changes: number
  /** The number of damaged copies by outcome. */
  readonly copies: Record<Fate, number>
}

/** A change to a file; `older` is the path of an earlier version of it. */
type Change = (path: string, older: string | undefined) => Promise<void>

const changes: Record<string, Change> = {
  deleted: (path) => rm(path),
  emptied: (path) => truncate(path, 0),
  'cut in half': async (path) => truncate(path, Math.floor((await stat(path)).size / 2)),
  'with appended bytes': (path) => writeFile(path, 'more', { flag: 'a' }),
  'replaced by an older version': async (path, older) => {
    if (older !== undefined) await copyFile(older, path)
  },
  'copied under another name': (path) => copyFile(path, `${path}.copy`),
  'copied under the next number': async (path) => {
    const name = basename(path).replace(/\d+/, (digits) =>
      String(Number(digits) + 1).padStart(digits.length, '0'),
    )
    if (name !== basename(path)) await copyFile(path, join(path, '..', name))
  },
}

/** Applies each change to each file of a store. The store must be rejected, be intact, or report its losses. */
export async function runFileChanges(options: FilesOptions): Promise<FilesResult> {
  const random = randomWords(options.seed)
  const result: FilesResult = { changes: 0, copies: { refused: 0, reported: 0, harmless: 0, wrong: 0 } }
  for (let stores = 0; stores < options.stores; stores++) {
    const older = await mkdtemp(join(tmpdir(), 'older-'))
    const onHalf = (directory: string): Promise<void> => cp(directory, older, { recursive: true })
    const victim = await Victim.make(random, { calls: 60, onHalf })
    const earlier = new Set((await filesIn(older)).map((path) => relative(older, path)))
    for (const path of (await filesIn(victim.directory)).map((file) => relative(victim.directory, file))) {
      for (const [what, change] of Object.entries(changes)) {
        const { fate, text } = await victim.damage((directory) =>
          change(join(directory, path), earlier.has(path) ? join(older, path) : undefined),
        )
        result.changes++
        result.copies[fate]++
        options.onProgress(`${fate === 'wrong' ? 'WRONG' : fate} with ${path} ${what} ${text}`)
      }
    }
    await victim.remove()
    await rm(older, { recursive: true })
  }
  return result
}
