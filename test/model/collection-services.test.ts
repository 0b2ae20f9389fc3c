import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import { EngineError } from '../../src/index.js'
import { diskChanges, hookedDisk, systemFailure } from '../crash/hooked-disk.js'
import { hasGit } from '../support/git-repository.js'
import {
  bundleActor,
  expiringActor,
  gitActor,
  hostActor,
  sessionActor,
  type Actor,
} from './collection-actors.js'
import { CollectionWorld, Dice, reasonAmong } from './collection-world.js'
import { isLong, seed, size } from '../support/seed.js'

/** Collects repeatedly until it is stopped, with some interruptions. */
async function collectUntil(
  world: CollectionWorld,
  dice: Dice,
  { isOver, mayFail = () => false }: { isOver: () => boolean; mayFail?: (error: unknown) => boolean },
): Promise<void> {
  while (!isOver()) {
    const interrupted = new AbortController()
    let left = dice.chance(25) ? dice.below(40) : Number.POSITIVE_INFINITY
    const onProgress = (): void => {
      if (left-- <= 0) interrupted.abort(new Error('interrupted'))
    }
    const options = { keepRedo: dice.chance(20), signal: interrupted.signal, onProgress }
    await world.engine.collect(options).catch((error: unknown) => {
      if (!interrupted.signal.aborted && !mayFail(error)) throw error
    })
    await nextTurn()
  }
}

/** The size of one run. */
const extent = size > 1 ? { phases: 3, steps: 50 } : { phases: 1, steps: isLong ? 8 : 4 }

interface Stress {
  readonly from: number
  readonly actors: readonly ((world: CollectionWorld) => Actor)[]
  readonly phases: number
  readonly steps: number
}

const everyone: Stress['actors'] = [
  sessionActor,
  sessionActor,
  bundleActor,
  expiringActor,
  hostActor,
  ...(hasGit ? [({ hostRoot }: CollectionWorld) => gitActor(hostRoot)] : []),
]

/** Runs the actors, deletes all sessions, and returns the size of the store. */
async function stress({ from, actors, phases, steps }: Stress): Promise<number> {
  const dice = new Dice(from)
  const world = new CollectionWorld()
  const rolled = (): Dice => new Dice(dice.below(2 ** 31))
  try {
    await world.open()
    const acting = actors.map((make) => make(world))
    for (let phase = 0; phase < phases; phase++) {
      let over = false
      const collecting = Promise.allSettled([collectUntil(world, rolled(), { isOver: () => over })])
      // Waits for all actors even if one fails.
      const outcomes = await Promise.allSettled(acting.map((act) => act(world, rolled(), steps)))
      over = true
      outcomes.push(...(await collecting))
      for (const one of outcomes) if (one.status === 'rejected') throw one.reason
      await world.verify()
      if (phase % 2 === 0) {
        // Closes the engine in the middle of a collection.
        const interrupted = reasonAmong(['STORE_CLOSED'], world.engine.collect())
        for (let turns = dice.below(100); turns > 0; turns--) await nextTurn()
        await world.reopen()
        await interrupted
      } else {
        // Skips the writes of an orderly close.
        await world.store.close()
        await world.open()
      }
      await world.verify()
      await world.engine.collect()
      await world.verify()
    }
    await world.deleteAll()
    await world.reopen()
    await world.engine.collect()
    return await world.store.size!()
  } catch (cause) {
    throw new Error(`FORKSPACE_SEED=${from}`, { cause })
  } finally {
    await world.remove()
  }
}

test('services and sessions behave the same while collections run', async () => {
  for (let run = 0; run < size; run++)
    expect(await stress({ from: seed + run, actors: everyone, ...extent })).toBeGreaterThan(0)
}, 3_600_000)

test('a store is nearly empty after all sessions are deleted', async () => {
  const actors = [sessionActor, bundleActor, expiringActor]
  for (let run = 0; run < size; run++)
    expect(await stress({ from: seed + run, actors, ...extent })).toBeLessThan(2 ** 20)
}, 3_600_000)

/** Whether an error means data loss, which no failure may cause. */
function isLoss(error: unknown): boolean {
  if (!(error instanceof Error)) return true
  if (error.name === 'AssertionError' || (error instanceof EngineError && error.reason === 'DATA_LOSS'))
    return true
  return error.cause !== undefined && isLoss(error.cause)
}

test.runIf(isLong)(
  'keeps all referenced data when writes fail during collections',
  async () => {
    for (let run = 0; run < size; run++) {
      const from = seed + run
      const dice = new Dice(from)
      const rolled = (): Dice => new Dice(dice.below(2 ** 31))
      let left = Number.POSITIVE_INFINITY
      let failures = 0
      const act = (): never => {
        failures++
        throw systemFailure('ENOSPC', 'write')
      }
      const disk = hookedDisk(nodeDisk, ({ operation }) => {
        if (!diskChanges.includes(operation) || left-- > 0) return undefined
        left = 20 + dice.below(400)
        // After a later failure, the created file would stay open.
        const moments =
          operation === 'create' ? (['before'] as const) : (['before', 'middle', 'after'] as const)
        return { moment: dice.pick(moments)!, part: dice.below(100) / 100, act }
      })
      const world = new CollectionWorld({ disk })
      try {
        await world.open()
        const actors = everyone.map((make) => make(world))
        for (let phase = 0; phase < extent.phases + 1; phase++) {
          let over = false
          left = dice.below(500)
          const collecting = Promise.allSettled([
            collectUntil(world, rolled(), { isOver: () => over, mayFail: (error) => !isLoss(error) }),
          ])
          const outcomes = await Promise.allSettled(actors.map((one) => one(world, rolled(), extent.steps)))
          over = true
          outcomes.push(...(await collecting))
          left = Number.POSITIVE_INFINITY
          for (const one of outcomes) if (one.status === 'rejected' && isLoss(one.reason)) throw one.reason
          await world.adopt()
          await world.verify()
          await world.engine.collect()
          await world.verify()
          await world.reopen()
          await world.verify()
        }
        await world.deleteAll()
      } catch (cause) {
        throw new Error(`FORKSPACE_SEED=${from}`, { cause })
      } finally {
        await world.remove()
      }
      expect(failures).toBeGreaterThan(0)
    }
  },
  3_600_000,
)
