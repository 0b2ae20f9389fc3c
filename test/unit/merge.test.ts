/* oxlint-disable vitest/no-conditional-expect -- only some storages can be reopened */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { keys, prefixEnd } from '../../src/engine/ports.js'
import {
  limits,
  memoryStorage,
  openEngine,
  SessionStatus,
  type Engine,
  type EngineOptions,
  type MergeOptions,
  type Session,
  type Storage,
} from '../../src/index.js'
import { SteppedStorage } from '../support/stepped-storage.js'
import { lowerBound } from '../support/lower-bound.js'
import { storages } from '../support/storages.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })

const text = (...lines: string[]): string => lines.map((line) => `${line}\n`).join('')
const ten = ['1', '2', '3', '4', '5', '6', '7', '8', '9', '10']

describe.each(storages)('merge on %s', (_name, makeStorage, isLasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let target: Session
  let source: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'merge-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
  })

  afterEach(async () => {
    await engine.close().catch(() => undefined)
    await rm(directory, { recursive: true, force: true })
  })

  async function reopen(options: Omit<EngineOptions, 'storage'> = {}): Promise<void> {
    await engine.close()
    engine = await openEngine({ storage, ...options })
    target = await engine.sessions.open(target.id)
  }

  async function start(files: Record<string, string>): Promise<void> {
    target = await engine.sessions.create({ files })
    source = await target.fork()
  }

  async function read(session: Session, path: string): Promise<string | undefined> {
    try {
      return Buffer.from(await session.files.read({ path })).toString()
    } catch {
      return undefined
    }
  }

  const write = (session: Session, path: string, content: string): Promise<unknown> =>
    session.files.write({ path, content })

  async function tree(session: Session): Promise<Record<string, string | undefined>> {
    const { nodes } = await session.manifest()
    const files: Record<string, string | undefined> = {}
    for (const { path, fileType } of nodes)
      files[path] = fileType === 'VFS_FILE_TYPE_FILE' ? await read(session, path) : '/'
    return files
  }

  async function newestEvent(session: Session): Promise<string> {
    const { events } = await session.events.list()
    return events.at(-1)?.eventId ?? ''
  }

  /** Moves a file, and makes the directory it goes into. */
  async function rename({ fs }: Session, from: string, to: string): Promise<void> {
    await fs.promises.mkdir(to.slice(0, to.lastIndexOf('/')) || '/', { recursive: true })
    await fs.promises.rename(from, to)
  }

  const statusOf = async (session: Session): Promise<string> => (await session.get()).status

  test('takes the changes of the other side, and merges text that both sides changed', async () => {
    await start({ '/a': text(...ten), '/b': 'b', '/c/d': 'd', '/gone': 'x' })
    await write(source, '/a', text('one', ...ten.slice(1)))
    await write(source, '/new/x', 'new')
    await source.files.delete({ path: '/gone' })
    await write(target, '/a', text(...ten.slice(0, 9), 'ten'))
    await write(target, '/b', 'ours')
    const before = await engine.sessions.open(target.id).then((one) => one.manifest())
    const preview = await target.merge(source, { dryRun: true })
    expect((await target.manifest()).manifestHash).toBe(before.manifestHash)
    const result = await target.merge(source)
    expect({ ...preview, eventId: result.eventId }).toEqual(result)
    expect(result.merged).toBe(true)
    expect(result.conflicts).toEqual([])
    expect(result.changes.map(({ path, change }) => `${change} ${path}`)).toEqual([
      'modified /a',
      'removed /gone',
      'added /new',
      'added /new/x',
    ])
    expect(await tree(target)).toEqual({
      '/a': text('one', ...ten.slice(1, 9), 'ten'),
      '/b': 'ours',
      '/c': '/',
      '/c/d': 'd',
      '/new': '/',
      '/new/x': 'new',
    })
    const { events } = await target.events.list()
    const last = events.at(-1)
    expect(last?.eventId).toBe(result.eventId)
    expect(last?.eventType).toBe('v1.PersistenceService.MergeSession')
    expect(await statusOf(target)).toBe(SessionStatus.ACTIVE)
    if (isLasting) {
      await reopen()
      expect(await read(target, '/a')).toBe(text('one', ...ten.slice(1, 9), 'ten'))
    }
  })

  test('merges nothing twice, and merges further changes from the last merge on', async () => {
    await start({ '/a': text(...ten) })
    await write(source, '/a', text('one', ...ten.slice(1)))
    expect((await target.merge(source)).merged).toBe(true)
    const again = await target.merge(source)
    expect(again).toEqual({ merged: false, eventId: '', changes: [], changeCount: 0, conflicts: [] })
    await source.checkpoint()
    expect((await target.merge(source)).merged).toBe(false)
    // Our change of a line that theirs changed before is kept.
    await write(target, '/a', text('uno', ...ten.slice(1)))
    await write(source, '/a', text('one', ...ten.slice(1, 9), 'ten'))
    const { conflicts } = await target.merge(source)
    expect(conflicts).toEqual([])
    expect(await read(target, '/a')).toBe(text('uno', ...ten.slice(1, 9), 'ten'))
    // Back into the source: a fast-forward.
    await source.merge(target)
    expect(await read(source, '/a')).toBe(await read(target, '/a'))
    expect((await source.merge(target)).merged).toBe(false)
  })

  test('merges siblings, grandchildren and unrelated sessions from the same files', async () => {
    await start({ '/a': 'a' })
    const sibling = await target.fork()
    const grandchild = await source.fork()
    await write(sibling, '/sibling', '1')
    await write(grandchild, '/grandchild', '2')
    await sibling.merge(grandchild)
    expect(Object.keys(await tree(sibling))).toEqual(['/a', '/grandchild', '/sibling'])
    const other = await engine.sessions.create({ files: { '/a': 'a' } })
    await write(other, '/other', '3')
    await sibling.merge(other)
    expect(await read(sibling, '/other')).toBe('3')
    const stranger = await engine.sessions.create({ files: { '/b': 'b' } })
    await expect(sibling.merge(stranger)).rejects.toEqual(refused('NO_COMMON_ANCESTOR'))
  })

  test('keeps conflicts until they are resolved', async () => {
    await start({ '/a': text(...ten), '/mod': 'x', '/b': 'b' })
    for (const [session, name] of [
      [target, 'ours'],
      [source, 'theirs'],
    ] as const) {
      await write(session, '/a', text(name, ...ten.slice(1)))
      await write(session, '/added', text(name))
      await session.files.setMode({ path: '/b', mode: name === 'ours' ? 0o600 : 0o755 })
      await session.files.createSymlink({ linkPath: '/link', target: name })
    }
    await target.files.delete({ path: '/mod' })
    await write(source, '/mod', 'y')
    await write(source, '/clean', 'z')
    const { conflicts } = await target.merge(source, { names: { theirs: 'attempt' } })
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/a', 'content'],
      ['/added', 'add/add'],
      ['/b', 'mode'],
      ['/link', 'symlink'],
      ['/mod', 'delete/modify'],
    ])
    expect(conflicts[4]?.ours).toBeUndefined()
    expect(conflicts[2]).toMatchObject({
      ours: { mode: 0o600 },
      theirs: { mode: 0o755 },
      base: { mode: 0o644 },
    })
    expect(await statusOf(target)).toBe(SessionStatus.CONFLICT)
    await expect(target.merge(source)).rejects.toEqual(refused('UNRESOLVED_CONFLICTS'))
    await expect(target.commit({ message: 'a' })).rejects.toEqual(refused('UNRESOLVED_CONFLICTS'))
    expect(await read(target, '/a')).toBe(text('ours', ...ten.slice(1)))
    expect(await read(target, '/clean')).toBe('z')
    await source.delete()
    if (isLasting) {
      await engine.collect()
      await reopen()
      await engine.collect()
      expect((await engine.check({ readData: true })).findings).toEqual([])
    }
    expect((await target.conflicts.list()).conflicts).toEqual(conflicts)
    const first = await target.conflicts.list({ pageSize: 2 })
    const rest = await target.conflicts.list({ pageToken: first.nextPageToken })
    expect([...first.conflicts, ...rest.conflicts]).toEqual(conflicts)
    const { base, ours, theirs, hunks } = await target.conflicts.read({ path: '/a' })
    expect([base, ours, theirs].map((bytes) => Buffer.from(bytes ?? []).toString())).toEqual([
      text(...ten),
      text('ours', ...ten.slice(1)),
      text('theirs', ...ten.slice(1)),
    ])
    expect(hunks).toEqual([
      { baseLine: 1, base: '1\n', oursLine: 1, ours: 'ours\n', theirsLine: 1, theirs: 'theirs\n' },
    ])
    expect((await target.conflicts.read({ path: '/added' })).hunks).toEqual([
      { baseLine: 1, base: '', oursLine: 1, ours: 'ours\n', theirsLine: 1, theirs: 'theirs\n' },
    ])
    await expect(target.conflicts.resolve({ path: '/none', use: 'ours' })).rejects.toEqual(
      refused('CONFLICT_NOT_FOUND'),
    )
    expect(await target.conflicts.resolve({ path: '/a', content: 'both' })).toEqual({ conflictCount: 4 })
    expect(await target.conflicts.resolve({ path: '/mod', use: 'theirs' })).toEqual({ conflictCount: 3 })
    expect(await target.conflicts.resolve({ path: '/added', deleted: true })).toEqual({ conflictCount: 2 })
    expect(await target.conflicts.resolveAll({ use: 'theirs' })).toEqual({ conflictCount: 0 })
    expect(await statusOf(target)).toBe(SessionStatus.ACTIVE)
    expect(await tree(target)).toEqual({ '/a': 'both', '/b': 'b', '/clean': 'z', '/mod': 'y' })
    expect((await target.files.stat({ path: '/b' })).mode).toBe(0o755)
    expect((await target.files.readSymlink('/link')).target).toBe('theirs')
    expect(await target.conflicts.resolveAll({ use: 'ours' })).toEqual({ conflictCount: 0 })
    await expect(target.conflicts.abort()).rejects.toEqual(refused('CONFLICT_NOT_FOUND'))
    if (isLasting) {
      await engine.collect()
      await reopen()
      expect(await statusOf(target)).toBe(SessionStatus.ACTIVE)
      expect(await read(target, '/mod')).toBe('y')
    }
  })

  test('reports a file in the place of a directory with a conflict in it', async () => {
    await start({ '/d/a': 'a' })
    await target.fs.promises.rm('/d', { recursive: true })
    await write(target, '/d', 'ours')
    await write(source, '/d/a', 'theirs')
    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/d', 'file/directory'],
      ['/d/a', 'delete/modify'],
    ])
    expect(await read(target, '/d')).toBe('ours')
    expect(await target.conflicts.resolveAll({ use: 'theirs' })).toEqual({ conflictCount: 0 })
    expect(await tree(target)).toEqual({ '/d': '/', '/d/a': 'theirs' })
  })

  test('aborts a merge, and can then merge again', async () => {
    await start({ '/a': 'a', '/b': 'b' })
    await write(target, '/a', 'ours')
    await write(source, '/a', 'theirs')
    await write(source, '/b', 'theirs')
    const before = await tree(target)
    const eventId = await newestEvent(target)
    await target.merge(source)
    expect(await read(target, '/b')).toBe('theirs')
    await write(target, '/later', 'x')
    if (isLasting) {
      await engine.collect()
      await reopen()
      // The collection keeps the state to which an abort leads, but none before it.
      using view = await target.at({ eventId })
      expect(Buffer.from(await view.files.read({ path: '/a' })).toString()).toBe('ours')
      source = await engine.sessions.open(source.id)
    }
    await target.conflicts.abort()
    expect(await tree(target)).toEqual(before)
    expect(await statusOf(target)).toBe(SessionStatus.ACTIVE)
    if (isLasting) {
      await reopen()
      expect(await tree(target)).toEqual(before)
      source = await engine.sessions.open(source.id)
    }
    const { conflicts } = await target.merge(source, { policies: [{ glob: '**', policy: 'theirs' }] })
    expect(conflicts).toEqual([])
    expect(await tree(target)).toEqual({ '/a': 'theirs', '/b': 'theirs' })
  })

  test('ends a merge with conflicts at a restore', async () => {
    await start({ '/a': 'a' })
    await write(target, '/a', 'ours')
    await target.checkpoint({ checkpointLabel: 'before' })
    await write(source, '/a', 'theirs')
    await target.merge(source)
    await target.restore({ checkpointLabel: 'before' })
    expect(await statusOf(target)).toBe(SessionStatus.ACTIVE)
    expect((await target.conflicts.list()).conflicts).toEqual([])
    // The restore undid the merge.
    expect((await target.merge(source)).conflicts).toHaveLength(1)
  })

  test.each<[string, MergeOptions, string, number]>([
    ['ours', { policies: [{ glob: 'a', policy: 'ours' }] }, text('0', 'ours', '2', '3', '4'), 0],
    ['theirs', { policies: [{ glob: '/a', policy: 'theirs' }] }, text('1', 'theirs', '2', '3', '5'), 0],
    ['union', { policies: [{ glob: '**', policy: 'union' }] }, text('0', 'ours', 'theirs', '2', '3', '5'), 0],
    [
      'markers',
      { policies: [{ glob: '**', policy: 'markers' }], names: { ours: 'me', theirs: 'you' } },
      text('0', '<<<<<<< me', 'ours', '=======', 'theirs', '>>>>>>> you', '2', '3', '5'),
      1,
    ],
  ])('resolves conflicts by the policy %s', async (_policy, options, expected, count) => {
    await start({ '/a': text('1', 'x', '2', '3', '4') })
    await write(target, '/a', text('0', 'ours', '2', '3', '4'))
    await write(source, '/a', text('1', 'theirs', '2', '3', '5'))
    const merge = await target.merge(source, options)
    // The first line is part of the conflict, because no line separates it.
    const actual = await read(target, '/a')
    expect(merge.conflicts).toHaveLength(count)
    if (_policy === 'ours' || _policy === 'theirs') expect(actual).toBe(expected)
    else expect(actual?.endsWith(text('2', '3', '5'))).toBe(true)
  })

  test.each([
    ['ours', 0o700, 'ours'],
    ['theirs', 0o750, 'theirs'],
  ] as const)('takes the attributes of a directory by the policy %s', async (policy, mode, value) => {
    await start({ '/bits/a': 'a', '/named/a': 'a' })
    await target.files.setMode({ path: '/bits', mode: 0o700 })
    await source.files.setMode({ path: '/bits', mode: 0o750 })
    await target.files.setXattr({ path: '/named', name: 'user.x', value: 'ours' })
    await source.files.setXattr({ path: '/named', name: 'user.x', value: 'theirs' })
    const { conflicts } = await target.merge(source, { policies: [{ glob: '**', policy }] })
    expect(conflicts).toEqual([])
    expect((await target.files.stat({ path: '/bits' })).mode).toBe(mode)
    const named = await target.files.getXattr({ path: '/named', name: 'user.x' })
    expect(Buffer.from(named.value).toString()).toBe(value)
  })

  test('rejects a conflict with the policy fail, and changes nothing', async () => {
    await start({ '/a': 'a', '/b': 'b' })
    await write(target, '/a', 'ours')
    await write(source, '/a', 'theirs')
    await write(source, '/b', 'theirs')
    const { manifestHash } = await target.manifest()
    const failing = target.merge(source, { policies: [{ glob: '**', policy: 'fail' }] })
    await expect(failing).rejects.toEqual(refused('MERGE_CONFLICT'))
    await expect(failing).rejects.toMatchObject({ details: { paths: '["/a"]' } })
    expect((await target.manifest()).manifestHash).toBe(manifestHash)
    expect(await statusOf(target)).toBe(SessionStatus.ACTIVE)
  })

  test('leaves a file of too many lines as a conflict, without its lines', async () => {
    const [most, more] = ['\n'.repeat(limits.diffFileLines), '\n'.repeat(limits.diffFileLines + 1)]
    await start({ '/most': most, '/more': more })
    for (const [path, content] of Object.entries({ '/most': most, '/more': more })) {
      await target.files.write({ path, content: `ours${content}` })
      await source.files.write({ path, content: `${content}theirs` })
    }

    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/more', 'content']])
    expect((await target.conflicts.read({ path: '/more' })).hunks).toEqual([])
    expect((await target.files.read({ path: '/most' })).toString()).toBe(`ours${most}theirs`)
    expect((await target.files.read({ path: '/more' })).toString()).toBe(`ours${more}`)
  })

  test('calls a merger for the files of its glob', async () => {
    await start({ '/a.json': '{"v":1}', '/b': 'b' })
    await write(target, '/a.json', '{"v":2}')
    await write(source, '/a.json', '{"v":3}')
    const seen: unknown[] = []
    const { conflicts } = await target.merge(source, {
      mergers: [
        {
          glob: '**/*.json',
          merge: ({ path, base, ours, theirs }) => {
            seen.push(path, ...[base, ours, theirs].map((bytes) => Buffer.from(bytes ?? []).toString()))
            return '{"v":4}'
          },
        },
      ],
    })
    expect(seen).toEqual(['/a.json', '{"v":1}', '{"v":2}', '{"v":3}'])
    expect(conflicts).toEqual([])
    expect(await read(target, '/a.json')).toBe('{"v":4}')
    await write(source, '/a.json', '{"v":5}')
    await write(target, '/a.json', '{"v":6}')
    const again = await target.merge(source, { mergers: [{ glob: '*.json', merge: () => undefined }] })
    expect(again.conflicts).toHaveLength(1)
    const failing = engine.sessions.open(target.id).then(async (session) => {
      await session.conflicts.resolveAll({ use: 'ours' })
      await write(source, '/a.json', '7')
      return session.merge(source, {
        mergers: [
          {
            glob: '*',
            merge: () => {
              throw new TypeError('mine')
            },
          },
        ],
      })
    })
    await expect(failing).rejects.toThrow('mine')
  })

  test.each(['ours', 'theirs'] as const)(
    'keeps the file that the other side has in the place of one that it deleted and %s moved',
    async (mover) => {
      await start({ '/a': text(...ten) })
      const [moving, other] = mover === 'ours' ? [target, source] : [source, target]
      await moving.files.rename({ sourcePath: '/a', destinationPath: '/b' })
      await other.files.delete({ path: '/a' })
      await write(other, '/b', text('other'))
      const contents = { ours: await read(target, '/b'), theirs: await read(source, '/b') }
      for (const use of ['ours', 'theirs'] as const) {
        const into = await target.fork()
        const { conflicts } = await into.merge(source)
        expect(conflicts).toEqual([
          expect.objectContaining({
            kind: 'rename/delete',
            path: '/b',
            base: expect.objectContaining({ path: '/a' }) as unknown,
            ours: expect.objectContaining({ path: '/b' }) as unknown,
            theirs: expect.objectContaining({ path: '/b' }) as unknown,
          }),
        ])
        await into.conflicts.resolve({ path: '/b', use })
        expect(await tree(into)).toEqual({ '/b': contents[use] })
      }
    },
  )

  test('writes markers around two files at the path to which one side moved a deleted file', async () => {
    await start({ '/a': text(...ten) })
    await target.files.rename({ sourcePath: '/a', destinationPath: '/b' })
    await source.files.delete({ path: '/a' })
    await write(source, '/b', text('other'))
    await target.merge(source, { policies: [{ glob: '**', policy: 'markers' }] })
    expect(await read(target, '/b')).toMatch(/^<<<<<<< .*\n1\n[\s\S]*\n=======\nother\n>>>>>>> .*\n$/)
  })

  test('follows renames of unchanged files on either side', async () => {
    await start({ '/a': text(...ten), '/b': text('b', ...ten), '/c': 'same name', '/d': 'deleted' })
    await target.files.createDirectory({ path: '/dir' })
    await target.files.rename({ sourcePath: '/a', destinationPath: '/dir/a' })
    await write(source, '/a', text('one', ...ten.slice(1)))
    await source.files.rename({ sourcePath: '/b', destinationPath: '/b2' })
    await write(target, '/b', text('b', ...ten.slice(0, 9), 'ten'))
    await target.files.rename({ sourcePath: '/c', destinationPath: '/c1' })
    await source.files.rename({ sourcePath: '/c', destinationPath: '/c2' })
    await target.files.rename({ sourcePath: '/d', destinationPath: '/d1' })
    await source.files.delete({ path: '/d' })
    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/c1', 'rename/rename'],
      ['/d1', 'rename/delete'],
    ])
    expect(await tree(target)).toEqual({
      '/b2': text('b', ...ten.slice(0, 9), 'ten'),
      '/c1': 'same name',
      '/d1': 'deleted',
      '/dir': '/',
      '/dir/a': text('one', ...ten.slice(1)),
    })
    await target.conflicts.resolve({ path: '/c1', use: 'theirs' })
    await target.conflicts.resolve({ path: '/d1', use: 'base' })
    expect(Object.keys(await tree(target))).toEqual(['/b2', '/c2', '/d', '/dir', '/dir/a'])
  })

  test('finds another source for a renamed file whose namesake was renamed before it', async () => {
    const same = text(...ten)
    await start({ '/1/b': same, '/2/a': same })
    await target.files.createDirectory({ path: '/n' })
    await target.files.createDirectory({ path: '/n2' })
    // By content alone, /n/c takes the first one, so that /n2/b cannot be the file of the same name.
    await target.files.rename({ sourcePath: '/1/b', destinationPath: '/n/c' })
    await target.files.rename({ sourcePath: '/2/a', destinationPath: '/n2/b' })
    await write(source, '/1/b', text('first', ...ten.slice(1)))
    await write(source, '/2/a', text('second', ...ten.slice(1)))
    expect((await target.merge(source)).conflicts).toEqual([])
    expect(await read(target, '/n/c')).toBe(text('first', ...ten.slice(1)))
    expect(await read(target, '/n2/b')).toBe(text('second', ...ten.slice(1)))
  })

  test('loses no file at the two new paths of a file that both sides renamed', async () => {
    await start({ '/f': text(...ten) })
    await target.files.rename({ sourcePath: '/f', destinationPath: '/a' })
    await write(target, '/b', 'new in ours\n')
    await source.files.rename({ sourcePath: '/f', destinationPath: '/b' })
    await write(source, '/a', 'new in theirs\n')
    const policies = [{ glob: '**', policy: 'markers' }] as const
    const { conflicts } = await target.merge(source, { policies })
    expect(conflicts.map(({ path }) => path)).toEqual(['/a', '/b'])
    const files = await tree(target)
    expect(Object.keys(files)).toEqual(['/a', '/b'])
    for (const part of [text(...ten), 'new in theirs\n']) expect(files['/a']).toContain(part)
    for (const part of [text(...ten), 'new in ours\n']) expect(files['/b']).toContain(part)
  })

  test('may concern as many paths as its limit says, and no more', async () => {
    lowerBound(limits, 'mergePaths', 3)
    await start({ '/a': 'a' })
    await write(target, '/ours', 'x')
    for (const path of ['/1', '/2']) await write(source, path, 'x')
    expect((await target.merge(source)).conflicts).toEqual([])
    const later = await target.fork()
    for (const path of ['/3', '/4', '/5', '/6']) await write(later, path, 'x')
    await expect(target.merge(later)).rejects.toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: '3' },
    })
  })

  test('reports a file in the way of a directory', async () => {
    await start({ '/x': 'x', '/dir/a': 'a' })
    await write(target, '/new', 'file')
    await write(source, '/new/a', 'in a directory')
    await source.files.delete({ path: '/dir/a' })
    await source.files.removeDirectory({ path: '/dir' })
    await write(source, '/dir', 'file')
    await write(target, '/dir/b', 'b')
    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/dir', 'file/directory'],
      ['/new', 'file/directory'],
    ])
    expect(conflicts[1]).toMatchObject({ ours: { kind: 'file' }, theirs: { kind: 'directory' } })
    expect(await tree(target)).toEqual({ '/dir': '/', '/dir/b': 'b', '/new': 'file', '/x': 'x' })
    await target.conflicts.resolveAll({ use: 'theirs' })
    expect(await tree(target)).toEqual({ '/dir': 'file', '/new': '/', '/new/a': 'in a directory', '/x': 'x' })
  })

  test('keeps a changed file that the other side moved below another changed file', async () => {
    await start({ '/f': 'f', '/g': 'g' })
    await write(target, '/f', 'ours')
    await write(target, '/g', 'ours')
    await source.files.delete({ path: '/f' })
    await source.files.createDirectory({ path: '/f' })
    await source.files.rename({ sourcePath: '/g', destinationPath: '/f/g' })
    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/f', 'file/directory'],
      ['/g', 'delete/modify'],
    ])
    expect(await tree(target)).toEqual({ '/f': 'ours', '/g': 'ours' })
    await target.conflicts.resolveAll({ use: 'theirs' })
    expect(await tree(target)).toEqual({ '/f': '/', '/f/g': 'g' })
  })

  test('keeps a changed file that the other side moved to the path of another new file', async () => {
    await start({ '/f': 'f' })
    await write(target, '/f', 'changed')
    await write(target, '/to', 'ours')
    await source.files.rename({ sourcePath: '/f', destinationPath: '/to' })
    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/f', 'delete/modify'],
      ['/to', 'add/add'],
    ])
    expect(await tree(target)).toEqual({ '/f': 'changed', '/to': 'ours' })
  })

  describe.each(['ours', 'theirs'] as const)('an unchanged file that %s moved', (side) => {
    /** Merges what two sides did, of which the first one moved a file. */
    async function mergeOf(
      files: Record<string, string>,
      moves: (one: Session) => Promise<unknown>,
      writes: (another: Session) => Promise<unknown>,
    ): Promise<{
      conflicts: (string | undefined)[][]
      trees: Record<string, Record<string, string | undefined>>
    }> {
      await start(files)
      const base = await tree(target)
      const [one, another] = side === 'ours' ? [target, source] : [source, target]
      await moves(one)
      await writes(another)
      const trees = { base, ours: await tree(target), theirs: await tree(source) }
      const { conflicts } = await target.merge(source)
      return { conflicts: conflicts.map(({ path, kind }) => [path, kind]), trees }
    }

    test.each(['ours', 'theirs', 'base'] as const)('below a new file comes back with %s', async (use) => {
      const { conflicts, trees } = await mergeOf(
        { '/f': 'f' },
        (one) => rename(one, '/f', '/d/f'),
        (another) => write(another, '/d', 'new'),
      )
      expect(conflicts).toEqual([
        ['/d', 'file/directory'],
        ['/f', 'delete/modify'],
      ])
      await target.conflicts.resolveAll({ use })
      expect(await tree(target)).toEqual(trees[use])
    })

    test.each(['ours', 'theirs', 'base'] as const)('to a new directory comes back with %s', async (use) => {
      const { conflicts, trees } = await mergeOf(
        { '/f': 'f' },
        (one) => rename(one, '/f', '/d'),
        (another) => write(another, '/d/new', 'new'),
      )
      expect(conflicts).toEqual([
        ['/d', 'file/directory'],
        ['/f', 'delete/modify'],
      ])
      await target.conflicts.resolveAll({ use })
      expect(await tree(target)).toEqual(trees[use])
    })

    test.each(['ours', 'theirs', 'base'] as const)('over a changed file comes back with %s', async (use) => {
      const { conflicts, trees } = await mergeOf(
        { '/f': 'f', '/to': 'old' },
        (one) => rename(one, '/f', '/to'),
        (another) => write(another, '/to', 'changed'),
      )
      expect(conflicts).toEqual([
        ['/f', 'delete/modify'],
        ['/to', 'content'],
      ])
      await target.conflicts.resolveAll({ use })
      expect(await tree(target)).toEqual(trees[use])
    })

    test('is not lost with one of its copies', async () => {
      const { conflicts, trees } = await mergeOf(
        { '/f': 'f', '/g': 'f' },
        async (one) => {
          await rename(one, '/f', '/d/f')
          await write(one, '/e/copy', 'f')
        },
        (another) => write(another, '/d', 'new'),
      )
      expect(conflicts).toEqual([['/d', 'file/directory']])
      expect(await tree(target)).toMatchObject({ '/e/copy': 'f', '/g': 'f' })
      await target.conflicts.resolveAll({ use: side })
      expect(await tree(target)).toEqual(trees[side])
    })

    test('stays where a policy keeps the other file in the place', async () => {
      await start({ '/f': 'f' })
      const [one, another] = side === 'ours' ? [target, source] : [source, target]
      await rename(one, '/f', '/to')
      await write(another, '/to', 'new')
      const policy = side === 'ours' ? 'theirs' : 'ours'
      const { conflicts } = await target.merge(source, { policies: [{ glob: '/to', policy }] })
      expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/f', 'delete/modify']])
      await target.conflicts.resolve({ path: '/f', use: 'base' })
      expect(await tree(target)).toEqual({ '/f': 'f', '/to': 'new' })
    })

    test('has no conflict if nothing is in its place', async () => {
      const { conflicts, trees } = await mergeOf(
        { '/f': 'f', '/g': 'g' },
        (one) => rename(one, '/f', '/d/f'),
        (another) => write(another, '/g', 'changed'),
      )
      expect(conflicts).toEqual([])
      expect(await tree(target)).toEqual({ ...trees[side], '/g': 'changed' })
    })
  })

  test('merges each file once, also if a conflict would lose a moved file', async () => {
    // It allows one merge of the text and one of the JSON.
    lowerBound(limits, 'mergeTextBytes', 32)
    await start({ '/f': 'f', '/a.json': '1', '/text': '1\n2\n3\n' })
    await write(target, '/d', 'new')
    await write(target, '/a.json', '2')
    await write(target, '/text', 'ours\n2\n3\n')
    await rename(source, '/f', '/d/f')
    await write(source, '/a.json', '3')
    await write(source, '/text', '1\n2\ntheirs\n')
    const merge = vi.fn<() => string>(() => '4')
    const { conflicts } = await target.merge(source, { mergers: [{ glob: '*.json', merge }] })
    expect(merge).toHaveBeenCalledOnce()
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/d', 'file/directory'],
      ['/f', 'delete/modify'],
    ])
    expect(await tree(target)).toMatchObject({ '/a.json': '4', '/text': 'ours\n2\ntheirs\n' })
  })

  test('follows moved files into the places of other moved files only so far', async () => {
    lowerBound(limits, 'mergePasses', 1)
    await start({ '/f': 'f' })
    await write(target, '/d', 'new')
    await rename(source, '/f', '/d/f')
    await expect(target.merge(source)).rejects.toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      details: { limit: '1' },
    })
  })

  test('keeps a change that would move to the directory of a file of another kind', async () => {
    await start({ '/a/d': 'd', '/f': 'f' })
    await rename(target, '/a/d', '/b')
    await target.fs.promises.rmdir('/a')
    await rename(target, '/f', '/a')
    await source.files.delete({ path: '/a/d' })
    await source.fs.promises.symlink('link', '/a/d')
    await write(source, '/f', 'changed')
    const wanted = await tree(source)
    await target.merge(source)
    await target.conflicts.resolveAll({ use: 'theirs' })
    expect(await tree(target)).toMatchObject({ '/f': wanted['/f'] })
  })

  test('puts the directory of a side before a file that belongs into it', async () => {
    await start({ '/a/d': 'd', '/f': 'f' })
    await target.files.delete({ path: '/a/d' })
    await target.fs.promises.rmdir('/a')
    await rename(target, '/f', '/a')
    await source.files.delete({ path: '/f' })
    await write(source, '/a/d', 'changed')
    const wanted = await tree(source)
    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/a', 'rename/delete'],
      ['/a/d', 'delete/modify'],
    ])
    await target.conflicts.resolveAll({ use: 'theirs' })
    expect(await tree(target)).toEqual(wanted)
  })

  describe.each(['ours', 'theirs'] as const)('a change of a file that %s moved', (side) => {
    /** Merges the moves of one side with the changes of the other one, and resolves the conflicts to each side. */
    async function resolved(
      moves: (one: Session) => Promise<unknown>,
      changes: (another: Session) => Promise<unknown>,
    ): Promise<{
      conflicts: string[]
      other: Record<string, string | undefined>
      result: Record<string, string | undefined>
    }> {
      const [one, another] = side === 'ours' ? [target, source] : [source, target]
      await moves(one)
      await changes(another)
      const other = await tree(another)
      const { conflicts } = await target.merge(source)
      await target.conflicts.resolveAll({ use: side === 'ours' ? 'theirs' : 'ours' })
      return { conflicts: conflicts.map(({ path }) => path), other, result: await tree(target) }
    }

    test('stays if another conflict keeps a file above its new path', async () => {
      await start({ '/b/x': 'x', '/d': 'd' })
      const { conflicts, other, result } = await resolved(
        async (one) => {
          await rename(one, '/d', '/f')
          await rename(one, '/b/x', '/d/x')
        },
        async (another) => {
          await write(another, '/f/new', 'new')
          await write(another, '/b/x', 'changed')
        },
      )
      expect(conflicts).toEqual(['/b/x', '/d', '/f'])
      expect(result).toEqual(other)
    })

    test('stays if the file above its new path does not move along', async () => {
      await start({ '/a/x': 'x', '/e': 'e' })
      const { conflicts, other, result } = await resolved(
        async (one) => {
          await rename(one, '/e', '/b')
          await rename(one, '/a/x', '/e/x')
        },
        async (another) => {
          await write(another, '/e', 'changed')
          await write(another, '/b/new', 'new')
          await write(another, '/a/x', 'changed x')
        },
      )
      expect(conflicts).toEqual(['/a/x', '/b', '/e'])
      expect(result).toEqual(other)
    })

    test('stays if the directory in its new path stays because of another conflict', async () => {
      await start({ '/d/x': 'x', '/f': 'f' })
      const { conflicts, other, result } = await resolved(
        async (one) => {
          await rename(one, '/d/x', '/z/x')
          await one.fs.promises.rmdir('/d')
          await rename(one, '/f', '/d')
        },
        async (another) => {
          await write(another, '/z', 'new')
          await write(another, '/f', 'changed')
        },
      )
      expect(conflicts).toEqual(['/d', '/d/x', '/f', '/z'])
      expect(result).toEqual(other)
    })
  })

  test.each(['ours', 'theirs'] as const)(
    'takes the whole directory of %s where the other side moved a deleted file',
    async (side) => {
      await start({ '/d/a': 'a', '/f': 'f' })
      const [one, another] = side === 'ours' ? [target, source] : [source, target]
      await one.files.delete({ path: '/f' })
      await write(one, '/d/new', 'new')
      await another.files.delete({ path: '/d/a' })
      await another.fs.promises.rmdir('/d')
      await rename(another, '/f', '/d')
      const wanted = await tree(one)
      const { conflicts } = await target.merge(source)
      expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/d', 'rename/delete']])
      await target.conflicts.resolveAll({ use: side })
      expect(await tree(target)).toEqual(wanted)
    },
  )

  describe('the base of a moved file', () => {
    test('does not replace a directory that no conflict names', async () => {
      await start({ '/f': 'f', '/x': 'x' })
      await rename(target, '/f', '/to')
      await source.files.delete({ path: '/f' })
      await rename(source, '/x', '/f/x')
      await target.merge(source)
      const before = await tree(target)
      await expect(target.conflicts.resolveAll({ use: 'base' })).rejects.toMatchObject({
        reason: 'DIRECTORY_NOT_EMPTY',
        message: expect.stringContaining(
          '/f is a directory now, so the base cannot be put there; move /f/x away first',
        ),
      })
      expect(await tree(target)).toEqual(before)
      await rename(target, '/f/x', '/x')
      await target.conflicts.resolveAll({ use: 'base' })
      expect(await tree(target)).toEqual({ '/f': 'f', '/x': 'x' })
    })

    test('does not replace a file that no conflict names', async () => {
      await start({ '/f': 'f' })
      await rename(target, '/f', '/ours')
      await rename(source, '/f', '/theirs')
      await target.merge(source)
      await write(target, '/f', 'new')
      await expect(target.conflicts.resolveAll({ use: 'base' })).rejects.toMatchObject({
        reason: 'ALREADY_EXISTS',
        message: expect.stringContaining('/f is another file now'),
      })
      await rename(target, '/f', '/new')
      await target.conflicts.resolveAll({ use: 'base' })
      expect(await tree(target)).toEqual({ '/f': 'f', '/new': 'new' })
    })
  })

  describe.each([
    ['file', '/x'],
    ['directory', '/x/new'],
  ])('a new %s at a new path of a file that both sides moved', (_kind, path) => {
    const kind = path === '/x' ? 'add/add' : 'file/directory'

    async function conflictsOf(ours: Session, theirs: Session): Promise<(string | undefined)[][]> {
      await ours.files.rename({ sourcePath: '/f', destinationPath: '/x' })
      await theirs.files.rename({ sourcePath: '/f', destinationPath: '/y' })
      await write(theirs, path, 'new')
      const { conflicts } = await target.merge(source)
      return conflicts.map((one) => [one.path, one.kind, one.ours?.path, one.theirs?.path])
    }

    test('has a conflict of its own, whichever side has it', async () => {
      await start({ '/f': 'f' })
      expect(await conflictsOf(target, source)).toEqual([
        ['/x', kind, '/x', '/x'],
        ['/y', 'rename/rename', '/x', '/y'],
      ])
      await start({ '/f': 'f' })
      expect(await conflictsOf(source, target)).toEqual([
        ['/x', kind, '/x', '/x'],
        ['/y', 'rename/rename', '/y', '/x'],
      ])
    })

    test.each([
      ['/x', '/y'],
      ['/y', '/x'],
    ])('is resolved by that conflict alone (%s first)', async (...paths) => {
      for (const isSource of [true, false])
        for (const [x, y] of [
          ['ours', 'theirs'],
          ['theirs', 'ours'],
          ['ours', 'base'],
          ['theirs', 'base'],
        ] as const) {
          await start({ '/f': 'f' })
          await (isSource ? conflictsOf(target, source) : conflictsOf(source, target))
          const uses = { '/x': x, '/y': y }
          for (const one of paths)
            await target.conflicts.resolve({ path: one, use: uses[one as keyof typeof uses] })
          const isNew = x === (isSource ? 'theirs' : 'ours')
          const files = Object.entries(await tree(target)).filter(([, file]) => file !== '/')
          expect(
            files.find(([one]) => one.startsWith('/x')),
            `${x} ${y}`,
          ).toEqual(isNew ? [path, 'new'] : ['/x', 'f'])
        }
    })
  })

  test('lists both conflicts of a path to which two files moved', async () => {
    await start({ '/d/a': 'first', '/d/b': 'second' })
    await target.files.delete({ path: '/d/a' })
    await target.files.rename({ sourcePath: '/d/b', destinationPath: '/to' })
    await source.files.rename({ sourcePath: '/d/a', destinationPath: '/to' })
    await source.files.rename({ sourcePath: '/d/b', destinationPath: '/other' })
    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/other', 'rename/rename'],
      ['/to', 'rename/delete'],
    ])
    const wanted = await tree(source)
    await target.conflicts.resolveAll({ use: 'theirs' })
    expect(await tree(target)).toEqual({ ...wanted, '/d': '/' })
  })

  test.runIf(isLasting).each([
    ['delete/modify', 'ours'],
    ['delete/modify', 'theirs'],
    ['rename/delete', 'ours'],
    ['rename/delete', 'theirs'],
  ] as const)('keeps a directory that a stored %s does not name, on the side %s', async (kind, use) => {
    await start({ '/f': 'base' })
    const [one, another] = use === 'ours' ? [target, source] : [source, target]
    const path = kind === 'delete/modify' ? '/f' : '/to'
    await one.files.delete({ path: '/f' })
    await write(one, `${path}/new`, 'new')
    if (kind === 'delete/modify') await write(another, '/f', 'changed')
    else await another.files.rename({ sourcePath: '/f', destinationPath: '/to' })
    const wanted = await tree(one)
    await target.merge(source)
    await engine.close()
    const store = await storage.open()
    const key = keys.merge(target.id)
    const record = JSON.parse((await store.get(key)) ?? '') as { conflicts: object[] }
    const conflicts = record.conflicts.map((conflict) => ({ ...conflict, kind, [use]: undefined }))
    await store.commit({ put: [[key, { ...record, conflicts }]] })
    await store.close()
    await reopen()
    await target.conflicts.resolve({ path, use })
    expect(await tree(target)).toEqual(wanted)
  })

  test('lists conflicts on pages in the order of their paths', async () => {
    // A string comparison has the second one first.
    const paths = ['/\uff5e', '/\u{1f600}']
    await start(Object.fromEntries(paths.map((path) => [path, 'base'])))
    for (const path of paths) await write(target, path, 'ours')
    for (const path of paths) await write(source, path, 'theirs')
    await target.merge(source)
    const { conflicts, nextPageToken } = await target.conflicts.list({ pageSize: 1 })
    const rest = await target.conflicts.list({ pageToken: nextPageToken })
    expect([...conflicts, ...rest.conflicts].map(({ path }) => path)).toEqual(paths)
  })

  test('resolves the conflict of a directory before those of files that move into it', async () => {
    await start({ '/f': 'f', '/z': 'z' })
    await write(target, '/z', 'changed')
    await target.files.rename({ sourcePath: '/f', destinationPath: '/a' })
    await source.files.delete({ path: '/z' })
    await source.files.createDirectory({ path: '/z' })
    await source.files.rename({ sourcePath: '/f', destinationPath: '/z/f' })
    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/a', 'rename/rename'],
      ['/z', 'file/directory'],
    ])
    await target.conflicts.resolveAll({ use: 'theirs' })
    expect(await tree(target)).toEqual({ '/z': '/', '/z/f': 'f' })
  })

  test('says which file is in the way of a side', async () => {
    await start({ '/d/a': 'a' })
    await target.fs.promises.rm('/d', { recursive: true })
    await write(target, '/d', 'ours')
    await write(source, '/d/a', 'theirs')
    await target.merge(source)
    await expect(target.conflicts.resolve({ path: '/d/a', use: 'theirs' })).rejects.toMatchObject({
      reason: 'NOT_A_DIRECTORY',
      message: expect.stringContaining('/d is not a directory, so nothing can be put at /d/a; resolve'),
    })
    await target.conflicts.resolve({ path: '/d', use: 'theirs' })
    await target.conflicts.resolve({ path: '/d/a', use: 'theirs' })
    expect(await tree(target)).toEqual({ '/d': '/', '/d/a': 'theirs' })
  })

  test('puts all files back into a directory that both sides replaced', async () => {
    await start({ '/d/a': 'a' })
    for (const side of [target, source]) {
      await side.files.rename({ sourcePath: '/d/a', destinationPath: '/e' })
      await side.fs.promises.rmdir('/d')
    }
    await source.files.delete({ path: '/e' })
    await write(target, '/d', 'ours')
    await write(source, '/d', 'theirs')
    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
      ['/d', 'add/add'],
      ['/e', 'rename/delete'],
    ])
    await target.conflicts.resolveAll({ use: 'base' })
    expect(await tree(target)).toEqual({ '/d': '/', '/d/a': 'a' })
  })

  test('says which file without a conflict is in the way of the base', async () => {
    await start({ '/d/a': 'a' })
    await target.files.rename({ sourcePath: '/d/a', destinationPath: '/e' })
    await target.fs.promises.rmdir('/d')
    await write(target, '/d', 'ours')
    await source.files.delete({ path: '/d/a' })
    await target.merge(source)
    await expect(target.conflicts.resolveAll({ use: 'base' })).rejects.toMatchObject({
      reason: 'NOT_A_DIRECTORY',
      message: expect.stringContaining('nothing can be put at /d/a; move that file away first'),
    })
    await target.files.rename({ sourcePath: '/d', destinationPath: '/f' })
    await target.conflicts.resolveAll({ use: 'base' })
    expect(await tree(target)).toEqual({ '/d': '/', '/d/a': 'a', '/f': 'ours' })
  })

  describe.each(['ours', 'theirs'] as const)('with an attribute that %s changed of a directory', (side) => {
    const use = { ours: 'new', base: 'old', theirs: 'new' }
    let one: Session
    let another: Session

    /** The name of the attribute is that of the commit of a submodule. */
    const link = async (session: Session, path: string, value: string): Promise<unknown> =>
      session.files.setXattr({ path, name: 'user.git.gitlink', value })
    const links = async (session: Session, path: string): Promise<string | undefined> => {
      const found = await session.files.getXattr({ path, name: 'user.git.gitlink' }).catch(() => undefined)
      return found && Buffer.from(found.value).toString()
    }

    beforeEach(async () => {
      target = await engine.sessions.create({ files: { '/d/a': 'a' } })
      await target.files.createDirectory({ path: '/d/m' })
      await link(target, '/d/m', 'old')
      source = await target.fork()
      ;[one, another] = side === 'ours' ? [target, source] : [source, target]
      await link(one, '/d/m', 'new')
    })

    test.each(['ours', 'base', 'theirs'] as const)('and the other side removed, takes %s', async (taken) => {
      await another.fs.promises.rmdir('/d/m')
      const { conflicts } = await target.merge(source)
      expect(conflicts).toMatchObject([
        { path: '/d/m', kind: 'delete/modify', base: { kind: 'directory' }, [side]: { kind: 'directory' } },
      ])
      expect(await links(target, '/d/m')).toBe(side === 'ours' ? 'new' : undefined)
      await target.conflicts.resolveAll({ use: taken })
      const isRemoved = taken !== 'base' && taken !== side
      expect(await links(target, '/d/m')).toBe(isRemoved ? undefined : use[taken])
      expect(Object.keys(await tree(target))).toEqual(isRemoved ? ['/d', '/d/a'] : ['/d', '/d/a', '/d/m'])
    })

    test.each(['ours', 'theirs'] as const)(
      'and the other side removed, keeps %s by policy',
      async (policy) => {
        await another.fs.promises.rm('/d', { recursive: true })
        expect((await target.merge(source, { policies: [{ glob: '**', policy }] })).conflicts).toEqual([])
        expect(await links(target, '/d/m')).toBe(policy === side ? 'new' : undefined)
        expect(Object.keys(await tree(target))).toEqual(policy === side ? ['/d', '/d/m'] : [])
      },
    )

    test.each(['ours', 'theirs'] as const)('and the other side replaced, takes %s', async (taken) => {
      await another.fs.promises.rmdir('/d/m')
      await write(another, '/d/m', 'file')
      const { conflicts } = await target.merge(source)
      expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/d/m', 'file/directory']])
      await target.conflicts.resolveAll({ use: taken })
      expect(await links(target, '/d/m')).toBe(taken === side ? 'new' : undefined)
      expect(await read(target, '/d/m')).toBe(taken === side ? undefined : 'file')
    })

    test('and a directory above it that the other side replaced', async () => {
      await another.fs.promises.rm('/d', { recursive: true })
      await write(another, '/d', 'file')
      const { conflicts } = await target.merge(source)
      expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
        ['/d', 'file/directory'],
        ['/d/m', 'delete/modify'],
      ])
      await target.conflicts.resolveAll({ use: side })
      expect(await links(target, '/d/m')).toBe('new')
    })

    test('and the other side moved, has a conflict at the old path', async () => {
      await another.files.rename({ sourcePath: '/d/m', destinationPath: '/moved' })
      const { conflicts } = await target.merge(source)
      expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/d/m', 'delete/modify']])
      expect(await links(target, '/moved')).toBe('old')
    })

    test.each(['ours', 'base', 'theirs'] as const)(
      'and files that the other side wrote into it, takes %s',
      async (taken) => {
        await write(another, '/d/m/sub/file', 'file')
        const { conflicts } = await target.merge(source)
        expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/d/m', 'file/directory']])
        // The result is one side as a whole.
        expect(await links(target, '/d/m')).toBe(side === 'ours' ? 'new' : 'old')
        expect(await read(target, '/d/m/sub/file')).toBe(side === 'ours' ? undefined : 'file')
        await target.conflicts.resolveAll({ use: taken })
        const hasFile = taken !== 'base' && taken !== side
        expect(await links(target, '/d/m')).toBe(taken === side ? 'new' : 'old')
        expect(await read(target, '/d/m/sub/file')).toBe(hasFile ? 'file' : undefined)
        expect(await target.fs.promises.readdir('/d/m')).toEqual(hasFile ? ['sub'] : [])
      },
    )

    test.each(['ours', 'theirs'] as const)(
      'and files that the other side wrote into it, keeps %s by policy',
      async (policy) => {
        await write(another, '/d/m/sub/file', 'file')
        expect((await target.merge(source, { policies: [{ glob: '**', policy }] })).conflicts).toEqual([])
        expect(await links(target, '/d/m')).toBe(policy === side ? 'new' : 'old')
        expect(await target.fs.promises.readdir('/d/m')).toEqual(policy === side ? [] : ['sub'])
      },
    )

    test.each(['ours', 'base', 'theirs'] as const)(
      'and a file that the other side moved into it, keeps that file with %s',
      async (taken) => {
        await another.files.rename({ sourcePath: '/d/a', destinationPath: '/d/m/a' })
        const { conflicts } = await target.merge(source)
        expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([
          ['/d/a', 'delete/modify'],
          ['/d/m', 'file/directory'],
        ])
        await target.conflicts.resolveAll({ use: taken })
        const isMoved = taken !== 'base' && taken !== side
        expect(await read(target, '/d/a')).toBe(isMoved ? undefined : 'a')
        expect(await read(target, '/d/m/a')).toBe(isMoved ? 'a' : undefined)
      },
    )

    test.each(['ours', 'theirs'] as const)(
      'and a file that it changed, and the other side moved into it, keeps that change with %s',
      async (taken) => {
        await write(one, '/d/a', 'changed')
        await another.files.rename({ sourcePath: '/d/a', destinationPath: '/d/m/a' })
        const { conflicts } = await target.merge(source)
        expect(conflicts.map(({ path }) => path)).toEqual(['/d/a', '/d/m'])
        await target.conflicts.resolveAll({ use: taken })
        expect(await read(target, '/d/a')).toBe(taken === side ? 'changed' : undefined)
        expect(await read(target, '/d/m/a')).toBe(taken === side ? undefined : 'a')
      },
    )

    test('and files in a new directory of the other side in its place', async () => {
      await another.fs.promises.rmdir('/d/m')
      await another.fs.promises.mkdir('/d/m')
      await write(another, '/d/m/file', 'file')
      const { conflicts } = await target.merge(source)
      expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/d/m', 'file/directory']])
      await target.conflicts.resolveAll({ use: side })
      expect(await links(target, '/d/m')).toBe('new')
      expect(await target.fs.promises.readdir('/d/m')).toEqual([])
    })

    test('has a conflict if both sides added it, one of them with files', async () => {
      await one.files.createDirectory({ path: '/n' })
      await link(one, '/n', 'new')
      await write(another, '/n/file', 'file')
      const { conflicts } = await target.merge(source)
      expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/n', 'file/directory']])
      await target.conflicts.resolveAll({ use: side })
      expect(await links(target, '/n')).toBe('new')
      expect(await target.fs.promises.readdir('/n')).toEqual([])
    })

    test('has a conflict if it replaced files, and the other side added one', async () => {
      await write(one, '/d/a', 'a')
      await one.fs.promises.rm('/d', { recursive: true })
      await one.fs.promises.mkdir('/d')
      await link(one, '/d', 'new')
      await write(another, '/d/b', 'b')
      const { conflicts } = await target.merge(source)
      expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/d', 'file/directory']])
      await target.conflicts.resolveAll({ use: side === 'ours' ? 'theirs' : 'ours' })
      expect(await links(target, '/d')).toBeUndefined()
      expect(await tree(target)).toMatchObject({ '/d/a': 'a', '/d/b': 'b' })
    })

    test('has no conflict if the files of the other side do not stay', async () => {
      await another.fs.promises.mkdir('/d/m/empty')
      expect((await target.merge(source)).conflicts).toEqual([])
      expect(await links(target, '/d/m')).toBe('new')
    })

    test('keeps the attribute without a conflict if a file in it stays', async () => {
      await write(one, '/d/m/new', 'new')
      await another.fs.promises.rmdir('/d/m')
      expect((await target.merge(source)).conflicts).toEqual([])
      expect(await tree(target)).toEqual({ '/d': '/', '/d/a': 'a', '/d/m': '/', '/d/m/new': 'new' })
      expect(await links(target, '/d/m')).toBe('new')
    })
  })

  describe.each(['ours', 'theirs'] as const)('with a directory of %s', (side) => {
    const other = side === 'ours' ? 'theirs' : 'ours'

    async function sides(files: Record<string, string>): Promise<Record<'ours' | 'theirs', Session>> {
      await start(files)
      return { ours: target, theirs: source }
    }

    test.each(['ours', 'theirs'] as const)('in the place of a changed file, takes %s whole', async (use) => {
      const { [side]: one, [other]: another } = await sides({ '/f': 'base' })
      await one.files.delete({ path: '/f' })
      await write(one, '/f/x', 'x')
      await write(another, '/f', 'changed')
      const wanted = await tree(use === side ? one : another)
      const { conflicts } = await target.merge(source)
      expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/f', 'file/directory']])
      expect(conflicts[0]).toMatchObject({ [side]: { kind: 'directory' }, [other]: { kind: 'file' } })
      await target.conflicts.resolveAll({ use })
      expect(await tree(target)).toEqual(wanted)
    })

    test.each(['ours', 'theirs'] as const)('in the way of a moved file, takes %s whole', async (use) => {
      const { [side]: one, [other]: another } = await sides({ '/f': 'base' })
      await one.files.delete({ path: '/f' })
      await write(one, '/to/x', 'x')
      await another.files.rename({ sourcePath: '/f', destinationPath: '/to' })
      const wanted = await tree(use === side ? one : another)
      const { conflicts } = await target.merge(source)
      expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/to', 'rename/delete']])
      expect(conflicts[0]).toMatchObject({ [side]: { kind: 'directory' }, [other]: { kind: 'file' } })
      await target.conflicts.resolveAll({ use })
      expect(await tree(target)).toEqual(wanted)
    })

    test.each(['ours', 'theirs'] as const)(
      'in the way of a file moved twice, takes %s whole',
      async (use) => {
        const { [side]: one, [other]: another } = await sides({ '/f': 'base' })
        await one.files.rename({ sourcePath: '/f', destinationPath: '/two' })
        await write(one, '/to/x', 'x')
        await another.files.rename({ sourcePath: '/f', destinationPath: '/to' })
        const wanted = await tree(use === side ? one : another)
        await target.merge(source)
        await target.conflicts.resolveAll({ use })
        expect(await tree(target)).toEqual(wanted)
      },
    )

    test.each(['/a', '/z'])('keeps its file at %s, the new path of the other side', async (path) => {
      const { [side]: one, [other]: another } = await sides({ '/f': 'base' })
      await one.files.rename({ sourcePath: '/f', destinationPath: '/m' })
      await write(one, path, 'another file')
      await another.files.rename({ sourcePath: '/f', destinationPath: path })
      const wanted = await tree(one)
      await target.merge(source)
      await target.conflicts.resolveAll({ use: side })
      expect(await tree(target)).toEqual(wanted)
    })
  })

  test('merges modes, extended attributes, symlinks and large files', async () => {
    const large = Buffer.alloc(3 * 2 ** 20, 1)
    await start({ '/a': 'a', '/b': 'b', '/d/e': 'e' })
    await target.files.setMode({ path: '/a', mode: 0o755 })
    await source.files.setXattr({ path: '/a', name: 'user.x', value: 'theirs' })
    await target.files.setXattr({ path: '/a', name: 'user.y', value: 'ours' })
    await target.files.setXattr({ path: '/b', name: 'user.z', value: 'ours' })
    await source.files.setXattr({ path: '/b', name: 'user.z', value: 'theirs' })
    await source.files.setMode({ path: '/d', mode: 0o700 })
    await source.files.write({ path: '/large', content: large })
    await source.files.createSymlink({ linkPath: '/link', target: 'a' })
    await source.fs.promises.link('/large', '/large2')
    const { conflicts } = await target.merge(source)
    expect(conflicts.map(({ path, kind }) => [path, kind])).toEqual([['/b', 'attribute']])
    expect((await target.files.stat({ path: '/a' })).mode).toBe(0o755)
    expect((await target.files.stat({ path: '/d' })).mode).toBe(0o700)
    expect((await target.files.listXattrs({ path: '/a' })).names).toEqual(['user.x', 'user.y'])
    expect(Buffer.compare(await target.files.read({ path: '/large2' }), large)).toBe(0)
    await write(target, '/large', 'one')
    expect(await read(target, '/large2')).toBe('one')
    if (isLasting) {
      await source.delete()
      await target.conflicts.resolveAll({ use: 'theirs' })
      await engine.collect()
      await reopen()
      const value = await target.files.getXattr({ path: '/b', name: 'user.z' })
      expect(Buffer.from(value.value).toString()).toBe('theirs')
    }
  })

  test('merges after merges in both directions', async () => {
    await start({ '/a': text(...ten), '/b': 'b' })
    const third = await target.fork()
    const fourth = await target.fork()
    await write(third, '/a', text('third', ...ten.slice(1)))
    await write(fourth, '/a', text(...ten.slice(0, 9), 'fourth'))
    // Each of them merges an earlier state of the other.
    await third.checkpoint({ checkpointLabel: 'mine' })
    await fourth.checkpoint({ checkpointLabel: 'mine' })
    await third.merge({ sessionId: fourth.id, checkpointLabel: 'mine' })
    await fourth.merge({ sessionId: third.id, checkpointLabel: 'mine' })
    await write(third, '/b', 'third')
    await write(fourth, '/a', text('third', '2', 'x', ...ten.slice(3, 9), 'fourth'))
    if (isLasting) await engine.collect()
    const { conflicts } = await third.merge(fourth)
    expect(conflicts).toEqual([])
    expect(await read(third, '/a')).toBe(text('third', '2', 'x', ...ten.slice(3, 9), 'fourth'))
    expect(await read(third, '/b')).toBe('third')
  })

  test('combines common ancestors that conflict with each other', async () => {
    await start({ '/a': text(...ten) })
    const other = await target.fork()
    await write(source, '/a', text('source', ...ten.slice(1)))
    await write(other, '/a', text('other', ...ten.slice(1)))
    await source.checkpoint({ checkpointLabel: 'mine' })
    await other.checkpoint({ checkpointLabel: 'mine' })
    await source.merge({ sessionId: other.id, checkpointLabel: 'mine' })
    await source.conflicts.resolve({ path: '/a', content: text('resolved', ...ten.slice(1)) })
    await other.merge({ sessionId: source.id, checkpointLabel: 'mine' })
    await other.conflicts.resolve({ path: '/a', content: text('resolved', ...ten.slice(1)) })
    await write(other, '/a', text('resolved', ...ten.slice(1, 9), 'more'))
    const { conflicts } = await source.merge(other)
    expect(conflicts).toEqual([])
    expect(await read(source, '/a')).toBe(text('resolved', ...ten.slice(1, 9), 'more'))
  })

  test('combines common ancestors that moved one file, and removed its directory', async () => {
    await start({ '/old/deep/a': text(...ten), '/b': 'b' })
    const other = await target.fork()
    await source.fs.promises.rename('/old/deep/a', '/source')
    await other.fs.promises.rename('/old/deep/a', '/other')
    for (const one of [source, other]) {
      await one.fs.promises.rm('/old', { recursive: true })
      await one.checkpoint({ checkpointLabel: 'mine' })
    }
    const policies = [{ glob: '**', policy: 'ours' }] as const
    await source.merge({ sessionId: other.id, checkpointLabel: 'mine' }, { policies })
    await other.merge({ sessionId: source.id, checkpointLabel: 'mine' }, { policies })
    await write(other, '/b', 'other')
    expect((await source.merge(other, { policies })).merged).toBe(true)
    expect(await tree(source)).toEqual({ '/b': 'other', '/source': text(...ten) })
  })

  test('merges forks after their parent was deleted, and after collections', async () => {
    await start({ '/a': text(...ten) })
    await write(target, '/a', text('parent', ...ten.slice(1)))
    const one = await target.fork()
    await write(target, '/parent', 'later')
    const two = await target.fork()
    await write(one, '/a', text('parent', ...ten.slice(1, 9), 'one'))
    await write(two, '/two', '2')
    await target.delete()
    await engine.collect()
    await write(one, '/one', '1')
    await engine.collect()
    const { conflicts } = await one.merge(two)
    expect(conflicts).toEqual([])
    expect(await tree(one)).toEqual({
      '/a': text('parent', ...ten.slice(1, 9), 'one'),
      '/one': '1',
      '/parent': 'later',
      '/two': '2',
    })
  })

  test('merges a fork into its parent after a collection', async () => {
    await start({ '/a': text(...ten) })
    await write(target, '/b', 'x')
    const fork = await target.fork()
    await write(target, '/a', text('target', ...ten.slice(1)))
    await write(fork, '/a', text(...ten.slice(0, 9), 'fork'))
    await engine.collect()
    await write(target, '/c', 'c')
    await engine.collect()
    expect((await target.merge(fork)).conflicts).toEqual([])
    expect(await read(target, '/a')).toBe(text('target', ...ten.slice(1, 9), 'fork'))
    await engine.collect()
    await write(fork, '/d', 'd')
    expect((await target.merge(fork)).changes.map(({ path }) => path)).toEqual(['/d'])
  })

  test('merges after a restore to a state without a name, and a collection', async () => {
    await start({ '/a': text(...ten) })
    await write(target, '/kept', 'before the restored state')
    const restored = await newestEvent(target)
    await write(target, '/undone', 'after it')
    const fork = await target.fork()
    await write(fork, '/a', text(...ten.slice(0, 9), 'fork'))
    await target.restore({ from: { eventId: restored } })
    await write(target, '/a', text('target', ...ten.slice(1)))
    await engine.collect()
    const { changes, conflicts } = await target.merge(fork)
    expect(conflicts).toEqual([])
    expect(changes.map(({ path }) => path)).toEqual(['/a', '/undone'])
    expect(await read(target, '/a')).toBe(text('target', ...ten.slice(1, 9), 'fork'))
  })

  test('merges two forks from both sides of a restore after their parent moved on, and a collection', async () => {
    await start({ '/a': text(...ten) })
    await target.checkpoint({ checkpointLabel: 'start' })
    await write(target, '/a', text('both', ...ten.slice(1)))
    const restored = await newestEvent(target)
    await write(target, '/undone', 'x')
    const one = await target.fork()
    await target.restore({ from: { eventId: restored } })
    await write(target, '/other', 'x')
    const two = await target.fork()
    await target.restore({ checkpointLabel: 'start' })
    await write(one, '/a', text('both', ...ten.slice(1, 9), 'one'))
    await write(two, '/a', text('both', '2', 'two', ...ten.slice(3)))
    await target.deleteCheckpoint({ checkpointLabel: 'start' })
    await write(target, '/third', 'x')
    await engine.collect()
    expect((await one.merge(two)).conflicts).toEqual([])
    expect(await read(one, '/a')).toBe(text('both', '2', 'two', ...ten.slice(3, 9), 'one'))
  })

  test('merges a checkpoint of a branch that a restore left, and a collection', async () => {
    await start({ '/a': text(...ten) })
    await write(target, '/kept', 'x')
    const restored = await newestEvent(target)
    await write(target, '/a', text(...ten.slice(0, 9), 'left'))
    await target.checkpoint({ checkpointLabel: 'left' })
    await target.restore({ from: { eventId: restored } })
    await write(target, '/a', text('target', ...ten.slice(1)))
    await engine.collect()
    expect((await target.merge({ sessionId: target.id, checkpointLabel: 'left' })).conflicts).toEqual([])
    expect(await read(target, '/a')).toBe(text('target', ...ten.slice(1, 9), 'left'))
  })

  test('merges a session that went back behind its merged state, after a collection', async () => {
    await start({ '/a': text(...ten) })
    await write(source, '/kept', 'x')
    const restored = await newestEvent(source)
    await write(source, '/merged', 'x')
    await target.merge(source)
    await source.restore({ from: { eventId: restored } })
    await write(source, '/a', text('source', ...ten.slice(1)))
    await write(target, '/a', text(...ten.slice(0, 9), 'target'))
    await engine.collect()
    await write(source, '/new', 'x')
    await engine.collect()
    expect((await target.merge(source)).conflicts).toEqual([])
    expect(await read(target, '/a')).toBe(text('source', ...ten.slice(1, 9), 'target'))
    expect(await read(target, '/merged')).toBe('x')
  })

  test.each([false, true])(
    'merges two sessions that a deleted one connects, after a collection: %s',
    async (isCollected) => {
      await start({ '/a': text(...ten) })
      await write(target, '/gone', 'x')
      const between = await target.fork()
      await write(between, '/a', text('between', ...ten.slice(1)))
      const last = await (await between.fork()).fork()
      await write(last, '/last', 'x')
      await target.files.delete({ path: '/gone' })
      const { parent } = await last.get()
      await engine.sessions.delete(parent?.sessionId ?? '')
      await between.delete()
      for (let round = 0; isCollected && round < 3; round++) {
        expect((await engine.collect()).deletedSessions).toBe(round === 0 ? 2 : 0)
        await write(last, '/round', `${round}`)
      }
      // Without the two deleted sessions, the file would look like one that only this side has added.
      const { changes } = await last.merge(target)
      expect(changes).toEqual([{ path: '/gone', change: 'removed', kind: 'file' }])
      expect(await read(last, '/a')).toBe(text('between', ...ten.slice(1)))
      const { commonAncestors } = await target.lineage({ with: last.id })
      expect(commonAncestors.map(({ sessionId }) => sessionId)).toEqual([target.id])
    },
  )

  test('merges two forks from both sides of a restore after the deletion of their parent', async () => {
    await start({ '/a': text(...ten) })
    await write(target, '/a', text('both', ...ten.slice(1)))
    const restored = await newestEvent(target)
    await write(target, '/undone', 'x')
    const one = await target.fork()
    await target.restore({ from: { eventId: restored } })
    const two = await target.fork()
    await write(one, '/a', text('both', ...ten.slice(1, 9), 'one'))
    await write(two, '/a', text('both', '2', 'two', ...ten.slice(3)))
    await source.delete()
    await target.delete()
    if (isLasting) await engine.collect()
    const merged = one.merge(two)
    if (isLasting) {
      expect((await merged).conflicts).toEqual([])
      expect(await tree(one)).toEqual({
        '/a': text('both', '2', 'two', ...ten.slice(3, 9), 'one'),
        '/undone': 'x',
      })
    } else await expect(merged).rejects.toEqual(refused('MERGE_BASE_GONE'))
  })

  test('keeps the ancestry of a deleted session as long as it has forks', async () => {
    await start({ '/a': 'a' })
    const last = await source.fork()
    await source.delete()
    await engine.collect()
    await last.delete()
    expect(await engine.collect()).toMatchObject({ deletedSessions: 1 })
    await target.delete()
    expect(await engine.collect()).toMatchObject({ deletedSessions: 1 })
    if (!isLasting) return
    await engine.close()
    const store = await storage.open()
    for (const prefix of [keys.allSessions(), keys.lineages(''), keys.allNodes()])
      expect(await store.scan({ gte: prefix, lt: prefixEnd(prefix), limit: 9 })).toEqual([])
    await store.close()
  })

  test('merges an earlier state of a session', async () => {
    await start({ '/a': 'a' })
    await write(source, '/b', 'b')
    const { id } = await source.checkpoint()
    await write(source, '/c', 'c')
    await target.merge({ sessionId: source.id, checkpointId: id })
    expect(Object.keys(await tree(target))).toEqual(['/a', '/b'])
    expect((await target.merge({ sessionId: source.id, base: true })).merged).toBe(false)
    expect((await target.merge(target)).merged).toBe(false)
  })

  test('ends the redo, also if it changes no files', async () => {
    await start({ '/a': 'a', '/b': 'b' })
    await write(source, '/b', 'both')
    await write(target, '/b', 'both')
    await write(target, '/a', 'undone')
    await target.undo()
    expect(await target.merge(source)).toMatchObject({ merged: true, changes: [] })
    expect((await target.redo()).count).toBe(0)
    await write(source, '/b', 'later')
    expect((await target.merge(source)).conflicts).toEqual([])
    expect(await read(target, '/b')).toBe('later')
  })

  test('rejects a target that moved', async () => {
    await start({ '/a': 'a' })
    await write(source, '/b', 'b')
    const { events } = await target.events.list()
    const expectedEventId = events.at(-1)?.eventId ?? ''
    await write(target, '/c', 'c')
    await expect(target.merge(source, { expectedEventId })).rejects.toEqual(refused('MERGE_TARGET_MOVED'))
    const now = (await target.events.list()).events.at(-1)?.eventId ?? ''
    expect((await target.merge(source, { expectedEventId: now })).merged).toBe(true)
    await expect(target.merge(source, { expectedEventId: 'x' })).rejects.toEqual(refused('INVALID_ARGUMENT'))
  })

  test('merges while the target changes', async () => {
    await start({ '/a': text(...ten) })
    for (let i = 0; i < 20; i++) await write(source, `/s${i}`, String(i))
    const merging = target.merge(source)
    for (let i = 0; i < 5; i++) await write(target, `/t${i}`, String(i))
    await merging
    expect(Object.keys(await tree(target))).toHaveLength(26)
  })

  test('needs the right to read both sides, and to write the target', async () => {
    await start({ '/a': 'a' })
    await write(source, '/b', 'b')
    const denied = refused('PERMISSION_DENIED')
    await expect(target.narrow({ without: ['files.write'] }).merge(source)).rejects.toEqual(denied)
    await expect(target.narrow({ without: ['files.read'] }).merge(source)).rejects.toEqual(denied)
    await expect(target.merge(source.narrow({ without: ['files.read'] }))).rejects.toEqual(denied)
    const alone = target.narrow({ without: ['sessions'] })
    await expect(alone.merge({ sessionId: source.id })).rejects.toEqual(denied)
    const blind = target.narrow({ without: ['history'] })
    await expect(blind.merge({ sessionId: source.id, checkpointLabel: 'a' })).rejects.toEqual(denied)
    expect((await alone.merge(source)).merged).toBe(true)
    await expect(blind.conflicts.abort()).rejects.toEqual(denied)
    await expect(target.rebase()).rejects.toEqual(refused('SOURCE_NOT_FOUND'))
  })

  async function upload(sourceId: string, files: Record<string, string>): Promise<void> {
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { files } })
    await engine.sources.waitForJob(job)
  }

  /** A session with changes of its own that was then moved onto a newer revision. */
  async function rebased(): Promise<void> {
    const { sourceId } = await engine.sources.create({ displayName: 'a', uploadedSnapshot: {} })
    await upload(sourceId, { '/a': 'one', '/b': 'one', '/gone': 'one' })
    target = await engine.sessions.create({ sourceRef: { sourceId } })
    await write(target, '/a', 'mine')
    await write(target, '/gone', 'two')
    await write(target, '/gone', 'one')
    await target.checkpoint({ checkpointLabel: 'before' })
    await upload(sourceId, { '/a': 'one', '/b': 'two' })
    await target.rebase()
  }

  test('reads the states before and after a rebase', async () => {
    await rebased()
    const check = async (): Promise<void> => {
      const { events } = await target.events.list()
      const states: Record<string, string>[] = []
      for (const { eventId } of events) {
        using view = await target.at({ eventId })
        const found: Record<string, string> = {}
        for (const { path } of (await view.manifest()).nodes)
          if (path !== '/') found[path] = await view.fs.promises.readFile(path, 'utf8')
        states.push(found)
      }
      expect(states).toEqual([
        { '/a': 'one', '/b': 'one', '/gone': 'one' },
        { '/a': 'mine', '/b': 'one', '/gone': 'one' },
        { '/a': 'mine', '/b': 'one', '/gone': 'two' },
        { '/a': 'mine', '/b': 'one', '/gone': 'one' },
        { '/a': 'mine', '/b': 'one', '/gone': 'one' },
        { '/a': 'mine', '/b': 'two' },
      ])
      expect((await engine.check({ readData: true })).findings).toEqual([])
    }
    await check()
    if (!isLasting) return
    await reopen()
    await check()
    await engine.collect({ keepRedo: true })
    await check()
  })

  test('forks a state before a rebase from the revision of that time', async () => {
    await rebased()
    const changesOf = async (session: Session): Promise<[string, string][]> => {
      const changes: [string, string][] = []
      for await (const { path, change } of session.diff()) changes.push([path, change])
      return changes
    }
    const fork = await target.fork({ checkpointLabel: 'before' })
    expect(await changesOf(fork)).toEqual([['/a', 'modified']])
    expect(await changesOf(await target.fork())).toEqual([['/a', 'modified']])
    if (!isLasting) return
    const ids = [target.id, fork.id]
    await target.deleteCheckpoint({ checkpointLabel: 'before' })
    await engine.collect()
    expect((await engine.check({ readData: true })).findings).toEqual([])
    await reopen()
    const again = await engine.sessions.open(ids[1]!)
    expect(await changesOf(again)).toEqual([['/a', 'modified']])
    expect(await tree(again)).toEqual({ '/a': 'mine', '/b': 'one', '/gone': 'one' })
  })

  test('merges two new directories into one with the mode of the target', async () => {
    const base = await engine.sessions.create()
    const [ours, theirs] = [await base.fork(), await base.fork()]
    await ours.fs.promises.mkdir('/new', { mode: 0o700 })
    await theirs.fs.promises.mkdir('/new', { mode: 0o755 })
    await theirs.files.write({ path: '/new/a', content: 'a' })
    expect((await ours.merge(theirs)).conflicts).toEqual([])
    expect((await ours.fs.promises.stat('/new')).mode & 0o777).toBe(0o700)
    expect(await ours.fs.promises.readFile('/new/a', 'utf8')).toBe('a')
  })

  test('merges three newest common states, two of which have a newer one in common', async () => {
    const files = { '/f': 'root\n', '/a': '', '/b': '', '/x': '' }
    const root = await engine.sessions.create({ files })
    const [a, shared] = [await root.fork(), await root.fork()]
    await shared.files.write({ path: '/f', content: 'shared\n' })
    const [b, c] = [await shared.fork(), await shared.fork()]
    await a.files.write({ path: '/a', content: 'a\n' })
    await b.files.write({ path: '/b', content: 'b\n' })
    await c.files.write({ path: '/f', content: 'c\n' })
    const [x, y] = [await a.fork(), await a.fork()]
    for (const one of [x, y]) for (const other of [b, c]) await one.merge(other)
    expect((await x.lineage({ with: y.id })).commonAncestors).toHaveLength(3)
    await x.files.write({ path: '/x', content: 'x\n' })
    await y.files.write({ path: '/f', content: 'y\n' })
    expect((await x.merge(y)).conflicts).toEqual([])
    expect(await x.fs.promises.readFile('/f', 'utf8')).toBe('y\n')
  })

  test('finds only the newest common ancestor, whichever state it meets first', async () => {
    await start({ '/a': 'a', '/b': 'b' })
    await write(target, '/a', 'later')
    const later = await target.fork()
    await write(later, '/b', 'later')
    // Both have a state of the target, and a newer one that they merged.
    const [one, two] = [await target.fork(), await target.fork()]
    for (const session of [one, two]) {
      await write(session, '/a', 'same')
      await session.merge(later)
    }
    const { commonAncestors } = await one.lineage({ with: two.id })
    expect(commonAncestors.map(({ sessionId }) => sessionId)).toEqual([later.id])
  })

  test('rebases again after a restore of a state before the rebase, and a fork of it', async () => {
    await rebased()
    const fork = await target.fork({ checkpointLabel: 'before' })
    const { commonAncestors } = await target.lineage({ with: fork.id })
    expect(commonAncestors.map(({ sessionId }) => sessionId)).toEqual([target.id])
    await target.restore({ checkpointLabel: 'before' })
    for (const session of [target, fork]) {
      expect(await tree(session)).toEqual({ '/a': 'mine', '/b': 'one', '/gone': 'one' })
      const { changes, conflicts } = await session.rebase()
      expect(conflicts).toEqual([])
      expect(changes.map(({ path, change }) => [path, change])).toEqual([
        ['/b', 'modified'],
        ['/gone', 'removed'],
      ])
    }
  })
})

