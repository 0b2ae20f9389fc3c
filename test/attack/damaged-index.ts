import { cp, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { randomWords } from '../../src/testing.js'
import type { AttackOptions, AttackResult } from './attacks.js'
import type { Ask, ReadReport } from './damaged-index-child.js'
import { AskedChild } from './asked-child.js'
import { damages, sectorBytes, shuffled } from './damages.js'

interface Target {
  readonly image: string
  readonly file: string
  readonly sector: number
  readonly damage: string
  /** Whether the store is open at the time of the damage. */
  readonly isOpen: boolean
}

/** Damages each sector of each index file, in a closed store and in an open one. */
export async function damageIndex({ n, seed, onProgress }: AttackOptions): Promise<AttackResult> {
  const random = randomWords(seed)
  const parent = await mkdtemp(join(tmpdir(), 'damaged-index-'))
  const counts = { aborts: 0, wrong: 0, reported: 0, unreported: 0 }
  let child = await Reader.start()
  const images = { now: join(parent, 'now'), before: join(parent, 'before') }
  await makeImages(child, images)
  const targets = shuffled(await targetsIn(Object.values(images)), random).slice(0, n === 0 ? undefined : n)
  for (const [tries, target] of targets.entries()) {
    const directory = join(parent, 'copy')
    await cp(target.image, directory, { recursive: true })
    const name = `${target.file}, sector ${target.sector} ${target.damage}, ${target.isOpen ? 'open' : 'closed'}`
    try {
      const { isDamage, isReported } = await tryOne(child, directory, target, random)
      if (isDamage) counts[isReported ? 'reported' : 'unreported']++
      if (isDamage && !isReported) onProgress(`FAILED ${name}: check did not report it`)
    } catch (error) {
      const died = child.hasEnded
      counts[died ? 'aborts' : 'wrong']++
      onProgress(`FAILED ${name}: ${died ? 'the process ended' : (error as Error).message}`)
      child.end()
      child = await Reader.start()
    }
    await rm(directory, { recursive: true })
    if ((tries + 1) % 100 === 0) onProgress(`${tries + 1}/${targets.length} ${JSON.stringify(counts)}`)
  }
  child.end()
  await rm(parent, { recursive: true })
  const { aborts, wrong, reported, unreported } = counts
  const line = `${targets.length} damages, ${aborts} aborts, ${wrong} wrong or failed reads, ${reported} reported by check, ${unreported} not`
  return { line, failed: aborts + wrong + unreported > 0 }
}

async function tryOne(
  child: Reader,
  directory: string,
  { file, sector, damage, isOpen }: Target,
  random: () => number,
): Promise<{ isDamage: boolean; isReported: boolean }> {
  const path = join(directory, 'index', file)
  const change = async (): Promise<boolean> => {
    const before = await readFile(path)
    const after = damages[damage]!(Buffer.from(before), sector * sectorBytes, random)
    await writeFile(path, after)
    return file === 'pages' && !isHarmless(before, after, isOpen)
  }
  let isDamage = false
  let found: readonly string[] = []
  if (isOpen) {
    await child.ask('open', directory)
    isDamage = await change()
    found = await child.ask('check', directory)
  } else {
    isDamage = await change()
    found = await child.ask('checkClosed', directory)
    await child.ask('open', directory)
  }
  await child.ask('read', directory, 1)
  await child.ask('write', directory, 2)
  await child.ask('read', directory, 2)
  await child.ask('close', directory)
  await child.ask('open', directory)
  await child.ask('read', directory, 2)
  // Only a check finds damage in data that is no longer needed; it then rebuilds the index.
  await child.ask('check', directory)
  const left = await child.ask('check', directory)
  await child.ask('close', directory)
  if (left.length > 0) throw new Error(`found after the index was made again: ${left.join(', ')}`)
  return { isDamage, isReported: found.includes('file index/pages') }
}

/**
 * Whether a check may ignore the change. An open store must keep everything it wrote. A closed one may end early, as
 * after a kill, or in trailing bytes that are shorter than the head of a batch.
 */
function isHarmless(before: Buffer, after: Buffer, isOpen: boolean): boolean {
  const common = Math.min(before.length, after.length)
  if (!before.subarray(0, common).equals(after.subarray(0, common))) return false
  return isOpen ? common === before.length : after.length - before.length < 16
}

/** A store of this version, and one whose index an earlier version kept in LevelDB. */
async function makeImages(child: Reader, { now, before }: { now: string; before: string }): Promise<void> {
  await child.ask('open', now)
  await child.ask('write', now, 0)
  await child.ask('write', now, 1)
  await child.ask('close', now)
  await cp(now, before, { recursive: true })
  const index = join(before, 'index')
  await rm(index, { recursive: true })
  const level = new ClassicLevel<string, Buffer>(index, { valueEncoding: 'buffer', compression: false })
  for (let n = 0; n < 40; n++) await level.put(`p${String(n).padStart(10, '0')}`, Buffer.alloc(900, n))
  await level.compactRange('', '~')
  for (let n = 0; n < 10; n++) await level.put(`q${n}`, Buffer.alloc(900, n))
  await level.close()
}

async function targetsIn(images: readonly string[]): Promise<Target[]> {
  const targets: Target[] = []
  for (const image of images) {
    for (const file of await readdir(join(image, 'index'))) {
      const { size } = await stat(join(image, 'index', file))
      for (let sector = 0; sector * sectorBytes < size; sector++)
        for (const damage of Object.keys(damages))
          for (const isOpen of [false, true])
            // Opening deletes the files of an earlier version and renames the log of LevelDB.
            if (!isOpen || file === 'pages') targets.push({ image, file, sector, damage, isOpen })
    }
  }
  return targets
}

class Reader {
  readonly #child: AskedChild

  private constructor(child: AskedChild) {
    this.#child = child
  }

  static async start(): Promise<Reader> {
    return new Reader(await AskedChild.start('damaged-index-child.js'))
  }

  get hasEnded(): boolean {
    return this.#child.hasEnded
  }

  /** @throws Error if a call was rejected, or returned data other than was written */
  async ask(ask: Ask, directory: string, round = 0): Promise<readonly string[]> {
    const { wrong, found } = await this.#child.ask<ReadReport>([ask, directory, round])
    if (wrong.length > 0) throw new Error(`${ask}: ${wrong.join(', ')}`)
    return found
  }

  end(): void {
    this.#child.end()
  }
}
