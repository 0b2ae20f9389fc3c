import { open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { randomWords } from '../../src/testing.js'
import { Victim, type Fate } from './damage.js'

export interface BitrotOptions {
  readonly flips: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface BitrotResult {
  flips: number
  /** The number of damaged copies by outcome. */
  readonly copies: Record<Fate, number>
}

const flipsPerCopy = 3
const copiesPerVictim = 500
const callsPerVictim = 120

/** Flips bits and bytes in copies of a store, and reads all of their contents. */
export async function runBitrot(options: BitrotOptions): Promise<BitrotResult> {
  const random = randomWords(options.seed)
  const result: BitrotResult = { flips: 0, copies: { refused: 0, reported: 0, harmless: 0, wrong: 0 } }
  while (result.flips < options.flips) {
    const victim = await Victim.make(random, { calls: callsPerVictim })
    for (let copies = 0; copies < copiesPerVictim && result.flips < options.flips; copies++) {
      const places: string[] = []
      const { fate, text } = await victim.damage(async (directory) => {
        const files = await filesIn(directory)
        for (let i = 0; i < flipsPerCopy; i++) places.push(await flip(files, random))
      })
      result.flips += flipsPerCopy
      result.copies[fate]++
      if (fate === 'wrong') options.onProgress(`WRONG after ${places.join(', ')}: ${text}`)
      if ((copies + 1) % 100 === 0)
        options.onProgress(`${result.flips}/${options.flips} ${JSON.stringify(result.copies)}`)
    }
    await victim.remove()
  }
  return result
}

/** Excludes the lock, which has no bytes. */
export async function filesIn(directory: string): Promise<string[]> {
  const files: string[] = []
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile()) files.push(path)
  }
  return files.sort()
}

/** Picks large files as often as small ones, since each file has its own kind of content. */
async function flip(files: readonly string[], random: () => number): Promise<string> {
  for (;;) {
    const path = files[random() % files.length]!
    const { size } = await stat(path)
    if (size === 0) continue
    // The first bytes of a file hold the structures that everything else depends on.
    const at = random() % 3 === 0 ? random() % Math.min(size, 256) : random() % size
    const file = await open(path, 'r+')
    try {
      const bytes = Buffer.alloc(1)
      await file.read(bytes, 0, 1, at)
      bytes[0]! ^= random() % 2 === 0 ? 1 << (random() % 8) : 1 + (random() % 255)
      await file.write(bytes, 0, 1, at)
    } finally {
      await file.close()
    }
    return `${path.split('/').slice(-2).join('/')} at ${at}`
  }
}
