import { execFileSync, spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  cp,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  realpath,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { Worker } from 'node:worker_threads'
import { crc32 } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { OpenIndex } from '../../src/adapters/level/index/index-database.js'
import { openIndexFile } from '../../src/adapters/level/index/index-file.js'
import { checkStore, levelStorage } from '../../src/adapters/level/index.js'
import type { LevelStorageOptions, StoreCheck } from '../../src/adapters/level/index.js'
import { openLevelStore } from '../../src/adapters/level/open-level-store.js'
import type { EngineError, Store, StoreFinding } from '../../src/engine/ports.js'
import { bundleSource } from '../support/compile-source.js'
import type { CompiledSource } from '../support/compile-source.js'
import { FaultyDisk } from '../support/faulty-disk.js'
import { randomBytes } from '../support/random-bytes.js'
import { isLong, stepOf } from '../support/seed.js'

/** Runs a shell command with its own mounts, without root. */
const ownMounts = ['unshare', '-Urm', 'sh', '-c'] as const

let directory: string
let data: string

/** A store with earlier commits. */
let past: string
beforeAll(async () => {
  past = await mkdtemp(join(tmpdir(), 'level-storage-past-'))
  await populateFirst(past)
})
afterAll(() => rm(past, { recursive: true, force: true }))

beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'level-storage-')))
  data = join(directory, 'data')
})

afterEach(() => rm(directory, { recursive: true, force: true }))

describe('arguments', () => {
  test('of a wrong type are rejected', () => {
    expect(() => levelStorage('')).toThrow('directory')
    expect(() => levelStorage('a\0b')).toThrow('directory')
    expect(() => levelStorage(data, { durability: 'none' } as unknown as LevelStorageOptions)).toThrow(
      'durability',
    )
  })

  test('access nothing before the store is opened', async () => {
    levelStorage(data)
    expect(await readdir(directory)).toEqual([])
  })
})

describe('the marker', () => {
  test('stores the format and the id of the store permanently', async () => {
    await (await open()).close()
    const first = await readFile(join(data, 'forkspace.json'), 'utf8')
    expect(JSON.parse(first)).toEqual({ format: 2, storeId: expect.stringMatching(/^[0-9a-f-]{36}$/) })
    await (await open()).close()
    expect(await readFile(join(data, 'forkspace.json'), 'utf8')).toBe(first)
    expect((await readdir(data)).sort()).toEqual(['forkspace.json', 'index', 'segments'])
  })

  test('creates missing parents of the directory', async () => {
    data = join(directory, 'a/b/c')
    await (await open()).close()
    expect(await readdir(data)).toContain('forkspace.json')
  })

  test('rejects a directory with other contents and does not change it', async () => {
    for (const name of ['file.txt', '.hidden', 'index', 'forkspace.json.old']) {
      const foreign = join(directory, `with-${name}`)
      await mkdir(join(foreign, name), { recursive: true })
      const before = await contents(foreign)
      expect((await rejection(levelStorage(foreign).open())).reason).toBe('STORE_FORMAT')
      expect(await contents(foreign)).toEqual(before)
    }
  })

  test('rejects a path that is not a directory', async () => {
    await writeFile(data, 'text')
    expect((await rejection(open())).reason).toBe('STORE_FORMAT')
    data = join(data, 'below')
    expect((await rejection(open())).reason).toBe('STORE_FORMAT')
  })

  test('rejects a newer format and changes nothing', async () => {
    await populate()
    for (const format of [3, 1000, 0]) {
      await writeFile(join(data, 'forkspace.json'), JSON.stringify({ format, anything: { else: 1 } }))
      const before = await contents(data)
      const error = await rejection(open())
      expect(error).toMatchObject({
        reason: 'STORE_FORMAT',
        details: { format: String(format), supported: '2' },
      })
      expect(await contents(data)).toEqual(before)
    }
  })

  test('fails with DATA_LOSS for a malformed list of segments with a correct checksum', async () => {
    await populate()
    const path = join(data, 'segments/manifest')
    const [json] = (await readFile(path, 'utf8')).split('\n')
    const manifest = JSON.parse(json!) as Record<string, unknown>
    const wrong = [
      'no json',
      'null',
      '[]',
      ...[
        { storeId: undefined },
        { sealed: {} },
        { sealed: [{ segment: 1, bytes: 1, commit: 1 }] },
        { head: '1' },
        { syncedTo: -1 },
      ].map((change) => JSON.stringify({ ...manifest, ...change })),
    ]
    for (const text of wrong) {
      const checksum = crc32(`${text}\n`).toString(16).padStart(8, '0')
      await writeFile(path, `${text}\n${checksum}\n`)
      expect(await rejection(open()), text).toMatchObject({
        reason: 'DATA_LOSS',
        details: { file: 'segments/manifest' },
      })
    }
  })

  test('fails with DATA_LOSS if it is damaged', async () => {
    await populate()
    for (const text of [
      '',
      '{',
      'null',
      '[]',
      '"text"',
      '{}',
      '{"format":"1"}',
      '{"format":1.5}',
      '{"format":1}',
      '{"format":2}',
    ]) {
      await writeFile(join(data, 'forkspace.json'), text)
      const error = await rejection(open())
      expect(error).toMatchObject({ reason: 'DATA_LOSS', details: { supported: '2' } })
      expect(error.details).toHaveProperty('format')
    }
  })
})