test('finds the base of a merge after a restore during which another merge read the ancestors', async () => {
  const storage = new SteppedStorage(memoryStorage({ durable: true }))
  const first = await openEngine({ storage })
  const created = await first.sessions.create({ files: { '/a': 'first' } })
  await created.checkpoint({ checkpointLabel: 'early' })
  await created.files.write({ path: '/a', content: 'second' })
  const { id: sessionId } = await created.fork()
  const other = await created.fork()
  await other.files.write({ path: '/b', content: 'other' })
  await first.close()
  await using engine = await openEngine({ storage })
  const parent = await engine.sessions.open(created.id)
  const fork = await engine.sessions.open(sessionId)
  const reading = storage.hold('scan', ({ gte }) => gte.startsWith(keys.lineages(parent.id)), 'after')
  const merging = fork.merge({ sessionId: other.id })
  await reading.reached
  await parent.restore({ checkpointLabel: 'early' })
  reading.release()
  await merging
  // The fork has a change of the parent that the restore removed.
  expect((await parent.merge({ sessionId })).changes.map(({ path }) => path)).toEqual(['/a', '/b'])
})

test('merges two sessions that a deleted one connects, in memory without a history', async () => {
  await using engine = await openEngine({ memoryHistoryBytes: 0 })
  const target = await engine.sessions.create({ files: { '/a': 'a' } })
  await target.files.write({ path: '/gone', content: 'x' })
  const between = await target.fork()
  const nearer = await between.fork()
  const last = await nearer.fork()
  await target.files.delete({ path: '/gone' })
  await nearer.delete()
  await between.delete()
  await engine.collect()
  expect((await last.merge(target)).changes.map(({ path }) => path)).toEqual(['/gone'])
})

