import { createFsFromVolume, Volume } from 'memfs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Engine, Session } from '../../src/index.js'
import { fromJSON, openTestEngine, toJSON } from '../../src/testing.js'

let engine: Engine
let session: Session
/** A memfs volume as the reference for these functions. */
let volume: Volume

beforeEach(async () => {
  engine = await openTestEngine()
  session = await engine.sessions.create()
  volume = new Volume()
})

afterEach(() => engine.close())

async function fill(files: Record<string, string | null>, cwd: string): Promise<void> {
  await fromJSON(session, files, cwd)
  volume.fromJSON(files, cwd)
}

const files = {
  'package.json': '{}',
  'src/b.ts': 'b',
  'src/a.ts': 'ä 日本',
  'src/../up.txt': 'up',
  '/absolute/file': 'x',
  './dot': '',
  'empty/dir': null,
  '/none/': null,
}

describe('fromJSON and toJSON', () => {
  test('write and read the same as memfs', async () => {
    await fill(files, '/app')
    const json = await toJSON(session)
    expect(json).toEqual(volume.toJSON())
    expect(json['/app/up.txt']).toBe('up')
    expect(json['/none']).toBeNull()
    expect(Object.getPrototypeOf(json)).toBeNull()
  })

  test('read a directory, a file and a missing path like memfs', async () => {
    await fill(files, '/app')
    for (const path of ['/', '/app', '/app/src/', '/app/src/a.ts', '/app/empty', '/none', '/nowhere']) {
      expect(await toJSON(session, path), path).toEqual(volume.toJSON(path))
    }
  })

  test('handle symlinks like memfs', async () => {
    await fill({ '/d/a': '1', '/only': null, '/b': '2' }, '/')
    for (const { promises } of [session.fs, createFsFromVolume(volume)]) {
      await promises.symlink('/d', '/only/directory')
      await promises.symlink('/b', '/file')
      await promises.symlink('/nowhere', '/dangling')
    }
    for (const path of ['/', '/only', '/only/directory', '/file', '/dangling']) {
      expect(await toJSON(session, path), path).toEqual(volume.toJSON(path))
    }
  })

  test('overwrite existing files and start at the root', async () => {
    await fromJSON(session, { a: 'one', b: new Uint8Array([104, 105]) })
    await fromJSON(session, { '/a': 'two' })
    expect(await toJSON(session)).toEqual({ '/a': 'two', '/b': 'hi' })
    expect(await toJSON(await engine.sessions.create())).toEqual({})
  })

  test('copy a session', async () => {
    await fromJSON(session, files)
    const copy = await engine.sessions.create()
    await fromJSON(copy, await toJSON(session))
    expect(await toJSON(copy)).toEqual(await toJSON(session))
  })

  test('report the conflicting entry', async () => {
    await fromJSON(session, { '/a': '1' })
    await expect(fromJSON(session, { '/a/b': '2' })).rejects.toMatchObject({ code: 'EEXIST' })
    await expect(fromJSON(session, { '/a/b/c': '2' })).rejects.toMatchObject({ code: 'ENOTDIR' })
    await expect(toJSON(session, '/a/b')).rejects.toMatchObject({ code: 'ENOTDIR' })
  })
})