describe('opening completes an interrupted creation', () => {
  const claim = 'forkspace.json.new'

  test.each([
    ['before the claim', async () => mkdir(data)],
    ['after the claim', async () => unfinished({})],
    ['before LevelDB wrote', async () => mkdir(join(await unfinished({}), 'index'))],
    ['before CURRENT', async () => unfinished({ LOCK: '', LOG: '', 'MANIFEST-000001': 'partial' })],
    [
      'when the first manifest was lost in a power cut',
      async () => unfinished({ LOCK: '', CURRENT: 'MANIFEST-000001\n', 'MANIFEST-000001': '' }),
    ],
    [
      'before the marker',
      async () => {
        await (await open()).close()
        await rename(join(data, 'forkspace.json'), join(data, claim))
      },
    ],
    [
      'by a late second creator',
      async () => {
        await (await open()).close()
        await writeFile(join(data, claim), '')
      },
    ],
  ])('%s', async (_, prepare) => {
    await prepare()
    for (let i = 1; i <= 2; i++) {
      const store = await open()
      expect(await store.commit({ put: [[`open ${i}`, 'yes']] })).toBe(true)
      expect(await store.get('open 1')).toBe('yes')
      await store.close()
      expect((await readdir(data)).sort()).toEqual(['forkspace.json', 'index', 'segments'])
    }
  })

  async function unfinished(index: Record<string, string>): Promise<string> {
    await mkdir(data)
    await writeFile(join(data, claim), '')
    for (const [name, text] of Object.entries(index)) {
      await mkdir(join(data, 'index'), { recursive: true })
      await writeFile(join(data, 'index', name), text)
    }
    return data
  }
})

