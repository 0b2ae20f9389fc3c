import { isUtf8, type Buffer } from 'node:buffer'
import { promises as fs, type BigIntStats, type Dirent } from 'node:fs'
import type { DirectoryHandle } from './directory-handle.js'
import { hostLimits } from './limits.js'

/**
 * Lists the names in a directory in code unit order. `skipped` counts names that are not UTF-8. `more` is
 * true if the directory has more than `maxNames`.
 */
export async function listNames(
  directory: DirectoryHandle,
  maxNames: number,
): Promise<{ names: string[]; skipped: number; more: boolean }> {
  const names: string[] = []
  let skipped = 0
  let more = false
  const options = { encoding: 'buffer', bufferSize: hostLimits.namesPerRead } as unknown as {
    bufferSize: number
  }
  await directory.own(async (path) => {
    for await (const entry of (await fs.opendir(path, options)) as AsyncIterable<unknown>) {
      const name = (entry as Dirent<Buffer>).name
      more = names.length + skipped === maxNames
      if (more) return
      if (isUtf8(name)) names.push(name.toString())
      else skipped++
    }
  })
  return { names: names.sort(), skipped, more }
}

/** Returns the current stats of these names, in the same order. Names that no longer exist are omitted. */
export async function statAll(
  directory: DirectoryHandle,
  names: readonly string[],
): Promise<[name: string, stat: BigIntStats][]> {
  const stats = await Promise.all(names.map((name) => directory.stat(name)))
  return names.flatMap((name, index) => (stats[index] === undefined ? [] : [[name, stats[index]]]))
}

/** Splits items into groups to examine concurrently. */
export function* groups<T>(
  items: readonly T[],
  size: number = hostLimits.statsAtOnce,
): Generator<readonly T[]> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size)
}