test('merges two forks from both sides of a restore after the deletion of their parent during a collection', async () => {
  const storage = new SteppedStorage(memoryStorage({ durable: true }))
  await using engine = await openEngine({ storage })
  const parent = await engine.sessions.create({ files: { '/a': 'a' } })
  await parent.files.write({ path: '/kept', content: 'x' })
  const { events } = await parent.events.list()
  const eventId = events.at(-1)?.eventId ?? ''
  await parent.files.write({ path: '/undone', content: 'x' })
  const one = await parent.fork()
  await parent.restore({ from: { eventId } })
  const two = await parent.fork()
  await two.files.delete({ path: '/kept' })
  let scans = 0
  // The sessions are read for the fourth time to delete some, after the states that merges need were stored.
  const isFourth = (gte: string): boolean => gte === keys.allSessions() && ++scans === 4
  const deleting = storage.hold('scan', ({ gte, reverse }) => reverse === true && isFourth(gte))
  const collected = engine.collect({ keepRedo: true })
  await deleting.reached
  await parent.delete()
  deleting.release()
  await collected
  await engine.collect()
  expect((await one.merge(two)).changes.map(({ path }) => path)).toEqual(['/kept'])
})

test.each([false, true])(
  'merges a fork of a session that is forked and deleted during a collection; durable: %s',
  async (durable) => {
    // All of it may happen in one millisecond.
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now())
    onTestFinished(() => clock.mockRestore())
    const storage = new SteppedStorage(memoryStorage({ durable }))
    await using engine = await openEngine({ storage })
    const parent = await engine.sessions.create({ files: { '/a': 'a' } })
    await parent.files.write({ path: '/gone', content: 'x' })
    const between = await parent.fork()
    const reading = storage.hold('scan', ({ gte, reverse }) => gte === keys.lineages('') && reverse === true)
    const collected = engine.collect()
    await reading.reached
    const last = await between.fork()
    await between.delete()
    await parent.files.delete({ path: '/gone' })
    reading.release()
    await collected
    await engine.collect()
    expect((await last.merge(parent)).changes.map(({ path }) => path)).toEqual(['/gone'])
  },
)

test('merges two sessions that deleted ones connect, after a fork with the clock set back', async () => {
  const storage = memoryStorage({ durable: true })
  const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 3_600_000)
  onTestFinished(() => clock.mockRestore())
  const first = await openEngine({ storage })
  const created = await first.sessions.create({ files: { '/a': 'a' } })
  await created.files.write({ path: '/gone', content: 'x' })
  const farther = await created.fork()
  const { id: nearer } = await farther.fork()
  await first.close()
  clock.mockRestore()
  await using engine = await openEngine({ storage })
  const last = await engine.sessions.open(nearer).then((session) => session.fork())
  expect(last.id < nearer).toBe(true)
  await engine.sessions.delete(nearer)
  await engine.sessions.delete(farther.id)
  const target = await engine.sessions.open(created.id)
  await target.files.delete({ path: '/gone' })
  await engine.collect()
  expect((await last.merge(target)).changes.map(({ path }) => path)).toEqual(['/gone'])
})