describe('damaged files', () => {
  test('rebuilds a damaged index or lock', async () => {
    await populate()
    const image = join(directory, 'image')
    await rename(data, image)
    const current = await readFile(join(image, 'index/CURRENT'), 'utf8')
    const manifest = `index/${current.trim()}`
    const pages = await readFile(join(image, 'index/pages'), 'latin1')
    const damages: [string, string][] = [
      ['index/CURRENT', ''],
      ['index/CURRENT', 'garbage'],
      ['index/CURRENT', 'garbage\n'],
      ['index/CURRENT', 'MANIFEST-999999\n'],
      [manifest, ''],
      [manifest, 'garbage'.repeat(1000)],
      ['index/000005.ldb', 'garbage'],
      ['index/000003.log', 'garbage'.repeat(1000)],
      ['index/LOCK', 'garbage'],
      ['index/pages', ''],
      ['index/pages', 'garbage'],
      ['index/pages', 'garbage'.repeat(1000)],
      ['index/pages', pages.slice(0, 16)],
      ['index/pages', pages.slice(0, 40)],
      ['index/pages', pages.slice(0, -1)],
      ['index/pages', `${pages}garbage`],
      ['index/pages', pages.slice(0, 16) + pages],
      ['index/pages.new', 'garbage'],
    ]
    for (const [file, text] of damages.filter((_, index) => index % stepOf(3) === 0)) {
      await cp(image, data, { recursive: true })
      await writeFile(join(data, file), text, 'latin1')
      const store = await open()
      expect([file, text, await isComplete(store)]).toEqual([file, text, true])
      await store.close()
      await rm(data, { recursive: true })
    }
  })

  test('a check of an open store reports and rebuilds a truncated, damaged, replaced or removed index', async () => {
    await populate()
    const pages = join(data, 'index/pages')
    const whole = await readFile(pages)
    const damaged = Buffer.from(whole)
    damaged[whole.length >> 1]! ^= 1
    const changes: [string, () => Promise<void>][] = [
      ['truncated', () => truncate(pages, whole.length - 1)],
      ['emptied', () => truncate(pages, 0)],
      ['damaged', () => writeFile(pages, damaged)],
      ['removed', () => rm(pages)],
      [
        'replaced',
        async () => {
          await rm(pages)
          await writeFile(pages, Buffer.concat([Buffer.from('fkspidx1'), Buffer.alloc(100)]))
        },
      ],
    ]
    for (const [name, change] of changes) {
      const store = await open()
      await change()
      expect([name, (await findingsOf(store)).map(({ object }) => object)]).toEqual([
        name,
        ['file index/pages'],
      ])
      expect([name, await findingsOf(store)]).toEqual([name, []])
      expect([name, await isComplete(store)]).toEqual([name, true])
      await store.close()
    }
  })

  test('a check of files reports a damaged index as a finding after a close, and as a note after a kill', async () => {
    await populate()
    const pages = join(data, 'index/pages')
    const bytes = await readFile(pages)
    bytes[bytes.length >> 1]! ^= 1
    await writeFile(pages, bytes)
    const stateOf = async (): Promise<Pick<StoreCheck, 'findings' | 'notes'>> => {
      const { findings, notes } = await checkStore(data)
      return { findings: findings.filter(({ object }) => object.startsWith('file ')), notes }
    }
    const closed = await stateOf()
    expect(closed.findings).toMatchObject([{ problem: 'damaged', object: 'file index/pages' }])
    expect(closed.notes).toEqual([])
    // A process that ends without closing its store leaves this file.
    await writeFile(join(data, 'owner.json'), '{}')
    const killed = await stateOf()
    expect(killed.findings).toEqual([])
    expect(killed.notes).toEqual([`index/pages: ${closed.findings[0]!.message}`])
  })

  test('a read of a damaged segment fails with DATA_LOSS that names the lost data', async () => {
    await populate()
    const segment = join(data, 'segments/00000001.seg')
    const bytes = await readFile(segment)
    const damaged = bytes.indexOf('k000017value 17', 0, 'latin1') + 10
    bytes[damaged]! ^= 1
    const inBlob = bytes.indexOf(Buffer.from(String(recordCount - 1).padStart(64, '0'), 'hex')) + 1000
    bytes[inBlob]! ^= 1
    await writeFile(segment, bytes)
    const store = await open()
    const lost = { reason: 'DATA_LOSS', details: { file: 'segments/00000001.seg', key: 'k000017' } }
    expect(await rejection(store.get('k000017'))).toMatchObject(lost)
    expect(() => store.getSync!('k000017')).toThrow(expect.objectContaining({ reason: 'DATA_LOSS' }))
    for (const reverse of [false, true]) {
      const scan = store.scan({ gte: 'k000010', lt: 'k000020', limit: 10, reverse })
      expect(await rejection(scan)).toMatchObject(lost)
    }
    const hash = String(recordCount - 1).padStart(64, '0')
    const blob = { reason: 'DATA_LOSS', details: { blob: hash } }
    expect(await rejection(store.blob(hash, { offset: 0, length: 1 }))).toMatchObject(blob)
    expect(await store.get('k000018')).toBe('value 18')
    await store.close()
  })

  test('an event that is not a JSON array fails with DATA_LOSS', async () => {
    const sessionId = 'x'.repeat(36)
    const store = await open()
    for (const [i, body] of ['[1]', '{broken', '{}'].entries()) {
      await store.commit({ events: [{ sessionId, seq: i + 1, body }] })
    }
    for (const seq of [2, 3]) {
      const read = async (): Promise<void> => {
        for await (const page of store.events(sessionId, { from: seq, to: seq })) expect(page).toEqual([])
      }
      const details = { sessionId, seq: String(seq) }
      expect(await rejection(read())).toMatchObject({ reason: 'DATA_LOSS', details })
    }
    await store.close()
  })
})

