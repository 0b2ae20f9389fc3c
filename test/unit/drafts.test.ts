import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openEngine, type Engine, type Session, type Storage } from '../../src/index.js'
import { storages } from '../support/storages.js'

describe.each(storages)('a draft on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'draft-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create({ files: { '/a': 'one', '/b': 'two', '/d/c': 'three' } })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  /** Opens the engine again, on a storage that keeps the session. */
  async function reopened(): Promise<void> {
    if (!lasting) return
    await engine.close()
    engine = await openEngine({ storage })
    session = await engine.sessions.open(session.id)
  }

  const typesOf = async (): Promise<string[]> =>
    (await session.events.list()).events.map(({ eventType }) => eventType.split('.').at(-1)!)
  const read = (path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')

  test('makes all of its changes one event, which undo undoes as a whole', async () => {
    await using draft = await session.draft()
    draft.fs.writeFileSync('/a', 'ONE')
    draft.fs.mkdirSync('/new')
    draft.fs.renameSync('/b', '/new/b')
    draft.fs.symlinkSync('../a', '/new/link')
    draft.fs.chmodSync('/d/c', 0o600)
    await draft.text.edit({ path: '/d/c', oldText: 'three', newText: '3' })
    expect(await read('/a')).toBe('one')
    const { eventId, changes, changeCount } = await draft.commit()
    expect(changes.map(({ path, change }) => `${change} ${path}`)).toEqual([
      'modified /a',
      'removed /b',
      'modified /d/c',
      'added /new',
      'added /new/b',
      'added /new/link',
    ])
    expect(changeCount).toBe(6)
    expect(await typesOf()).toEqual(['CreateSession', 'ApplyBatch'])
    expect((await session.events.list()).events.at(-1)!.eventId).toBe(eventId)
    expect(await Promise.all([read('/new/link'), read('/new/b'), read('/d/c')])).toEqual(['ONE', 'two', '3'])
    await reopened()
    expect(await Promise.all([read('/new/link'), read('/new/b'), read('/d/c')])).toEqual(['ONE', 'two', '3'])
    expect((await engine.check()).findings).toEqual([])
    expect((await session.undo()).count).toBe(1)
    expect((await session.fs.promises.readdir('/', { recursive: true })).toSorted()).toEqual([
      'a',
      'b',
      'd',
      'd/c',
    ])
    expect(await Promise.all([read('/a'), read('/d/c')])).toEqual(['one', 'three'])
  })

  test('leaves no trace when it is not committed, and no session', async () => {
    {
      await using draft = await session.draft()
      await draft.fs.promises.rm('/d', { recursive: true })
      await draft.fs.promises.writeFile('/a', 'ONE')
    }
    expect(await read('/d/c')).toBe('three')
    expect(await typesOf()).toEqual(['CreateSession'])
    await expect
      .poll(async () => (await engine.sessions.list()).sessions.map(({ id }) => id))
      .toEqual([session.id])
  })

  test('without changes makes no event', async () => {
    await using draft = await session.draft()
    expect(await draft.fs.promises.readFile('/a', 'utf8')).toBe('one')
    expect(await draft.commit()).toEqual({ eventId: '', changes: [], changeCount: 0 })
    expect(await typesOf()).toEqual(['CreateSession'])
  })

  test('keeps changes of other paths that the session made meanwhile', async () => {
    await using draft = await session.draft()
    await session.files.write({ path: '/d/own', content: 'own' })
    draft.fs.writeFileSync('/d/c', '3')
    expect(draft.fs.existsSync('/d/own')).toBe(false)
    const { changes } = await draft.commit()
    expect(changes.map(({ path }) => path)).toEqual(['/d/c'])
    expect(await Promise.all([read('/d/c'), read('/d/own')])).toEqual(['3', 'own'])
  })

  test('rejects a change of a path that the session changed meanwhile, and changes nothing', async () => {
    await using draft = await session.draft()
    draft.fs.writeFileSync('/a', 'one\nfrom the draft')
    draft.fs.writeFileSync('/other', 'x')
    await session.files.write({ path: '/a', content: 'from the session\none' })
    const before = (await session.manifest()).manifestHash
    await expect(draft.commit()).rejects.toMatchObject({
      reason: 'MERGE_CONFLICT',
      details: { paths: '["/a"]', conflictCount: '1' },
    })
    expect((await session.manifest()).manifestHash).toBe(before)
    expect((await session.get()).status).toBe('SESSION_STATUS_ACTIVE')
  })

  test('can be read after its commit, and not changed', async () => {
    await using draft = await session.draft()
    draft.fs.writeFileSync('/a', 'ONE')
    const first = await draft.commit()
    expect(await draft.commit()).toBe(first)
    expect(await draft.files.contentHash('/a')).toBe(await session.files.contentHash('/a'))
    expect(() => draft.fs.writeFileSync('/a', '1')).toThrow(expect.objectContaining({ code: 'EROFS' }))
    await expect(draft.files.delete({ path: '/a' })).rejects.toMatchObject({ reason: 'READ_ONLY' })
  })

  test('has the permissions and the group of its handle', async () => {
    const reader = session.narrow({ without: ['files.write'] })
    await expect(reader.draft()).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' })
    await using draft = await session.group('turn 3').draft()
    draft.fs.writeFileSync('/a', 'ONE')
    await draft.commit()
    expect((await session.events.list()).events.at(-1)!.details).toMatchObject({ group: 'turn 3' })
  })

  test('of a handle without the right to read does not read, not even by borrowing content', async () => {
    const hash = await session.files.contentHash('/a')
    await using draft = await session.narrow({ without: ['files.read'] }).draft()
    const denied = { reason: 'PERMISSION_DENIED', details: { capability: 'files.read' } }
    await expect(draft.files.read({ path: '/a' })).rejects.toMatchObject(denied)
    const segments = [{ borrowed: { offset: 0, length: 1, hash } }]
    await expect(
      draft.files.patchSegments({ mutations: [{ path: '/copy', segments }] }),
    ).rejects.toMatchObject(denied)
    await draft.files.write({ path: '/copy', content: 'x' })
  })
})
