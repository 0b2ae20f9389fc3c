/** The process that repeatedly fills its own small disk; see `enospc.ts`. */
import { rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { argv } from 'node:process'
import { levelStorage } from '../../src/adapters/level/index.js'
import { randomWords } from '../../src/testing.js'
import { type FillerArguments, type FillResult } from './enospc.js'
import { Trial } from './trial.js'

const mostCalls = 4000
/** Stores are replaced when they use this share of the disk. */
const mostUsed = 0.5

const { directory, fills, seed } = JSON.parse(argv[2]!) as FillerArguments
const random = randomWords(seed)
const result: FillResult = { fills: 0, full: 0, acknowledged: 0, lost: 0, torn: 0, resumed: 0, stuck: 0 }
const ballast = join(directory, 'ballast')

for (let stores = 0; result.fills < fills && result.lost + result.torn === 0; stores++) {
  const data = join(directory, `data-${stores}`)
  const trial = new Trial(() => levelStorage(data), random, progress)
  await trial.open()
  while (result.fills < fills && (await used()) < mostUsed && !trial.verifier.damaged) {
    await fill(trial)
    if (random() % 3 === 0) {
      await trial.close()
      await trial.open()
    }
  }
  await trial.close()
  await trial.open()
  await trial.close()
  result.acknowledged += trial.verifier.acknowledged
  result.lost += trial.verifier.lost
  result.torn += trial.verifier.torn
  await rm(data, { recursive: true })
}
console.log(JSON.stringify(result))

async function fill(trial: Trial): Promise<void> {
  const { bavail, bsize } = await statfs(directory)
  const left = random() % 4 === 0 ? random() % 10_000 : random() % 2 ** 20
  await writeFile(ballast, Buffer.alloc(Math.max(0, bavail * bsize - left), 1))
  const failures = await trial.run(mostCalls, 1 + (random() % 32))
  if (failures.some(({ reason }) => reason === 'STORE_FULL')) result.full++
  await trial.requireReads()
  await rm(ballast)
  result.fills++
  if (await trial.resumes()) result.resumed++
  else {
    result.stuck++
    progress(`STUCK: ${failures[0]?.message}`)
    await trial.close()
    await trial.open()
  }
  progress(`${result.fills}/${fills} fills, ${trial.verifier.acknowledged} acknowledged in this store`)
}

async function used(): Promise<number> {
  const { blocks, bfree } = await statfs(directory)
  return 1 - bfree / blocks
}

function progress(line: string): void {
  console.log(line)
}