describe('single opener', () => {
  let compiled: CompiledSource

  beforeAll(async () => {
    compiled = await bundleSource()
  })

  test('rejects a second opener of the same directory under any path with STORE_LOCKED', async () => {
    const store = await open()
    const alias = join(directory, 'alias')
    await symlink(data, alias)
    const parentAlias = join(directory, 'parent')
    await symlink(directory, parentAlias)
    const names = [data, `${data}/`, relative(process.cwd(), data), alias, join(parentAlias, 'data')]
    for (const name of names) expect((await rejection(levelStorage(name).open())).reason).toBe('STORE_LOCKED')

    vi.resetModules()
    const copy = await import('../../src/adapters/level/index.js')
    expect(copy.levelStorage).not.toBe(levelStorage)
    expect((await rejection(copy.levelStorage(alias).open())).reason).toBe('STORE_LOCKED')

    await store.close()
    for (const name of names) await (await levelStorage(name).open()).close()
    await (await copy.levelStorage(alias).open()).close()
  })

  test('lets only one of several concurrent opens succeed', async () => {
    const opened = await Promise.allSettled(Array.from({ length: 10 }, () => open()))
    const stores = opened.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    expect(stores.length).toBe(1)
    await stores[0]!.close()
  })

  test('leaves no lock after a failed open', async () => {
    await mkdir(data)
    await writeFile(join(data, 'other'), '')
    expect((await rejection(open())).reason).toBe('STORE_FORMAT')
    await rm(join(data, 'other'))
    await (await open()).close()
  })

  test('locks other processes out, and is locked out by them', async () => {
    const store = await open()
    expect(await openInChild()).toBe('STORE_LOCKED')
    // A rejected attempt of the same process must not release the lock.
    expect((await rejection(open())).reason).toBe('STORE_LOCKED')
    expect(await openInChild()).toBe('STORE_LOCKED')
    await store.close()

    const holder = child(
      `const store = await levelStorage(directory).open(); console.log('open'); setInterval(() => {}, 1e6)`,
    )
    await lineOf(holder)
    const { reason, details } = await rejection(open())
    expect(reason).toBe('STORE_LOCKED')
    expect(details).toEqual({ pid: String(holder.pid), since: details['since'], host: hostname() })
    expect(Date.parse(details['since']!)).toBeLessThanOrEqual(Date.now())
    await kill(holder)
    await (await open()).close()
  })

  test('does not name an owner that is unknown or has exited', async () => {
    const store = await open()
    const gone = spawnSync(process.execPath, ['-e', '']).pid
    const since = new Date().toISOString()
    const texts = [
      '',
      'null',
      '{',
      JSON.stringify({ pid: gone, since, host: hostname() }),
      JSON.stringify({ pid: '1', since, host: hostname() }),
      JSON.stringify({ pid: 1, since: 'today\u001b[2J', host: hostname() }),
      JSON.stringify({ pid: 1, since, host: 'h'.repeat(1000) }),
    ]
    for (const text of texts.filter((_, index) => index % stepOf(2) === 0)) {
      await writeFile(join(data, 'owner.json'), text)
      expect(await openInChild('JSON.stringify(error.details)')).toBe('{}')
    }
    await store.close()
    expect(await readdir(data)).toEqual(['forkspace.json', 'index', 'segments'])
  })

  test('stays locked for a child process started meanwhile, until it is closed', async () => {
    const store = await open()
    const started = child(`
      const outcome = () => levelStorage(directory).open().then(() => 'opened', (error) => error.reason + ': ' + error.message)
      console.log(await outcome())
      process.stdin.on('data', async () => console.log(await outcome()))`)
    const ended = once(started, 'exit')
    expect(await lineOf(started)).toMatch(/^STORE_LOCKED: .*in another process/)
    await store.close()
    started.stdin!.write('again')
    expect(await lineOf(started)).toBe('opened')
    started.stdin!.write('again')
    expect(await lineOf(started)).toMatch(/^STORE_LOCKED: .*in this process/)
    // The lock must survive the attempt that was just rejected.
    expect((await rejection(open())).reason).toBe('STORE_LOCKED')
    started.kill('SIGKILL')
    await ended
    await (await open()).close()
  })

  test('locks out a worker thread, whose attempt does not release the lock for other processes', async () => {
    const store = await open()
    const alias = join(directory, 'alias')
    await symlink(data, alias)
    for (const name of [data, alias]) {
      const source = `
        const { parentPort } = require('node:worker_threads')
        import(${JSON.stringify(compiled.url('adapters/level/index.js'))})
          .then(({ levelStorage }) => levelStorage(${JSON.stringify(name)}).open())
          .then(() => 'opened', (error) => error.reason ?? String(error))
          .then((outcome) => parentPort.postMessage(outcome))`
      const worker = new Worker(source, { eval: true })
      const [outcome] = (await once(worker, 'message')) as [string]
      await worker.terminate()
      expect(outcome).toBe('STORE_LOCKED')
      // On other systems the rejected attempt releases the lock for other processes.
      const outside = process.platform === 'linux' ? await openInChild() : 'STORE_LOCKED'
      expect(outside).toBe('STORE_LOCKED')
    }
    await store.close()
  })

  test.skipIf(!canMount())('locks a directory that is mounted twice, also for a worker thread', async () => {
    await (await open()).close()
    const second = join(directory, 'second')
    await mkdir(second)
    // Workers inherit the module type of the script.
    const attempt = `import { parentPort } from 'node:worker_threads'
        import { levelStorage } from ${JSON.stringify(compiled.url('adapters/level/index.js'))}
        const outcome = levelStorage(${JSON.stringify(second)}).open().then(() => 'opened', (error) => error.reason)
        parentPort.postMessage(await outcome)`
    const script = `
        import { once } from 'node:events'
        import { Worker } from 'node:worker_threads'
        const open = (path) => levelStorage(path).open().then(() => 'opened', (error) => error.reason)
        const outcomes = [await open(directory), await open(${JSON.stringify(second)})]
        const [outcome] = await once(new Worker(${JSON.stringify(attempt)}, { eval: true }), 'message')
        console.log([...outcomes, outcome].join(' '))
        process.exit()`
    const mounted = child(script, [
      ...ownMounts,
      'mount --bind "$1" "$2"; shift 2; exec "$@"',
      'sh',
      data,
      second,
    ])
    expect(await lineOf(mounted)).toBe('opened STORE_LOCKED STORE_LOCKED')
  })

  test('keeps the lock while the index is reopened', async () => {
    let fail = false
    const opened: Promise<string>[] = []
    const openIndex: OpenIndex = async (disk, path, options) => {
      const db = await openIndexFile(disk, path, options)
      if (fail)
        opened.push(
          lineOf(child(`await levelStorage(directory).open().catch((error) => console.log(error.reason))`)),
        )
      await opened.at(-1)
      return {
        getSync: (key) => db.getSync(key),
        batch: (operations, how) =>
          fail ? Promise.reject(new Error('EIO: i/o error, write')) : db.batch(operations, how),
        damages: () => db.damages(),
        compact: () => db.compact(),
        close: () => db.close(),
      }
    }
    const store = await openLevelStore(data, { durability: 'full', openIndex })
    await store.commit({ put: [['who', 'the first']] })
    fail = true
    await expect(store.reclaim()).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    await store.recover()
    expect(await Promise.all(opened)).not.toEqual([])
    expect(new Set(await Promise.all(opened))).toEqual(new Set(['STORE_LOCKED']))
    expect(await store.commit({ put: [['again', 'the first']] })).toBe(true)
    await store.close()
  })

  test.runIf(isLong)('keeps acknowledged commits after kill -9', { timeout: 120_000 }, async () => {
    let acknowledged = 0
    for (let kills = 0; kills < 4; kills++) {
      const durability = kills % 2 === 0 ? 'full' : 'relaxed'
      const writer = child(`
        const sessionId = 'k'.repeat(36)
        const store = await levelStorage(directory, { durability: '${durability}' }).open()
        let seq = (await store.lastEvent(sessionId))?.seq ?? 0
        const bytes = new Uint8Array(3000).fill(7)
        for (;;) {
          const group = []
          for (let i = 0; i < 20; i++) {
            const hash = String(++seq).padStart(64, '0')
            const put = [['head', String(seq)], ['at' + seq, hash]]
            group.push(store.commit({ events: [{ sessionId, seq, body: [seq] }], put, blobs: [{ hash, bytes }] }))
          }
          for (const [i, done] of group.entries()) {
            if (await done) process.stdout.write(String(seq - 19 + i) + '\\n')
          }
        }`)
      const lines = createInterface({ input: writer.stdout! })
      lines.on('line', (line) => (acknowledged = Math.max(acknowledged, Number(line))))
      await once(lines, 'line')
      await new Promise((resolve) => setTimeout(resolve, 10 + ((kills * 73) % 200)))
      await kill(writer)

      const store = await open()
      const sessionId = 'k'.repeat(36)
      const last = (await store.lastEvent(sessionId))!.seq
      expect(last).toBeGreaterThanOrEqual(acknowledged)
      expect(await store.get('head')).toBe(String(last))
      let seq = 0
      const damaged: number[] = []
      for await (const page of store.events(sessionId, { from: 1, to: Infinity })) {
        for (const event of page) {
          const hash = String(++seq).padStart(64, '0')
          const whole = event.seq === seq && event.body[0] === seq && store.getSync?.(`at${seq}`) === hash
          if (!whole || store.blobSync?.(hash, { offset: 2999, length: 2 })?.[0] !== 7) damaged.push(seq)
        }
      }
      expect(damaged).toEqual([])
      expect(seq).toBe(last)
      await store.close()
    }
    expect(acknowledged).toBeGreaterThan(200)
  })

  test.skipIf(!canMount())('a full disk stops writes and loses nothing', { timeout: 120_000 }, async () => {
    const script = `
      import { rm, writeFile } from 'node:fs/promises'
      await writeFile(directory + '/ballast', new Uint8Array(2 ** 20))
      const storage = levelStorage(directory + '/data')
      let store = await storage.open()
      const kept = [], failures = []
      const bytes = new Uint8Array(50_000).map((_, i) => (i * 2654435761) >>> 13)
      const commit = (n) => store.commit({ put: [['k' + n, String(n)]], blobs: [{ hash: String(n).padStart(64, '0'), bytes }] })
      for (let n = 0; failures.length === 0; n += 3) {
        const settled = await Promise.allSettled([commit(n), commit(n + 1), commit(n + 2)])
        settled.forEach((result, i) => result.status === 'fulfilled' ? kept.push(n + i) : failures.push(result.reason))
      }
      const later = await commit(1e6).catch((error) => error)
      const has = (n) => store.getSync('k' + n) === String(n) && store.blobSync(String(n).padStart(64, '0'), { offset: 0, length: 1e6 })?.length === 50_000
      const readable = kept.every(has)
      await store.recover().catch((error) => error.reason)
      await rm(directory + '/ballast')
      await store.recover()
      const works = await commit(2e6)
      kept.push(2e6)
      await store.close()
      store = await storage.open()
      const present = kept.every(has)
      await store.close()
      console.log(JSON.stringify({ first: failures[0].reason, outcome: failures[0].details.outcome, cause: String(failures[0].cause), later: later.reason, acknowledged: kept.length > 10, readable, present, works }))`
    const mounted = await mkdir(data, { recursive: true })
    expect(mounted).toBe(data)
    const full = child(script, [
      ...ownMounts,
      'mount -t tmpfs -o size=8m tmpfs "$1"; shift; exec "$@"',
      'sh',
      data,
    ])
    const report: unknown = JSON.parse(await lineOf(full))
    expect(report).toEqual({
      first: 'STORE_FULL',
      outcome: 'unknown',
      cause: expect.stringContaining('no space left'),
      later: 'STORE_FAILED',
      acknowledged: true,
      readable: true,
      present: true,
      works: true,
    })
  })

  /** A process that runs the script with `levelStorage` and `directory` in scope. */
  function child(script: string, prefix: readonly string[] = []): ChildProcess {
    const url = compiled.url('adapters/level/index.js')
    const imports = `import { levelStorage } from ${JSON.stringify(url)}\nconst directory = ${JSON.stringify(data)}\n`
    const command = [...prefix, process.execPath, '--input-type=module', '-e', imports + script]
    return spawn(command[0]!, command.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] })
  }

  async function openInChild(shown = 'error.reason'): Promise<string> {
    const script = `levelStorage(directory).open().then(() => 'opened', (error) => ${shown}).then((text) => { console.log(text); process.exit() })`
    return lineOf(child(script))
  }
})

