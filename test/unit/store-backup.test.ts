import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { backupStore, checkStore, levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Storage } from '../../src/index.js'
import { bundledProject } from '../support/compile-source.js'
import { contentsOf, entriesOf, filesOf, fillStore, flip, smallSegments } from '../support/store-files.js'

let root: string

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'forkspace-backup-'))
})

afterAll(() => rm(root, { recursive: true, force: true }))

const open = (storage: Storage): ReturnType<typeof openEngine> => openEngine({ storage })

describe('a backup', () => {
  test('of an unused store is an identical store that can be opened', async () => {
    const [directory, target] = [join(root, 'idle'), join(root, 'backups', 'idle')]
    await fillStore(directory)
    const before = await filesOf(directory)
    const seen: number[] = []
    const backup = await backupStore(directory, target, {
      onProgress: ({ copiedBytes }) => seen.push(copiedBytes),
    })
    expect(await filesOf(directory)).toEqual(before)
    expect(seen.at(-1)).toBe(backup.bytes)
    expect(Object.keys(await filesOf(target)).filter((name) => !name.startsWith('segments'))).toEqual([
      'forkspace.json',
    ])
    expect(await checkStore(target, { readData: true })).toMatchObject({ found: 0 })
    expect(await contentsOf(target)).toEqual(await contentsOf(directory))
  })

  test('of a store open in this process contains all acknowledged data', async () => {
    const [directory, target] = [join(root, 'open'), join(root, 'open-copy')]
    await using engine = await open(smallSegments(directory))
    const session = await engine.sessions.create({ files: { '/a': 'a' } })
    for (let i = 0; i < 200; i++) await session.files.write({ path: `/f${i}`, content: `${i} `.repeat(500) })
    await backupStore(directory, target)
    expect((await checkStore(directory, { readData: true })).findings).toEqual([])
    await using copy = await open(levelStorage(target))
    const copied = await copy.sessions.open(session.id)
    expect((await copied.manifest()).manifestHash).toBe((await session.manifest()).manifestHash)
    expect((await copy.check({ readData: true })).findings).toEqual([])
  })

  test('requires a free target, and leaves nothing behind when it is aborted or finds damage', async () => {
    const [directory, target] = [join(root, 'ended'), join(root, 'ended-copy')]
    await fillStore(directory)
    await mkdir(target)
    await writeFile(join(target, 'mine'), 'mine')
    await expect(backupStore(directory, target)).rejects.toMatchObject({ reason: 'ALREADY_EXISTS' })
    expect(await readdir(target)).toEqual(['mine'])
    await rm(join(target, 'mine'))
    await cp(join(directory, 'forkspace.json'), join(root, 'a-file'))
    await expect(backupStore(directory, join(root, 'a-file'))).rejects.toMatchObject({
      reason: 'ALREADY_EXISTS',
    })
    const reason = new Error('enough')
    const ending = new AbortController()
    const onProgress = (): void => ending.abort(reason)
    await expect(backupStore(directory, target, { signal: ending.signal, onProgress })).rejects.toBe(reason)
    expect(await readdir(target)).toEqual([])
    const entries = await entriesOf(directory)
    const damaged = join(root, 'damaged')
    await cp(directory, damaged, { recursive: true })
    await flip(entries[3]!.path.replace(directory, damaged), entries[3]!.offset + 20)
    await expect(backupStore(damaged, target)).rejects.toMatchObject({
      reason: 'DATA_LOSS',
      details: { file: expect.stringMatching(/^segments\/\d{8}\.seg$/) },
    })
    expect(await readdir(target)).toEqual([])
    await rm(join(damaged, 'segments', 'manifest'))
    await expect(backupStore(damaged, target)).rejects.toMatchObject({
      reason: 'DATA_LOSS',
      details: { file: 'segments/manifest' },
    })
  })

  test('that was interrupted cannot be opened as a store', async () => {
    const [directory, whole] = [join(root, 'cut'), join(root, 'cut-whole')]
    await fillStore(directory)
    await backupStore(directory, whole)
    const names = (await readdir(join(whole, 'segments'))).sort()
    // In the order of writing, in which the marker comes last.
    for (let count = 1; count <= names.length; count++) {
      const cut = join(root, `cut-${count}`)
      await mkdir(join(cut, 'segments'), { recursive: true })
      for (const name of names.slice(0, count))
        await cp(join(whole, 'segments', name), join(cut, 'segments', name))
      await expect(open(levelStorage(cut))).rejects.toMatchObject({
        reason: expect.stringMatching(/^(STORE_FORMAT|DATA_LOSS)$/),
      })
    }
  })
})

describe('while another process writes and collects', { timeout: 120_000 }, () => {
  let writer: ChildProcess
  let directory: string
  let sessionId: string
  let acknowledged = -1
  const lines: (() => void)[] = []

  beforeAll(async () => {
    directory = join(root, 'busy')
    const script = resolve(import.meta.dirname, '../support/busy-writer.mjs')
    const compiled = join(await bundledProject(), 'src')
    writer = spawn(process.execPath, [script, compiled, directory, String(256 * 1024)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    createInterface({ input: writer.stdout! }).on('line', (line) => {
      if (line.startsWith('session ')) sessionId = line.slice('session '.length)
      else acknowledged = Number(line)
      for (const done of lines.splice(0)) done()
    })
    await until(50)
  })

  afterAll(() => {
    writer.kill('SIGKILL')
  })

  async function until(count: number): Promise<void> {
    while (acknowledged < count) await new Promise<void>((done) => lines.push(done))
  }

  test('a backup is complete and contains all data acknowledged before it started', async () => {
    const segments = new Set<string>()
    for (let run = 0; run < 4; run++) {
      await until(acknowledged + 20)
      for (const name of await readdir(join(directory, 'segments'))) segments.add(name)
      const before = acknowledged
      const target = join(root, `busy-${run}`)
      await backupStore(directory, target)
      expect((await checkStore(target, { readData: true })).findings).toEqual([])
      await using engine = await open(levelStorage(target))
      const session = await engine.sessions.open(sessionId)
      for (let n = 0; n <= before; n++) {
        const content = Buffer.from(await session.files.read({ path: `/f${n}` })).toString()
        expect(content).toBe(`content ${n} `.repeat(100))
      }
      expect((await engine.check({ readData: true })).findings).toEqual([])
    }
    // Segments were created and deleted meanwhile.
    const left = await readdir(join(directory, 'segments'))
    expect([...segments].filter((name) => !left.includes(name)).length).toBeGreaterThan(0)
  })

  test('a check finds nothing while the writer runs or after its death, and changes nothing', async () => {
    for (let run = 0; run < 3; run++)
      expect((await checkStore(directory, { readData: true })).findings).toEqual([])
    await expect(open(levelStorage(directory))).rejects.toMatchObject({ reason: 'STORE_LOCKED' })
    const exited = once(writer, 'exit')
    writer.kill('SIGKILL')
    await exited
    const before = await filesOf(directory)
    expect((await checkStore(directory, { readData: true })).findings).toEqual([])
    expect(await filesOf(directory)).toEqual(before)
    await using engine = await open(levelStorage(directory))
    expect((await engine.check({ readData: true })).findings).toEqual([])
  })
})
