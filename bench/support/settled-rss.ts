import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'

/**
 * The resident memory of the process after garbage collection. On Linux it excludes mapped files, because the system
 * can free their pages when it needs memory.
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