describe('commits', () => {
  test('of one turn share a write, and commits during a write share the next', async () => {
    const { store, disk } = await instrumented('full')
    const put = (key: string): Promise<boolean> => store.commit({ put: [[key, 'x']] })
    // This one also reserves space, which is another write.
    await put('first')
    const before = disk.segmentWrites.length
    await Promise.all([put('a'), put('b'), put('c')])
    expect(disk.segmentWrites.length - before).toBe(1)
    const first = put('d')
    await new Promise((resolve) => queueMicrotask(() => queueMicrotask(() => resolve(undefined))))
    await Promise.all([first, put('e'), put('f')])
    expect(disk.segmentWrites.length - before).toBe(3)
    await store.close()
  })

  test.runIf(isLong)('are spread over writes of bounded size without splitting a commit', async () => {
    const { store, disk } = await instrumented()
    const blob = (n: number): { hash: string; bytes: Uint8Array } => ({
      hash: String(n).padStart(64, '0'),
      bytes: new Uint8Array(2 ** 20),
    })
    const before = disk.segmentWrites.length
    const writes = (): number[] =>
      disk.segmentWrites.slice(before).map((bytes) => Math.floor(bytes / 2 ** 20))
    await Promise.all(Array.from({ length: 20 }, (_, i) => store.commit({ blobs: [blob(i)] })))
    expect(writes()).toEqual([8, 8, 4])
    await store.commit({ blobs: Array.from({ length: 20 }, (_, i) => blob(i)) })
    expect(writes()).toEqual([8, 8, 4, 20])
    await store.close()
  })

  test('copy their bytes at the call', async () => {
    const store = await open()
    const bytes = new Uint8Array(10).fill(1)
    const stored = store.commit({ blobs: [{ hash: 'f'.repeat(64), bytes }] })
    bytes.fill(2)
    await stored
    expect([...store.blobSync!('f'.repeat(64), { offset: 0, length: 10 })!]).toEqual(Array(10).fill(1))
    await store.close()
  })

  test('that cannot be encoded are rejected as a whole, and the next one is stored', async () => {
    const store = await open()
    const event = { sessionId: 's'.repeat(36), seq: 1, body: [1] }
    const refused = store.commit({
      events: [event],
      put: [
        ['good', '1'],
        ['bad', { big: 1n }],
      ],
    })
    expect(await refused.catch((error: unknown) => error)).toBeInstanceOf(TypeError)
    expect(await store.get('good')).toBeUndefined()
    expect(await store.commit({ events: [event] })).toBe(true)
    await store.close()
  })

  test('with a gap in their sequence numbers fail with INTERNAL', async () => {
    const store = await open()
    const commit = (...seqs: number[]): Promise<boolean> =>
      store.commit({ events: seqs.map((seq) => ({ sessionId: 's'.repeat(36), seq, body: [] })) })
    expect((await rejection(commit(2))).reason).toBe('INTERNAL')
    // A rejected commit releases all of its numbers.
    expect((await rejection(commit(1, 2, 4))).reason).toBe('INTERNAL')
    expect(await commit(1)).toBe(true)
    expect((await rejection(commit(2, 4))).reason).toBe('INTERNAL')
    expect((await rejection(commit(3))).reason).toBe('INTERNAL')
    expect(await commit(2, 3)).toBe(true)
    await store.close()
  })
})

