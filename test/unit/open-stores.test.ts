/** A store that is open below a directory that callers may use. */
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Engine, type EngineScope } from '../../src/index.js'

let root: string
let store: string
let engine: Engine
let caller: EngineScope

beforeEach(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'open-stores-')))
  store = join(root, 'project/store')
  mkdirSync(join(root, 'project'))
  writeFileSync(join(root, 'project/a'), 'a')
  engine = await openEngine({ storage: levelStorage(store), hostPaths: { roots: [root] } })
  await engine.as({ tenant: 'other' }).sessions.create({ files: { '/secret': 'of another tenant' } })
  caller = engine.as({ tenant: 'caller' })
})

afterEach(async () => {
  await engine.close()
  rmSync(root, { recursive: true })
})

async function imported(path: string): Promise<string[]> {
  const { sourceId } = await caller.sources.create({ displayName: 'host', hostPath: { path } })
  await caller.sources.waitForJob(await caller.sources.startImport(sourceId))
  const session = await caller.sessions.create({ sourceRef: { sourceId } })
  return (await session.files.list({ path: '/', recursive: true })).entries.map(({ name }) => name)
}

describe('an open store', () => {
  test.each(['', 'segments', 'index'])('is not read by an import of its directory %s', async (name) => {
    symlinkSync(store, join(root, 'link'))
    for (const path of [join(store, name), join(root, 'link', name)])
      await expect(imported(path)).rejects.toMatchObject({
        message: expect.stringContaining('open store') as string,
      })
  })

  test('is left out of an import of a directory around it', async () => {
    expect(await imported(join(root, 'project'))).toEqual(['a'])
    await engine.close()
    engine = await openEngine({ hostPaths: { roots: [root] } })
    caller = engine
    expect(await imported(join(root, 'project'))).toContain('store')
  })

  test('is not changed by a checkout at, below or around it', async () => {
    const session = await caller.sessions.create({
      files: { '/store/segments/x': 'x', '/segments/x': 'x', '/x': 'x' },
    })
    for (const path of [store, join(store, 'segments'), join(store, 'new'), join(root, 'project')])
      await expect(session.checkout(path, { force: true })).rejects.toMatchObject({
        reason: 'HOST_PATH_NOT_ALLOWED',
      })
    const file = await caller.sessions.create({ files: { '/store': 'a file in the place of the store' } })
    await expect(file.checkout(join(root, 'project'), { force: true })).rejects.toMatchObject({
      reason: 'HOST_PATH_NOT_ALLOWED',
    })
    await engine.close()
    engine = await openEngine({ storage: levelStorage(store) })
    expect((await engine.check()).found).toBe(0)
    expect(['x', 'segments/x', 'new'].filter((name) => existsSync(join(store, name)))).toEqual([])
  })

  test('stays as it is when a checkout around it is synced', async () => {
    const session = await caller.sessions.create({ files: { '/b': 'b' } })
    const checkout = await session.checkout(join(root, 'project'), { force: true })
    expect(await checkout.sync()).toMatchObject({ added: ['/a'], modified: [], removed: [] })
    await checkout.update()
    expect((await engine.check()).found).toBe(0)
  })
})
