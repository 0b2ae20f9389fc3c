import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  AnnotationStatus,
  ApprovalStatus,
  limits,
  openEngine,
  SessionStatus,
  type Annotation,
  type Engine,
  type Session,
  type Storage,
} from '../../src/index.js'
import { callOperation } from '../../src/engine/contract.js'
import { fixedEnvironment } from '../../src/testing.js'
import { lowerBound } from '../support/lower-bound.js'
import { fewStorages } from '../support/storages.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })
const unknownId = '0'.repeat(36)
const emptyHash = `sha256:${'0'.repeat(64)}`

describe.each(fewStorages)('review on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session
  let bob: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'review-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    await use((await engine.sessions.create({ files: { '/a': 'one', '/d/b': 'two' } })).id)
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  async function use(id: string): Promise<void> {
    session = await engine.as({ principal: 'ann' }).sessions.open(id)
    bob = await engine.as({ principal: 'bob' }).sessions.open(id)
  }

  async function reload(): Promise<void> {
    if (!lasting) return
    await engine.close()
    engine = await openEngine({ storage })
    await use(session.id)
  }

  const status = async (): Promise<SessionStatus> => (await session.get()).status
  const lastEvent = async (): Promise<unknown> => {
    const { eventType, principal, details } = (await session.events.list()).events.at(-1)!
    return { eventType, principal, details }
  }

  describe('annotations', () => {
    const add = async (filePath: string, by = session): Promise<Annotation> => {
      const expectedContentHash = await session.files.contentHash(filePath)
      return (await by.annotations.add({ filePath, lineNumber: 3, expectedContentHash, comment: 'why?' }))
        .annotation
    }

    test('can be added, listed, resolved and reopened', async () => {
      const contentHash = await session.files.contentHash('/a')
      const first = await add('/a', bob)
      expect(first).toEqual({
        id: first.id,
        sessionId: session.id,
        filePath: '/a',
        lineNumber: 3,
        contentHash,
        comment: 'why?',
        reviewerId: 'bob',
        status: AnnotationStatus.OPEN,
        createdAt: first.createdAt,
      })
      expect(await lastEvent()).toEqual({
        eventType: 'v1.AnnotationService.AddAnnotation',
        principal: 'bob',
        details: { filePath: '/a', annotationId: first.id },
      })
      const second = await add('/d/b')
      await reload()
      expect((await session.annotations.list()).annotations).toEqual([first, second])
      expect((await session.annotations.list({ filePath: '/d/b' })).annotations).toEqual([second])
      expect((await session.annotations.list({ filePath: '/d' })).annotations).toEqual([])
      for (const newStatus of [AnnotationStatus.RESOLVED, AnnotationStatus.OPEN]) {
        const request = { annotationId: first.id, newStatus }
        const { annotation } = await session.annotations.setStatus(request)
        expect(annotation).toEqual({ ...first, status: newStatus })
        const { events } = await session.events.list()
        expect(await session.annotations.setStatus(request)).toEqual({ annotation })
        expect((await session.events.list()).events).toEqual(events)
        expect(await lastEvent()).toEqual({
          eventType: 'v1.AnnotationService.UpdateAnnotationStatus',
          principal: 'ann',
          details: request,
        })
        await reload()
        expect((await session.annotations.list()).annotations).toEqual([annotation, second])
      }
    })

    test('require the content that the reviewer saw', async () => {
      const expectedContentHash = await session.files.contentHash('/a')
      await session.files.write({ path: '/a', content: 'changed' })
      const request = { filePath: '/a', expectedContentHash }
      await expect(session.annotations.add(request)).rejects.toEqual(refused('HASH_MISMATCH'))
      await expect(session.annotations.add({ ...request, expectedContentHash: '' })).rejects.toEqual(
        refused('HASH_MISMATCH'),
      )
      expect((await session.annotations.list()).annotations).toEqual([])
      const large = Buffer.alloc(3 * 2 ** 20, 'x')
      await session.files.write({ path: '/large', content: large })
      await session.files.patchSegments({
        mutations: [{ path: '/large', segments: [{ hole: { offset: 5, length: 2 ** 20 } }] }],
      })
      await reload()
      expect((await add('/large')).contentHash).toBe(await session.files.contentHash('/large'))
    })

    test('stay when the file changes, and are not inherited by forks', async () => {
      const { id } = await add('/a')
      await session.checkpoint({ checkpointLabel: 'c' })
      await session.files.delete({ path: '/a' })
      await session.restore({ checkpointLabel: 'c' })
      const fork = await session.fork()
      expect((await fork.annotations.list()).annotations).toEqual([])
      const other = { annotationId: id, newStatus: AnnotationStatus.RESOLVED }
      await expect(fork.annotations.setStatus(other)).rejects.toEqual(refused('ANNOTATION_NOT_FOUND'))
      expect((await session.annotations.list()).annotations).toHaveLength(1)
    })

    test.each([
      [{ filePath: 'a' }, 'INVALID_ARGUMENT'],
      [{ filePath: '/none' }, 'PATH_NOT_FOUND'],
      [{ filePath: '/d' }, 'IS_A_DIRECTORY'],
      [{ lineNumber: -1 }, 'INVALID_ARGUMENT'],
      [{ lineNumber: 1.5 }, 'INVALID_ARGUMENT'],
      [{ expectedContentHash: undefined }, 'INVALID_ARGUMENT'],
      [{ expectedContentHash: 'sha256:x' }, 'INVALID_ARGUMENT'],
      [{ expectedContentHash: emptyHash }, 'HASH_MISMATCH'],
      [{ comment: 'x'.repeat(limits.messageBytes + 1) }, 'TOO_LARGE'],
      [{ comment: 7 }, 'INVALID_ARGUMENT'],
    ])('reject %o', async (change, reason) => {
      const expectedContentHash = await session.files.contentHash('/a')
      const request = { filePath: '/a', expectedContentHash, ...change }
      await expect(session.annotations.add(request as never)).rejects.toEqual(refused(reason))
      expect((await session.annotations.list()).annotations).toEqual([])
      expect((await session.events.list()).events).toHaveLength(1)
    })

    test('reject an unknown status and an unknown id', async () => {
      const { id: annotationId } = await add('/a')
      const set = (request: object): Promise<unknown> => session.annotations.setStatus(request as never)
      await expect(set({ annotationId, newStatus: 'DONE' })).rejects.toEqual(refused('INVALID_ARGUMENT'))
      await expect(set({ annotationId, newStatus: 'toString' })).rejects.toEqual(refused('INVALID_ARGUMENT'))
      for (const id of [unknownId, '__proto__'])
        await expect(set({ annotationId: id, newStatus: AnnotationStatus.OPEN })).rejects.toEqual(
          refused('ANNOTATION_NOT_FOUND'),
        )
    })
  })

  describe('approvals', () => {
    test('keep the session waiting until the last one is decided', async () => {
      expect(await status()).toBe(SessionStatus.ACTIVE)
      const details = { summary: 'all of it', changedFiles: ['/a', '/__proto__'] }
      const one = await session.approvals.request({ details })
      expect(await lastEvent()).toEqual({
        eventType: 'v1.OversightService.RequestApproval',
        principal: 'ann',
        details: { approvalId: one.approvalId, reason: 'COMMIT_TO_MAIN', ...details },
      })
      const two = await session.approvals.request({ reason: 'OTHER_2' })
      expect(await status()).toBe(SessionStatus.PENDING_APPROVAL)
      await reload()
      await bob.approvals.grant(one)
      expect(await lastEvent()).toEqual({
        eventType: 'v1.OversightService.GrantApproval',
        principal: 'bob',
        details: one,
      })
      expect(await status()).toBe(SessionStatus.PENDING_APPROVAL)
      await reload()
      await bob.approvals.deny({ ...two, feedback: 'no' })
      expect(await lastEvent()).toEqual({
        eventType: 'v1.OversightService.DenyApproval',
        principal: 'bob',
        details: { ...two, feedback: 'no' },
      })
      expect(await status()).toBe(SessionStatus.ACTIVE)
      await reload()
      expect(await status()).toBe(SessionStatus.ACTIVE)
      const { approvals } = await session.approvals.list()
      expect(approvals).toMatchObject([
        { ...one, ...details, status: ApprovalStatus.GRANTED, requestedBy: 'ann', decidedBy: 'bob' },
        { ...two, reason: 'OTHER_2', status: ApprovalStatus.DENIED, feedback: 'no' },
      ])
    })

    test('are decided only once, by the first caller', async () => {
      const { approvalId } = await session.approvals.request()
      const results = await Promise.allSettled([
        session.approvals.grant({ approvalId }),
        bob.approvals.deny({ approvalId }),
        session.approvals.grant({ approvalId }),
      ])
      expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'rejected'])
      await reload()
      for (const decide of [
        session.approvals.grant.bind(session.approvals),
        bob.approvals.deny.bind(bob.approvals),
      ])
        await expect(decide({ approvalId })).rejects.toMatchObject({
          reason: 'APPROVAL_NOT_PENDING',
          status: 9,
        })
      expect((await session.events.list()).events).toHaveLength(3)
      expect(await status()).toBe(SessionStatus.ACTIVE)
    })

    test('do not block work, and stay pending across a restore and a commit', async () => {
      await session.checkpoint({ checkpointLabel: 'c' })
      const { approvalId } = await session.approvals.request()
      await session.files.write({ path: '/a', content: 'more' })
      await session.restore({ checkpointLabel: 'c' })
      expect(await status()).toBe(SessionStatus.PENDING_APPROVAL)
      const { commitId } = await session.commit({ message: 'kept in the engine' })
      expect(commitId).toMatch(/^[0-9a-f]{40}$/)
      expect(await status()).toBe(SessionStatus.PENDING_APPROVAL)
      await reload()
      await session.approvals.grant({ approvalId })
      expect(await status()).toBe(SessionStatus.ACTIVE)
      const fork = await session.fork()
      expect((await fork.approvals.list()).approvals).toEqual([])
      await expect(fork.approvals.grant({ approvalId })).rejects.toEqual(refused('APPROVAL_NOT_FOUND'))
    })

    test('of a parent do not make a fork wait', async () => {
      await session.approvals.request()
      const fork = await session.fork()
      expect((await fork.get()).status).toBe(SessionStatus.ACTIVE)
      await fork.approvals.grant(await fork.approvals.request())
      expect((await fork.get()).status).toBe(SessionStatus.ACTIVE)
    })

    test.each([
      [{ reason: 'lower' }, 'INVALID_ARGUMENT'],
      [{ reason: '' }, 'INVALID_ARGUMENT'],
      [{ details: 7 }, 'INVALID_ARGUMENT'],
      [{ details: { changedFiles: 'x' } }, 'INVALID_ARGUMENT'],
      [{ details: { changedFiles: ['relative'] } }, 'INVALID_ARGUMENT'],
      [{ details: { changedFiles: Array.from({ length: 10_001 }, () => '/a') } }, 'TOO_LARGE'],
      [{ details: { summary: 'x'.repeat(limits.messageBytes + 1) } }, 'TOO_LARGE'],
    ])('reject request %#', async (request, reason) => {
      await expect(session.approvals.request(request as never)).rejects.toEqual(refused(reason))
      expect(await status()).toBe(SessionStatus.ACTIVE)
    })
  })

  describe('an engine without selfApproval', () => {
    const openStrict = async (): Promise<void> => {
      await engine.close()
      engine = await openEngine({ storage, approvals: { selfApproval: false } })
      await use(lasting ? session.id : (await engine.sessions.create()).id)
    }

    beforeEach(openStrict)

    test('only lets another principal grant, also after reopening', async () => {
      if (lasting) await session.approvals.request()
      if (lasting) await openStrict()
      else await session.approvals.request()
      const { approvalId } = (await session.approvals.list()).approvals[0]!
      const again = await engine.as({ principal: 'ann' }).sessions.open(session.id)
      const narrow = session.narrow({ without: ['commit'] })
      const { length } = (await session.events.list()).events
      for (const { approvals } of [session, again, narrow])
        await expect(approvals.grant({ approvalId })).rejects.toMatchObject({
          reason: 'PERMISSION_DENIED',
          details: { approvalId, requestedBy: 'ann' },
        })
      const call = callOperation(engine.as({ principal: 'ann' }), 'grantApproval', {
        sessionId: session.id,
        approvalId,
      })
      await expect(call).rejects.toEqual(refused('PERMISSION_DENIED'))
      expect(await status()).toBe(SessionStatus.PENDING_APPROVAL)
      expect((await session.events.list()).events).toHaveLength(length)
      await bob.approvals.grant({ approvalId })
      await expect(session.approvals.grant({ approvalId })).rejects.toEqual(refused('APPROVAL_NOT_PENDING'))
    })

    test('lets the requesting principal withdraw its request', async () => {
      const { approvalId } = await session.approvals.request()
      await session.approvals.deny({ approvalId, feedback: 'not yet' })
      expect((await session.approvals.list()).approvals[0]).toMatchObject({ decidedBy: 'ann' })
    })
  })

  test('approvals and annotations have exact limits, also after a reload', async () => {
    lowerBound(limits, 'approvals', 3)
    // Two requests with two paths each.
    lowerBound(limits, 'approvalBytes', 30 + 4 * limits.approvalPathBytes)
    lowerBound(limits, 'annotations', 3)
    lowerBound(limits, 'annotationBytes', 10)
    const ten = { reason: 'A', details: { summary: 'éé', changedFiles: ['/a', '/é'] } }
    const request = (of: object): Promise<{ approvalId: string }> => session.approvals.request(of)
    const [one, two] = [await request(ten), await request(ten)]
    await session.approvals.deny({ ...one, feedback: 'ééééé' })
    await reload()
    await expect(request({ reason: 'A' })).rejects.toEqual(refused('QUOTA'))
    await expect(session.approvals.deny({ ...two, feedback: 'f' })).rejects.toEqual(refused('QUOTA'))
    expect((await session.approvals.list()).approvals[1]).toMatchObject({ status: ApprovalStatus.PENDING })
    await session.approvals.deny(two)
    lowerBound(limits, 'approvals', 2)
    await expect(request({ reason: 'A' })).rejects.toMatchObject({ details: { limit: '2' } })

    const expectedContentHash = await session.files.contentHash('/a')
    const annotate = (comment: string): ReturnType<Session['annotations']['add']> =>
      session.annotations.add({ filePath: '/a', expectedContentHash, comment })
    const { annotation } = await annotate('ééé')
    await session.annotations.setStatus({ annotationId: annotation.id, newStatus: AnnotationStatus.RESOLVED })
    await annotate('1234')
    await reload()
    await expect(annotate('1')).rejects.toMatchObject({ details: { limit: '10' } })
    await annotate('')
    await expect(annotate('')).rejects.toMatchObject({ details: { limit: '3' } })
  })

  test.runIf(!lasting)('a session accepts at most 10,000 approvals', async () => {
    for (let i = 0; i < limits.approvals; i++) await session.approvals.request()
    await expect(session.approvals.request()).rejects.toEqual(refused('QUOTA'))
    expect((await session.approvals.list()).approvals).toHaveLength(limits.approvals)
  })

  test('the texts and paths of approvals have a limit, and each can still be decided', async () => {
    const directory = `/${`${'d'.repeat(250)}/`.repeat(15)}`
    const changedFiles = Array.from({ length: 4000 }, (_, i) => `${directory}${i}`)
    const details = { changedFiles, summary: 's'.repeat(limits.messageBytes) }
    const length =
      changedFiles.join('').length + changedFiles.length * limits.approvalPathBytes + details.summary.length
    const count = Math.floor(limits.approvalBytes / length)
    const { approvalId } = await session.approvals.request({ details })
    for (let i = 1; i < count; i++) await session.approvals.request({ details })
    await expect(session.approvals.request({ details })).rejects.toEqual(refused('QUOTA'))
    const paths = Math.floor(
      (limits.approvalBytes - count * length) / (directory.length + 4 + limits.approvalPathBytes),
    )
    await session.approvals.request({ details: { changedFiles: changedFiles.slice(-paths) } })
    const feedback = 'f'.repeat(limits.messageBytes)
    await expect(session.approvals.deny({ approvalId, feedback })).rejects.toEqual(refused('QUOTA'))
    await session.approvals.deny({ approvalId })
    // A decision does not count the texts again.
    await session.approvals.request({ reason: 'SMALL' })
    expect((await session.approvals.list()).approvals).toHaveLength(count + 2)
  })

  test('short paths of approvals count with their memory', async () => {
    lowerBound(limits, 'approvalBytes', 2 ** 20)
    const request = { details: { changedFiles: Array<string>(10_000).fill('/') } }
    for (let count = 0; count < 3; count++) await session.approvals.request(request)
    await expect(session.approvals.request(request)).rejects.toEqual(refused('QUOTA'))
  })

  test('the texts of approvals and annotations count as JSON', async () => {
    lowerBound(limits, 'approvalBytes', 100)
    lowerBound(limits, 'annotationBytes', 100)
    const text = '\u0001'.repeat(20)
    await expect(session.approvals.request({ details: { summary: text } })).rejects.toEqual(refused('QUOTA'))
    const expectedContentHash = await session.files.contentHash('/a')
    const annotation = { filePath: '/a', expectedContentHash, comment: text }
    await expect(session.annotations.add(annotation)).rejects.toEqual(refused('QUOTA'))
  })

  test.each([5, null, [], { selfApproval: 'no' }])('the option approvals rejects %j', async (approvals) => {
    await expect(openEngine({ approvals: approvals as never })).rejects.toEqual(refused('INVALID_ARGUMENT'))
  })

  describe('a narrowed handle', () => {
    test('lacks the withheld permissions, and so do handles derived from it', async () => {
      const narrow = session.narrow({ without: ['approvals.decide', 'locks.force', 'commit'] })
      const { approvalId } = await narrow.approvals.request()
      await narrow.fileLocks.lock({ path: '/a', timeoutSeconds: 60 })
      const fork = await narrow.fork()
      for (const handle of [narrow, narrow.narrow({ without: [] }), fork]) {
        for (const attempt of [
          handle.approvals.grant({ approvalId }),
          handle.approvals.deny({ approvalId }),
          handle.fileLocks.forceUnlock({ path: '/a' }),
          handle.commit({ message: 'x' }),
        ])
          await expect(attempt).rejects.toEqual(refused('PERMISSION_DENIED'))
        expect((await handle.get()).capabilities).toEqual({
          commit: false,
          approvals: true,
          annotations: true,
        })
      }
      await session.approvals.grant({ approvalId })
      expect((await session.get()).capabilities.commit).toBe(true)
    })

    test('can only read, in every form', async () => {
      const reader = session.narrow({ without: ['files.write'] })
      const { fs } = reader
      expect(await fs.promises.readFile('/a', 'utf8')).toBe('one')
      await expect(fs.promises.writeFile('/a', 'x')).rejects.toMatchObject({ code: 'EACCES' })
      expect(() => fs.writeFileSync('/a', 'x')).toThrow(expect.objectContaining({ code: 'EACCES' }) as Error)
      expect(() => fs.openSync('/new', 'w')).toThrow(expect.objectContaining({ code: 'EACCES' }) as Error)
      expect(() => fs.cpSync('/a', '/c')).toThrow(expect.objectContaining({ code: 'EACCES' }) as Error)
      await expect(reader.files.batch([])).rejects.toEqual(refused('PERMISSION_DENIED'))
      expect(await session.diff().paths()).toEqual({ added: [], removed: [], modified: [] })
    })

    test.each([undefined, {}, { without: 'commit' }, { without: ['toString'] }])('rejects %j', (request) => {
      expect(() => session.narrow(request as never)).toThrow(refused('INVALID_ARGUMENT'))
    })
  })

  test('lists in creation order even if the clock went back', async () => {
    let now = Date.UTC(2030, 0, 1)
    const environment = { ...fixedEnvironment(), wallClockMs: () => now }
    const comments = ['one', 'two', 'three']
    for (const comment of comments) {
      await engine.close()
      engine = await openEngine({ storage, environment })
      if (!lasting) await use((await engine.sessions.create({ files: { '/a': 'one' } })).id)
      else await use(session.id)
      const expectedContentHash = await session.files.contentHash('/a')
      await session.annotations.add({ filePath: '/a', expectedContentHash, comment })
      await session.approvals.request({ details: { summary: comment } })
      now -= 86_400_000
    }
    await reload()
    const expected = lasting ? comments : comments.slice(-1)
    const { annotations } = await session.annotations.list()
    expect(annotations.map(({ comment }) => comment)).toEqual(expected)
    const { approvals } = await session.approvals.list()
    expect(approvals.map(({ summary }) => summary)).toEqual(expected)
  })

  test('returned objects are copies', async () => {
    const expectedContentHash = await session.files.contentHash('/a')
    const { annotation } = await session.annotations.add({ filePath: '/a', expectedContentHash })
    await session.approvals.request({ details: { changedFiles: ['/a'] } })
    const request = { annotationId: annotation.id, newStatus: AnnotationStatus.OPEN }
    const read = async () => ({
      annotations: (await session.annotations.list()).annotations,
      again: (await session.annotations.setStatus(request)).annotation,
      approvals: (await session.approvals.list()).approvals,
      events: (await session.events.list()).events,
    })
    const before = await read()
    const copy = structuredClone(before)
    const spoil = (value: unknown): void => {
      if (typeof value !== 'object' || value === null) return
      for (const part of Object.values(value)) spoil(part)
      if (Array.isArray(value)) value.push('more')
      else Object.assign(value, { status: 'other', details: 'other', comment: 'other' })
    }
    spoil([annotation, before])
    expect(await read()).toEqual(copy)
    await reload()
    expect(await read()).toEqual(copy)
  })

  test('a summary describes the changes', async () => {
    expect(await session.generateCommitSummary()).toEqual({ summary: 'No changes', changedFiles: [] })
    await session.files.write({ path: '/e/f', content: '' })
    expect(await session.generateCommitSummary()).toEqual({ summary: 'Add /e/f', changedFiles: ['/e/f'] })
    await session.files.batch([
      { write: { path: '/a', content: 'x' } },
      { delete: { path: '/d/b' } },
      ...Array.from({ length: 21 }, (_, i) => ({ write: { path: `/n/${i + 10}`, content: '' } })),
    ])
    const { summary, changedFiles } = await session.generateCommitSummary()
    expect(changedFiles).toHaveLength(24)
    expect(summary.split('\n')).toEqual([
      'Change 24 files',
      '',
      'Added:',
      '- /e/f',
      ...Array.from({ length: 19 }, (_, i) => `- /n/${i + 10}`),
      '- and 2 more',
      '',
      'Removed:',
      '- /d/b',
      '',
      'Modified:',
      '- /a',
    ])
    await session.approvals.request({ details: { summary, changedFiles } })
  })
})