describe('closing', () => {
  test('stops a reader between its pages', async () => {
    const sessionId = 's'.repeat(36)
    const store = await open()
    await store.commit({
      events: Array.from({ length: 3000 }, (_, i) => ({ sessionId, seq: i + 1, body: [i] })),
    })
    let pages = 0
    const reading = (async () => {
      for await (const page of store.events(sessionId, { from: 1, to: 3000 })) {
        pages += Math.sign(page.length)
        await store.close()
      }
    })()
    expect((await rejection(reading)).reason).toBe('STORE_CLOSED')
    expect(pages).toBe(1)
    await (await open()).close()
  })
})

describe('the fence', () => {
  const settled = (promises: Promise<boolean>[]): Promise<EngineError[]> =>
    Promise.all(promises.map(rejection))

  test('a failed write rejects all later commits, and reads continue', async () => {
    const { store, disk } = await instrumented('full')
    await store.commit({ put: [['before', '1']] })
    disk.failAt = disk.operations + 1
    const failing = settled([1, 2].map((n) => store.commit({ put: [[`failing ${n}`, '1']] })))
    await new Promise((resolve) => queueMicrotask(() => queueMicrotask(() => resolve(undefined))))
    const queued = settled([1, 2].map((n) => store.commit({ put: [[`queued ${n}`, '1']] })))

    const cause: unknown = expect.objectContaining({ code: 'EIO' })
    for (const error of await failing) {
      expect(error).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'unknown' }, cause })
    }
    for (const error of await queued) {
      expect(error).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'not-applied' }, cause })
    }
    const later = await rejection(store.commit({ put: [['later', '1']] }))
    expect(later).toMatchObject({ reason: 'STORE_FAILED', details: { outcome: 'not-applied' }, cause })
    expect(await store.get('before')).toBe('1')
    expect(store.getSync('before')).toBe('1')

    await store.recover()
    expect(await store.commit({ put: [['after', '1']] })).toBe(true)
    expect(await store.scan({ gte: '', lt: 'z', limit: 9 })).toEqual([
      ['after', '1'],
      ['before', '1'],
    ])
    await store.close()
    expect((await rejection(store.commit({}))).reason).toBe('STORE_CLOSED')
    expect((await rejection(store.recover())).reason).toBe('STORE_CLOSED')
  })

  test('reports a full disk separately', async () => {
    for (const code of ['ENOSPC', 'EDQUOT']) {
      const { store, disk } = await instrumented()
      Object.assign(disk, { failAt: disk.operations + 1, forEver: true, code })
      const written = rejection(store.commit({ put: [['a', '1']] }))
      expect(await written).toMatchObject({ reason: 'STORE_FULL', details: { outcome: 'unknown' } })
      expect((await rejection(store.commit({}))).reason).toBe('STORE_FAILED')
      expect((await rejection(store.recover())).reason).toBe('STORE_FULL')
      await store.close()
    }
  })

  test('a commit that cannot be encoded does not stop others', async () => {
    const { store } = await instrumented()
    const good = store.commit({ put: [['good', '1']] })
    const key = undefined as unknown as string
    const broken = store.commit({
      put: [
        ['half', '1'],
        [key, '1'],
      ],
    })
    expect(await broken.catch((error: unknown) => error)).toBeInstanceOf(TypeError)
    expect(await good).toBe(true)
    expect(await store.get('half')).toBeUndefined()
    expect(await store.get('good')).toBe('1')
    await store.close()
  })
})

