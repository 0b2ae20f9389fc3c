import { describe, expect, test } from 'vitest'
import {
  createEngine,
  EngineError,
  SessionStatus,
  type Engine,
  type Session,
} from '../../src/engine/index.js'
import { memoryStorage, type Storage } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { FailingStorage } from '../support/failing-storage.js'

const { ACTIVE, CONFLICT, PENDING_APPROVAL } = SessionStatus

/** Commits of all sessions fail because the branch moved. */
function open(storage: Storage): Promise<Engine> {
  const committer = {
    commit: () => Promise.reject(new EngineError('BRANCH_MOVED', 'the branch has moved')),
  }
  return createEngine({
    storage,
    environment: fixedEnvironment(),
    committer: () => Promise.resolve(committer),
  })
}

async function conflict(session: Session): Promise<void> {
  await expect(session.commit({ message: 'x' })).rejects.toMatchObject({ reason: 'BRANCH_MOVED' })
}

const statusOf = async (session: Session): Promise<SessionStatus> => (await session.get()).status

describe('the stored status', () => {
  test('equals the status in memory after a restore that had to load data', async () => {
    const storage = memoryStorage({ durable: true, syncReads: false })
    let engine = await open(storage)
    let session = await engine.sessions.create({ files: { '/d/a': 'x' } })
    const reopen = async (): Promise<void> => {
      await engine.close()
      engine = await open(storage)
      session = await engine.sessions.open(session.id)
    }
    await session.checkpoint({ checkpointLabel: 'one' })
    await reopen()
    await session.files.write({ path: '/d/b', content: 'y' })
    await reopen()
    const file = await session.fs.promises.open('/d/a', 'r+')
    await session.restore({ checkpointLabel: 'one' })
    await conflict(session)
    expect(await statusOf(session)).toBe(CONFLICT)
    await session.restore({ checkpointLabel: 'one' })
    expect(await statusOf(session)).toBe(ACTIVE)
    await file.close()
    await reopen()
    expect(await statusOf(session)).toBe(ACTIVE)
    await engine.close()
  })

  test('is reloaded if it could not be stored', async () => {
    const storage = new FailingStorage(memoryStorage({ durable: true }))
    const engine = await open(storage)
    const session = await engine.sessions.create()
    const attempts: readonly (readonly [act: () => Promise<unknown>, before: SessionStatus])[] = [
      [() => conflict(session), ACTIVE],
      [() => session.restore({ checkpointLabel: 'one' }), CONFLICT],
      [() => session.approvals.request(), CONFLICT],
    ]
    await session.checkpoint({ checkpointLabel: 'one' })
    for (const [act, before] of attempts) {
      if (before === CONFLICT) await conflict(session)
      storage.next = 'fail'
      await act().catch(() => undefined)
      storage.next = 'commit'
      expect(await statusOf(session)).toBe(before)
      expect((await engine.sessions.list()).sessions.map(({ status }) => status)).toEqual([before])
    }
    const { approvalId } = await session.approvals.request()
    storage.next = 'fail'
    await expect(session.approvals.grant({ approvalId })).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    storage.next = 'commit'
    expect(await statusOf(session)).toBe(PENDING_APPROVAL)
    await session.approvals.grant({ approvalId })
    expect(await statusOf(session)).toBe(ACTIVE)
    await engine.close()
  })
})
