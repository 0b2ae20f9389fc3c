/** The decisions of the permission checks alone, for every action and capability. */
import { describe, expect, test } from 'vitest'
import { operations } from '../../src/engine/contract.js'
import { nativeActions } from '../../src/engine/operations/native.js'
import {
  capabilities,
  type Capability,
  type Condition,
  type Needs,
} from '../../src/engine/operations/operation.js'
import { eventTypes } from '../../src/engine/records/event.js'
import { Permissions, type Authorize } from '../../src/engine/session/access/permissions.js'
import { detailsFor } from '../../src/engine/session/history/event-details.js'
import { openEngine, type Action, type EngineError } from '../../src/index.js'

const table: Readonly<Record<string, Needs>> = { ...operations, ...nativeActions }
const actions = Object.keys(table) as Action[]
const conditions: readonly Condition[] = ['checkpoint', 'borrowed', 'otherSession', 'source']
const caller = { tenant: 'T', principal: 'P' }
const resource = { sessionId: 'S' }

function refused(act: () => void): boolean {
  try {
    act()
    return false
  } catch (error) {
    if ((error as EngineError).reason === 'PERMISSION_DENIED') return true
    throw error
  }
}

describe('permissions', () => {
  test.each(capabilities)('without %s deny exactly the actions and conditions that need it', (capability) => {
    const permissions = new Permissions(caller, undefined).without({ without: [capability] })
    expect([permissions.has(capability), permissions.open]).toEqual([false, false])
    for (const action of actions) {
      const needs = table[action]!
      const isDenied = needs.capabilities.includes(capability)
      expect(permissions.allows(action, resource), action).toBe(!isDenied)
      expect(
        refused(() => permissions.check(action, resource)),
        action,
      ).toBe(isDenied)
      for (const condition of conditions)
        expect(
          refused(() => permissions.checkWhen(action, condition)),
          `${action} ${condition}`,
        ).toBe(needs.when?.[condition]?.includes(capability) ?? false)
    }
  })

  test('stay narrow when they are narrowed again, and leave the wider ones unchanged', () => {
    const all = new Permissions(caller, undefined)
    const once = all.without({ without: ['secrets'] })
    const twice = once.without({ without: ['bus', 'bus'] })
    const has = (one: Permissions): boolean[] =>
      (['secrets', 'bus', 'cache'] as const).map((capability) => one.has(capability))
    expect([all, once, twice].map(has)).toEqual([
      [true, true, true],
      [false, true, true],
      [false, false, true],
    ])
    expect([all, once, all.without({ without: [] })].map(({ open }) => open)).toEqual([true, false, true])
  })

  test('ask authorize with the caller, the action and the resource, also after narrowing', () => {
    const asked: Parameters<Authorize>[] = []
    const authorize: Authorize = (...question) => asked.push(question) > 0
    const permissions = new Permissions({ ...caller, more: 1 } as typeof caller, authorize)
    const narrow = permissions.without({ without: ['secrets'] })
    expect([permissions.open, narrow.open]).toEqual([false, false])
    for (const one of [permissions, narrow]) {
      one.check('readFile', resource)
      expect(one.allows('readFile', resource)).toBe(true)
    }
    expect(asked).toEqual(Array.from({ length: 4 }, () => [caller, 'readFile', resource]))
    expect(refused(() => narrow.check('putSecret', resource))).toBe(true)
    expect(narrow.allows('putSecret', resource)).toBe(false)
  })

  test.each([false, undefined, 1, 'yes', Promise.resolve(true)])('deny with the answer %s', (answer) => {
    const permissions = new Permissions(caller, () => answer as boolean)
    expect(refused(() => permissions.check('readFile', resource))).toBe(true)
    expect(permissions.allows('readFile', resource)).toBe(false)
  })

  test('pass on an error of authorize in a check, and count it as a refusal elsewhere', () => {
    const permissions = new Permissions(caller, () => {
      throw new Error('no answer')
    })
    expect(() => permissions.check('readFile', resource)).toThrow('no answer')
    expect(permissions.allows('readFile', resource)).toBe(false)
  })
})

describe('the details of events', () => {
  const needed: Readonly<Record<string, readonly Capability[]>> = {
    SessionService: ['files.read'],
    PersistenceService: ['files.read'],
    FileSystemService: ['files.read'],
    AnnotationService: ['annotations', 'files.read'],
    OversightService: ['approvals'],
    CollaborationService: ['locks'],
    HealthService: ['health'],
    SecretsService: ['secrets'],
    UnderlaySourceService: ['sources'],
  }
  const types = [...Object.values(eventTypes), 'v9.FutureService.Unknown' as typeof eventTypes.undo]

  test.each(types)('of type %s are for readers with the capabilities of their service', (type) => {
    const { [type.split('.')[1]!]: own = capabilities } = needed
    for (const capability of capabilities) {
      const reader = { has: (one: Capability) => one !== capability, allows: () => true }
      expect(detailsFor(reader, type, { a: 1 }), capability).toEqual(own.includes(capability) ? {} : { a: 1 })
    }
  })

  test('have the id of a lock only for a reader that may force locks, and are copies', () => {
    const details = { path: '/a', lockId: 'L', paths: ['/b'] }
    const shownTo = (isAllowed: boolean): Record<string, unknown> =>
      detailsFor(
        { has: () => true, allows: (action) => isAllowed === (action === 'forceUnlockFile') },
        eventTypes.lockFile,
        details,
      )
    expect(shownTo(false)).toEqual({ path: '/a', paths: ['/b'] })
    const copy = shownTo(true)
    expect(copy).toEqual(details)
    expect(copy['paths']).not.toBe(details.paths)
  })
})

describe('a draft of a narrowed handle', () => {
  test('may not borrow content that the handle may not read', async () => {
    await using engine = await openEngine()
    const session = await engine.sessions.create({ files: { '/a': 'hidden' } })
    const borrowed = { offset: 0, length: 6, hash: await session.files.contentHash('/a') }
    const mutation = { path: '/copy', segments: [{ borrowed }] }
    await using blind = await session.narrow({ without: ['files.read'] }).draft()
    await using open = await session.draft()
    for (const { files } of [blind, open]) {
      const isDenied = files === blind.files
      const attempts = [
        files.patchSegments({ mutations: [mutation] }),
        files.batch([{ segmentWrite: mutation }]),
      ]
      const reasons = (await Promise.allSettled(attempts)).map((one) =>
        one.status === 'rejected' ? (one.reason as EngineError).reason : one.status,
      )
      expect(reasons).toEqual(Array.from(attempts, () => (isDenied ? 'PERMISSION_DENIED' : 'fulfilled')))
    }
  })
})
