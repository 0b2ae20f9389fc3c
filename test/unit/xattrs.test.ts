import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  EngineError,
  limits,
  openEngine,
  type Engine,
  type ErrorReason,
  type Session,
  type SessionFiles,
  type Storage,
} from '../../src/index.js'
import { storages } from '../support/storages.js'

const targets = ['/a', '/d', '/d/x', '/']

describe.each(storages)('extended attributes on %s', (_name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session
  let files: SessionFiles

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'xattrs-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    use(await engine.sessions.create({ files: { '/a': 'one', '/d/x': 'x' } }))
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  function use(chosen: Session): void {
    session = chosen
    files = chosen.files
  }

  /** Unloads everything on durable storage, so that it is loaded again on demand. */
  async function reload(): Promise<void> {
    if (!lasting) return
    const { id } = session
    await engine.close()
    engine = await openEngine({ storage })
    use(await engine.sessions.open(id))
  }

  const set = (path: string, name: string, value: string | Uint8Array): Promise<void> =>
    files.setXattr({ path, name, value })
  const hashOf = async (of: Session = session): Promise<string> => (await of.manifest()).manifestHash

  async function all(path: string, of: Session = session): Promise<[string, string][]> {
    const found: [string, string][] = []
    for (const name of (await of.files.listXattrs({ path })).names)
      found.push([name, Buffer.from((await of.files.getXattr({ path, name })).value).toString('latin1')])
    return found
  }

  async function refuse(operation: () => Promise<unknown>, reason: ErrorReason): Promise<EngineError> {
    const before = await hashOf()
    const error: unknown = await operation().catch((thrown: unknown) => thrown)
    if (!(error instanceof EngineError)) throw error
    expect(error.reason).toBe(reason)
    expect(await hashOf()).toBe(before)
    return error
  }

  test.each(targets)('are set, listed, read, replaced and removed on %s', async (path) => {
    expect(await all(path)).toEqual([])
    await set(path, 'user.b', 'two')
    await set(path, 'user.a', Uint8Array.of(0, 255, 128, 10))
    await set(path, 'é', '')
    const expected = [
      ['user.a', '\0\u{ff}\u{80}\n'],
      ['user.b', 'two'],
      ['é', ''],
    ]
    expect(await all(path)).toEqual(expected)
    await reload()
    expect(await all(path)).toEqual(expected)
    await set(path, 'user.b', 'three')
    await files.removeXattr({ path, name: 'user.a' })
    await reload()
    expect(await all(path)).toEqual([
      ['user.b', 'three'],
      ['é', ''],
    ])
    await files.removeXattr({ path, name: 'user.b' })
    await files.removeXattr({ path, name: 'é' })
    expect(await all(path)).toEqual([])
  })

  test('follow symlinks, which have none of their own', async () => {
    await files.createSymlink({ linkPath: '/l', target: 'd/x' })
    await files.createSymlink({ linkPath: '/ld', target: 'd' })
    await files.createSymlink({ linkPath: '/nowhere', target: 'none' })
    await set('/l', 'n', '1')
    await set('/ld', 'n', '2')
    await set('/ld/x', 'm', '3')
    expect(await all('/d/x')).toEqual([
      ['m', '3'],
      ['n', '1'],
    ])
    expect(await all('/d')).toEqual([['n', '2']])
    await files.removeXattr({ path: '/l', name: 'n' })
    expect(await all('/ld/x')).toEqual([['m', '3']])
    await refuse(() => set('/nowhere', 'n', ''), 'PATH_NOT_FOUND')
    await refuse(() => files.listXattrs({ path: '/nowhere' }), 'PATH_NOT_FOUND')
    await refuse(() => files.getXattr({ path: '/none', name: 'n' }), 'PATH_NOT_FOUND')
    await refuse(() => files.removeXattr({ path: '/a/x', name: 'n' }), 'NOT_A_DIRECTORY')
  })

  test('accept names and values at their limits', async () => {
    const [long, value] = ['n'.repeat(255), new Uint8Array(64 * 1024).fill(9)]
    await set('/a', long, value)
    await set('/a', 'é'.repeat(127), 'x')
    await reload()
    expect(Buffer.from((await files.getXattr({ path: '/a', name: long })).value)).toEqual(Buffer.from(value))
    const tooLong = await refuse(() => set('/a', 'n'.repeat(256), ''), 'TOO_LARGE')
    expect(tooLong.details).toEqual({ field: 'name', limit: '255' })
    await refuse(() => set('/a', 'é'.repeat(128), ''), 'TOO_LARGE')
    await refuse(() => files.getXattr({ path: '/a', name: 'n'.repeat(256) }), 'TOO_LARGE')
    const tooMuch = await refuse(() => set('/a', 'n', new Uint8Array(64 * 1024 + 1)), 'TOO_LARGE')
    expect(tooMuch.details).toEqual({ field: 'value', limit: '65536' })
    await refuse(() => set('/a', 'n', 'é'.repeat(32 * 1024 + 1)), 'TOO_LARGE')
    await refuse(() => set('/a', '', ''), 'INVALID_ARGUMENT')
    await refuse(() => set('/a', 'a\0b', ''), 'INVALID_ARGUMENT')
    await refuse(() => set('/a', '\ud800', ''), 'INVALID_ARGUMENT')
    await refuse(() => set('a', 'n', ''), 'INVALID_ARGUMENT')
    await refuse(() => set('/a', 'n', 1 as unknown as string), 'INVALID_ARGUMENT')
    await refuse(() => set('/a', 1 as unknown as string, ''), 'INVALID_ARGUMENT')
    await refuse(() => files.setXattr(null as never), 'INVALID_ARGUMENT')
    await refuse(() => files.getXattr(undefined as never), 'INVALID_ARGUMENT')
    await refuse(() => files.listXattrs([] as never), 'INVALID_ARGUMENT')
    await refuse(() => files.removeXattr({ path: '/a', name: 'none' }), 'XATTR_NOT_FOUND')
    const missing = await refuse(() => files.getXattr({ path: '/a', name: 'none' }), 'XATTR_NOT_FOUND')
    expect(missing.details).toEqual({ name: 'none' })
  })

  test('accept names of object properties, and 256 names', async () => {
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty']
    for (const name of names) {
      await refuse(() => files.getXattr({ path: '/a', name }), 'XATTR_NOT_FOUND')
      await set('/a', name, name)
    }
    for (let i = names.length; i < 256; i++) await set('/a', `n${i}`, `${i}`)
    const error = await refuse(() => set('/a', 'more', ''), 'TOO_LARGE')
    expect(error.details['limit']).toBe('256')
    await set('/a', '__proto__', 'again')
    await reload()
    const found = await all('/a')
    expect(found.length).toBe(limits.xattrsPerNode)
    expect(found.map(([name]) => name)).toEqual(found.map(([name]) => name).toSorted())
    expect(new Map(found).get('__proto__')).toBe('again')
    expect(new Map(found).get('constructor')).toBe('constructor')
    await files.removeXattr({ path: '/a', name: 'constructor' })
    await set('/a', 'more', '')
  })

  test('copy values on the way in and out', async () => {
    const value = Buffer.from('mine')
    const done = set('/a', 'n', value)
    value.fill(0)
    await done
    const first = await files.getXattr({ path: '/a', name: 'n' })
    expect(Buffer.from(first.value).toString()).toBe('mine')
    first.value.fill(0)
    expect(await all('/a')).toEqual([['n', 'mine']])
    const request = { path: '/a', name: 'm', value: 'v' }
    const other = files.setXattr(request)
    Object.assign(request, { path: '/d', name: 'x' })
    await other
    expect(await all('/d')).toEqual([])
  })

  test('survive changes and moves of the file, and are deleted with it', async () => {
    await set('/a', 'n', 'v')
    await files.write({ path: '/a', content: 'two' })
    await files.append({ path: '/a', content: new Uint8Array(2 ** 20) })
    await files.setMode({ path: '/a', mode: 0o600 })
    await files.patchSegments({
      mutations: [{ path: '/a', segments: [{ hole: { offset: 0, length: 9 } }], mode: 0o644 }],
    })
    expect(await all('/a')).toEqual([['n', 'v']])
    await files.rename({ sourcePath: '/a', destinationPath: '/d/b' })
    await set('/d', 'd', 'w')
    await files.rename({ sourcePath: '/d', destinationPath: '/e' })
    await reload()
    expect(await all('/e/b')).toEqual([['n', 'v']])
    expect(await all('/e')).toEqual([['d', 'w']])
    await files.link({ srcPath: '/e/b', dstPath: '/c' })
    await set('/c', 'm', '')
    await files.rename({ sourcePath: '/e/x', destinationPath: '/e/b' })
    expect(await all('/e/b')).toEqual([])
    expect(await all('/c')).toEqual([
      ['m', ''],
      ['n', 'v'],
    ])
    await files.delete({ path: '/c' })
    await files.write({ path: '/c', content: '' })
    expect(await all('/c')).toEqual([])
    await reload()
    expect(await all('/e')).toEqual([['d', 'w']])
    await session.fs.promises.rm('/e', { recursive: true })
    await files.createDirectory({ path: '/e' })
    expect(await all('/e')).toEqual([])
  })

  test('are included in forks, checkpoints and restores, and are independent in a fork', async () => {
    for (const path of targets) await set(path, 'n', path)
    await session.checkpoint({ checkpointLabel: 'set' })
    const hash = await hashOf()
    const fork = await session.fork()
    for (const path of targets) {
      await set(path, 'n', 'changed')
      await set(path, 'm', '')
      expect(await all(path, fork)).toEqual([['n', path]])
    }
    expect(await hashOf(fork)).toBe(hash)
    await fork.files.removeXattr({ path: '/', name: 'n' })
    expect(await all('/')).toEqual([
      ['m', ''],
      ['n', 'changed'],
    ])
    await reload()
    await session.restore({ checkpointLabel: 'set' })
    expect(await hashOf()).toBe(hash)
    for (const path of targets) expect(await all(path)).toEqual([['n', path]])
    await reload()
    for (const path of targets) expect(await all(path)).toEqual([['n', path]])
    const again = await engine.sessions.open(fork.id)
    expect(await all('/', again)).toEqual([])
    expect(await all('/d', again)).toEqual([['n', '/d']])
  })

  test('affect hash and diff, independent of their order', async () => {
    await session.checkpoint({ checkpointLabel: 'none' })
    const sessionId = session.id
    const modified = async (): Promise<string[]> =>
      (await engine.diff({ from: { sessionId, checkpointLabel: 'none' }, to: { sessionId } }).paths())
        .modified
    const seen = new Set([await hashOf()])
    for (const path of targets) {
      const before = await hashOf()
      await set(path, 'a', '')
      seen.add(await hashOf())
      expect(await modified()).toEqual([path])
      await set(path, 'a', '1')
      seen.add(await hashOf())
      await set(path, 'b', '2')
      const both = await hashOf()
      seen.add(both)
      await reload()
      expect(await hashOf()).toBe(both)
      expect(await modified()).toEqual([path])
      await files.removeXattr({ path, name: 'a' })
      seen.add(await hashOf())
      await set(path, 'a', '1')
      expect(await hashOf()).toBe(both)
      await files.removeXattr({ path, name: 'b' })
      await files.removeXattr({ path, name: 'a' })
      expect(await hashOf()).toBe(before)
      expect(await modified()).toEqual([])
    }
    expect(seen.size).toBe(1 + 4 * targets.length)
    const other = await openEngine()
    const empty = await other.sessions.create({ files: { '/a': 'one', '/d/x': 'x' } })
    expect(await hashOf(empty)).toBe(await hashOf())
    await other.close()
  })
})
