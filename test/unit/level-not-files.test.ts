/** A store with a directory, a pipe or a link in the place of one of its files. */
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, rename, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Engine } from '../../src/index.js'

let directory: string
let engine: Engine

const open = (): Promise<Engine> => openEngine({ storage: levelStorage(join(directory, 'store')) })

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'level-not-files-'))
  engine = await open()
  await engine.sessions.create({ files: { '/a': '1' } })
})
afterEach(async () => {
  await engine.close().catch(() => undefined)
  await rm(directory, { recursive: true })
})

async function replace(name: string): Promise<void> {
  const path = join(directory, 'store', name)
  await rename(path, join(directory, 'aside'))
  await mkdir(path)
}

test.each(['forkspace.json', 'index/pages', 'segments/manifest'])(
  'a check reports that %s is a directory',
  async (name) => {
    await replace(name)
    const { findings } = await engine.check()
    expect(findings).toEqual([
      { problem: 'damaged', object: `file ${name}`, message: 'cannot be read: EISDIR' },
    ])
  },
)

test.each(['forkspace.json', 'index/pages', 'index/CURRENT', 'segments/manifest', 'segments/00000001.seg'])(
  'the error of an opening names %s, which is a directory',
  async (name) => {
    await engine.close()
    await replace(name)
    await expect(open()).rejects.toMatchObject({
      reason: 'DATA_LOSS',
      details: { file: name },
      message: expect.stringMatching(/^\S+ is a directory instead of a file\. Restore a backup/) as string,
    })
  },
)

test.skipIf(process.platform === 'win32').each([
  ['a pipe', 'ESPIPE', 'segments/00000001.seg', (path: string) => void execFileSync('mkfifo', [path])],
  ['a link to itself', 'ELOOP', 'segments/00000001.seg', (path: string) => symlink(path, path)],
  ['a link to itself', 'ELOOP', 'forkspace.json', (path: string) => symlink(path, path)],
])('the error of an opening names %s (%s) in the place of %s', async (_, code, name, make) => {
  await engine.close()
  const path = join(directory, 'store', name)
  await rename(path, join(directory, 'aside'))
  await make(path)
  const refused = open()
  await expect(refused).rejects.toMatchObject({ reason: 'DATA_LOSS', details: { file: name } })
  await expect(refused).rejects.toThrow(`${name} is not a file that can be read (${code}). Restore a backup`)
})
