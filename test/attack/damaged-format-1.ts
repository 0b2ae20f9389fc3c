import { createHash, randomUUID } from 'node:crypto'
import { cp, mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { randomWords } from '../../src/testing.js'
import { formatOneFixture, oldEntries } from '../support/format-1.js'
import { AskedChild } from './asked-child.js'
import type { AttackOptions, AttackResult } from './attacks.js'
import type { Opening } from './damaged-format-1-child.js'
import { damages, sectorBytes, shuffled } from './damages.js'
import { digestOf } from './entries-digest.js'

interface Image {
  readonly directory: string
  readonly digest: string
  readonly keys: readonly string[]
}

interface Target {
  readonly image: Image
  readonly file: string
  readonly sector: number
  readonly damage: string
}

/** Damages sectors of format 1 stores. Opening must either fail or keep all of the entries. */
export async function damageFormatOne({ n, seed, onProgress }: AttackOptions): Promise<AttackResult> {
  const random = randomWords(seed)
  const parent = await mkdtemp(join(tmpdir(), 'damaged-format-1-'))
  const counts = { aborts: 0, wrong: 0, refused: 0, opened: 0 }
  const targets = shuffled(await targetsIn(await makeImages(parent, random)), random)
  const tries = targets.slice(0, n === 0 ? undefined : n)
  let child = await AskedChild.start('damaged-format-1-child.js')
  for (const [index, target] of tries.entries()) {
    const directory = join(parent, 'copy')
    await cp(target.image.directory, directory, { recursive: true })
    try {
      counts[await tryOne(child, directory, target, random)]++
    } catch (error) {
      counts[child.hasEnded ? 'aborts' : 'wrong']++
      onProgress(
        `FAILED ${target.file}, sector ${target.sector} ${target.damage}: ${(error as Error).message}`,
      )
      child.end()
      child = await AskedChild.start('damaged-format-1-child.js')
    }
    await rm(directory, { recursive: true })
    if ((index + 1) % 100 === 0) onProgress(`${index + 1}/${tries.length} ${JSON.stringify(counts)}`)
  }
  child.end()
  await rm(parent, { recursive: true })
  const { aborts, wrong, refused, opened } = counts
  const line = `${tries.length} damages, ${aborts} aborts, ${wrong} wrong reads or errors, ${refused} refused, ${opened} opened whole`
  return { line, failed: aborts + wrong > 0 || refused === 0 }
}

async function tryOne(
  child: AskedChild,
  directory: string,
  { image, file, sector, damage }: Target,
  random: () => number,
): Promise<'refused' | 'opened'> {
  const path = join(directory, 'index', file)
  const before = await readFile(path)
  const after = damages[damage]!(Buffer.from(before), sector * sectorBytes, random)
  await writeFile(path, after)
  const opening = await child.ask<Opening>([directory, image.keys])
  if ('digest' in opening) {
    // A truncated log looks the same as after a kill.
    const isCut = damage === 'cut off' && file.endsWith('.log')
    if (opening.digest !== image.digest && !isCut) throw new Error('it was opened without some entries')
    return 'opened'
  }
  const named = namedFiles(opening.message)
  const present = await readdir(join(directory, 'index'))
  // A damaged CURRENT names a manifest that does not exist, and a truncated MANIFEST names deleted tables.
  const isNamedRightly = named.every((name) => name === file || !present.includes(name))
  if (opening.refused !== 'DATA_LOSS' || named.length === 0 || !isNamedRightly)
    throw new Error(opening.message)
  if (!after.equals(await readFile(path)) || (await readdir(directory)).includes('segments'))
    throw new Error('the refused store was changed')
  return 'refused'
}

/** The files of the index that an error names. */
function namedFiles(message: string): readonly string[] {
  return [...message.matchAll(/\bindex\/([\w-]+(?:\.\w+)?)/g)].map((match) => match[1]!)
}

/** The fixture, a store with compressed tables, and a store that has not compacted. */
async function makeImages(parent: string, random: () => number): Promise<Image[]> {
  const fixture = join(parent, 'fixture')
  await cp(join(formatOneFixture, 'store'), fixture, { recursive: true })
  const compacted = join(parent, 'compacted')
  await makeStore(compacted, random, async (db) => db.compactRange('', '~'))
  const fresh = join(parent, 'fresh')
  await makeStore(fresh, random, async () => undefined)
  const images: Image[] = []
  for (const directory of [fixture, compacted, fresh]) {
    const copy = join(parent, 'entries')
    await cp(directory, copy, { recursive: true })
    const entries = await oldEntries(copy)
    await rm(copy, { recursive: true })
    images.push({ directory, digest: digestOf(entries), keys: Object.keys(entries) })
  }
  return images
}

async function makeStore(
  directory: string,
  random: () => number,
  finish: (db: ClassicLevel<string, Buffer>) => Promise<void>,
): Promise<void> {
  await mkdir(directory)
  await writeFile(
    join(directory, 'forkspace.json'),
    `${JSON.stringify({ format: 1, storeId: randomUUID() })}\n`,
  )
  const db = new ClassicLevel<string, Buffer>(join(directory, 'index'), { valueEncoding: 'buffer' })
  for (let n = 0; n < 300; n++) {
    await db.put(`record ${n}`, Buffer.from(`value ${n} `.repeat(random() % 40)))
    if (n % 7 === 0) await db.del(`record ${random() % 300}`)
    const blob = Buffer.alloc(random() % 900, String(random()))
    if (n % 5 === 0) await db.put(`b${createHash('sha256').update(blob).digest('hex')}`, blob)
    // Reopening converts the log into a table.
    if (n % 100 === 50) {
      await db.close()
      await db.open()
    }
  }
  await finish(db)
  await db.close()
}

async function targetsIn(images: readonly Image[]): Promise<Target[]> {
  const targets: Target[] = []
  for (const image of images) {
    for (const file of await readdir(join(image.directory, 'index'))) {
      if (!/^(CURRENT|MANIFEST-.*|.*\.ldb|.*\.log)$/.test(file)) continue
      const { size } = await stat(join(image.directory, 'index', file))
      for (let sector = 0; sector * sectorBytes < size; sector++)
        for (const damage of Object.keys(damages)) targets.push({ image, file, sector, damage })
    }
  }
  return targets
}