function open(): Promise<Store> {
  return levelStorage(data).open()
}

const recordCount = 1500

const blobOf = (n: number): Buffer => randomBytes(3000, n)

/** By the number of a blob in the prepared store. */
const lastBytes: number[] = Array.from({ length: recordCount }, (_, n) => blobOf(n)[2999]!)

/** Makes a copy of the prepared store, whose commits could have come from three processes. */
async function populate(): Promise<void> {
  await cp(past, data, { recursive: true })
}

async function populateFirst(path: string): Promise<void> {
  for (let round = 0; round < 3; round++) {
    const store = await levelStorage(path).open()
    const stored: Promise<boolean>[] = []
    for (let n = round; n < recordCount; n += 3) {
      const hash = String(n).padStart(64, '0')
      const blob = { hash, bytes: blobOf(n) }
      stored.push(store.commit({ put: [[recordKey(n), `value ${n}`]], blobs: [blob] }))
    }
    await Promise.all(stored)
    await store.close()
  }
}

async function isComplete(store: Store): Promise<boolean> {
  const records = await store.scan({ gte: 'k', lt: 'l', limit: recordCount + 1 })
  if (records.length !== recordCount) return false
  for (let n = 0; n < recordCount; n++) {
    if (records[n]![0] !== recordKey(n) || records[n]![1] !== `value ${n}`) return false
    const bytes = store.blobSync!(String(n).padStart(64, '0'), { offset: 2999, length: 1 })
    if (bytes?.[0] !== lastBytes[n]) return false
  }
  return true
}

