/** Bundles that claim something about other times or other principals. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  ApprovalStatus,
  openEngine,
  type Approval,
  type Engine,
  type EngineOptions,
} from '../../src/index.js'
import { bytesOf, putTogether, takeApart } from '../support/bundle-file.js'

const opened: Engine[] = []
let granted: Approval

beforeEach(async () => {
  const session = await (await open()).sessions.create()
  await session.approvals.grant(await session.approvals.request())
  ;[granted] = (await session.approvals.list()).approvals as [Approval]
})

afterEach(async () => {
  for (const engine of opened.splice(0)) await engine.close()
})

async function open(options: EngineOptions = {}): Promise<Engine> {
  const engine = await openEngine(options)
  opened.push(engine)
  return engine
}

/** A bundle of a session with this approval, which nothing granted. */
async function claiming(approval: Partial<Approval>): Promise<Buffer> {
  const session = await (await open()).sessions.create({ files: { '/a': 'one' } })
  const parts = await takeApart(await bytesOf(session.exportBundle()))
  const { sessionId: _, ...claimed } = { ...granted, ...approval }
  parts.texts.approvals.push(claimed)
  return putTogether(parts)
}

test('an engine without self approval takes no approvals from a bundle', async () => {
  const bundle = await claiming({ requestedBy: 'ann', decidedBy: 'bob' })
  const approvalsIn = async (options: EngineOptions): Promise<readonly Approval[]> => {
    const ann = (await open(options)).as({ principal: 'ann' })
    return (await (await ann.sessions.importBundle(bundle)).approvals.list()).approvals
  }
  expect(await approvalsIn({})).toMatchObject([{ status: ApprovalStatus.GRANTED, decidedBy: 'bob' }])
  expect(await approvalsIn({ approvals: { selfApproval: false } })).toEqual([])
})

test('ids of a far future change no other ids', async () => {
  const approvalId = 'f'.repeat(36)
  const engine = await open()
  const mallory = engine.as({ tenant: 'mallory' })
  const session = await mallory.sessions.importBundle(await claiming({ approvalId }))
  const next = await session.approvals.request()
  // The order of creation is kept in this session.
  expect(next.approvalId > approvalId).toBe(true)
  const before = await engine.sessions.create()
  const after = await engine.sessions.create()
  expect(before.id < after.id && after.id < approvalId).toBe(true)
  expect((await engine.sessions.list()).sessions.map(({ id }) => id)).toEqual([before.id, after.id])
})

test('an id after which there is no further one is rejected', async () => {
  const engine = await open()
  await expect(
    engine.sessions.importBundle(await claiming({ approvalId: 'z'.repeat(36) })),
  ).rejects.toMatchObject({ reason: 'INVALID_BUNDLE' })
})
