import { afterEach, beforeEach, expect, test } from 'vitest'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import type { CollectProgress, EngineError, Session } from '../../src/index.js'
import { diskChanges, hookedDisk, systemFailure, type DiskCall } from '../crash/hooked-disk.js'
import { CollectionWorld } from '../model/collection-world.js'
import { stepOf } from '../support/seed.js'

let fails: ((call: DiskCall) => boolean) | undefined
let world: CollectionWorld

beforeEach(async () => {
  fails = undefined
  const disk = hookedDisk(nodeDisk, (call) =>
    fails?.(call) === true
      ? {
          moment: 'before',
          part: 0,
          act: () => {
            throw systemFailure('EIO', call.operation)
          },
        }
      : undefined,
  )
  world = new CollectionWorld({ disk })
  await world.open()
})

afterEach(() => world.remove())

/** A session whose store contains much garbage. */
async function overwritten(): Promise<Session> {
  const session = await world.engine.sessions.create()
  const model = world.add(session)
  for (let round = 0; round < 4; round++) {
    for (let i = 0; i < 8; i++) {
      const content = `${round} ${i} `.repeat(12_000)
      await session.files.write({ path: `/${i}`, content })
      model.files.set(`/${i}`, content)
    }
  }
  return session
}

test('a failure to reclaim space loses no data and stops no changes', async () => {
  for (const operation of diskChanges) {
    for (let left = 0; left < 200; left += stepOf(48) + Math.floor(left / 2)) {
      const session = await overwritten()
      let reclaiming = false
      let calls = left
      let failed = false
      let isIndex = false
      fails = (call) => {
        if (!reclaiming || failed || call.operation !== operation || calls-- > 0) return false
        failed = true
        isIndex = call.path.startsWith(`${world.directory}/data/index`)
        return true
      }
      const onProgress = ({ stage }: CollectProgress): void => {
        reclaiming ||= stage === 'reclaim'
      }
      const outcome = await world.engine.collect({ onProgress }).then(
        () => undefined,
        (error: unknown) => error,
      )
      fails = undefined
      const where = `${operation} ${left}`
      await session.files.write({ path: '/later', content: where })
      world.sessions.get(session.id)!.files.set('/later', where)
      await world.verify()
      await world.reopen()
      await world.engine.collect()
      await world.verify()
      await world.engine.sessions.delete(session.id)
      world.sessions.delete(session.id)
      if (!failed) break
      // A failure of the index alone does not fail a collection: the index is reopened.
      const reason = outcome === undefined ? outcome : (outcome as EngineError).reason
      expect([undefined, 'STORE_FAILED'].slice(isIndex ? 0 : 1), where).toContain(reason)
    }
  }
}, 120_000)