function recordKey(n: number): string {
  return `k${String(n).padStart(6, '0')}`
}

/** The findings of a check of an open store. */
async function findingsOf(store: Store): Promise<StoreFinding[]> {
  const findings: StoreFinding[] = []
  for await (const finding of store.check!({ signal: undefined })) findings.push(finding)
  return findings
}

async function instrumented(durability: 'full' | 'relaxed' = 'relaxed') {
  const disk = new FaultyDisk()
  const store = await openLevelStore(join(data, String(Math.random())), { durability, disk })
  return { store, disk }
}

async function rejection(promise: Promise<unknown>): Promise<EngineError> {
  const outcome = await promise.catch((error: unknown) => error)
  expect(outcome).toMatchObject({ name: 'EngineError' })
  return outcome as EngineError
}

async function contents(path: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const entry of await readdir(path, { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name)
    found[file] = entry.isFile() ? await readFile(file, 'base64') : 'directory'
  }
  return found
}

async function lineOf(child: ChildProcess): Promise<string> {
  const lines = createInterface({ input: child.stdout! })
  const line = await Promise.race([once(lines, 'line'), once(lines, 'close')])
  if (line.length === 0) throw new Error('the child wrote nothing')
  return String(line[0])
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

function canMount(): boolean {
  try {
    execFileSync(ownMounts[0], [...ownMounts.slice(1), 'mount -t tmpfs -o size=1m tmpfs /tmp'], {
      stdio: 'ignore',
    })
    return true
  } catch {
    return false
  }
}
