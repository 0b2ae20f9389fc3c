import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'

/**
 * What the process has of the machine's memory when nothing is left to be freed. Where the system tells, without
 * mapped files: LevelDB maps what it reads, and the system takes that back when it needs the memory.
 */
export async function settledRss(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    globalThis.gc!()
    await pause(100)
  }
  return process.memoryUsage.rss() - (await mappedBytes())
}

async function mappedBytes(): Promise<number> {
  const status = await readFile('/proc/self/status', 'utf8').catch(() => '')
  const kilobytes = /^RssFile:\s+(\d+) kB$/m.exec(status)?.[1]
  return kilobytes === undefined ? 0 : Number(kilobytes) * 1024
}
