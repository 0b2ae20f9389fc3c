/** The directory of a store: its permissions, cleanup after a failed opening, and detection of a moved directory. */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, readdir, realpath, rename, rm, stat, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { backupStore, checkStore, levelStorage, repairStore } from '../../src/adapters/level/index.js'
import type { DiskFile } from '../../src/adapters/level/directory/disk.js'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import type { StoreFinding } from '../../src/engine/ports.js'
import { openEngine } from '../../src/index.js'
import { openSmall, reasonOf } from '../support/level-world.js'
import { contentsOf, filesOf } from '../support/store-files.js'

/** Runs a command as an unprivileged user. */
const asNobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] as const
/** Runs a shell command with its own mounts, without root. */
const ownMounts = ['unshare', '-Urm', 'sh', '-c'] as const

let directory: string
let data: string
let umask: number

beforeEach(async () => {
  umask = process.umask(0)
  directory = await realpath(await mkdtemp(join(tmpdir(), 'level-directory-')))
  data = join(directory, 'data')
})

afterEach(async () => {
  process.umask(umask)
  vi.restoreAllMocks()
  await rm(directory, { recursive: true, force: true })
})

async function fill(path: string, bytes = 7): Promise<void> {
  const engine = await openEngine({ storage: levelStorage(path, { durability: 'relaxed' }) })
  await engine.sessions.create({ files: { '/a.txt': Buffer.alloc(bytes, 'private') } })
  await engine.close()
}

/** Entries that another user of the system could open by name. */
function reachable(path: string): string[] {
  const found: string[] = []
  const walk = (at: string): void => {
    const { mode } = statSync(at)
    if ((mode & 0o077) !== 0) found.push(`${at.slice(directory.length)} ${(mode & 0o777).toString(8)}`)
    if (statSync(at).isDirectory() && (mode & 0o077) !== 0)
      for (const name of readdirSync(at)) walk(join(at, name))
  }
  walk(path)
  return found
}

describe('other users of the system', () => {
  test('cannot access any file of a store, a backup or a repaired store', async () => {
    await fill(data)
    const store = await openSmall(data)
    for (let n = 0; n < 200; n++) await store.commit({ put: [[`k${n % 9}`, 'x'.repeat(500)]] })
    await store.reclaim()
    expect(reachable(data)).toEqual([])
    for (const name of ['forkspace.json', 'owner.json', 'segments/manifest', 'index/pages'])
      expect([name, (await stat(join(data, name))).mode & 0o777]).toEqual([name, 0o600])
    await store.close()
    await backupStore(data, join(directory, 'new/backup'))
    expect(reachable(join(directory, 'new'))).toEqual([])
    await repairStore(data, join(directory, 'repaired'))
    expect(reachable(join(directory, 'repaired'))).toEqual([])
  })

  test('lose access to the files of a store from an earlier version when it is opened', async () => {
    await fill(data)
    for (const name of ['', 'segments', 'index']) await chmod(join(data, name), 0o755)
    for (const name of ['forkspace.json', 'segments/manifest', 'segments/00000001.seg'])
      await chmod(join(data, name), 0o644)
    await (await openSmall(data)).close()
    // The directory itself keeps the mode that its owner chose.
    expect(reachable(data)).toEqual(['/data 755'])
  })

  test('can access an existing directory but none of its files', async () => {
    mkdirSync(data, 0o755)
    await fill(data)
    expect(reachable(data)).toEqual(['/data 755'])
  })

  test.runIf(process.platform === 'linux' && process.getuid?.() === 0)(
    'cannot list or read a store with real permissions',
    async () => {
      chmodSync(directory, 0o755)
      mkdirSync(data, 0o755)
      await fill(data)
      const seen = (...command: string[]): string =>
        spawnSync(asNobody[0], [...asNobody.slice(1), ...command], { encoding: 'utf8' }).stdout
      expect(seen('ls', directory)).toBe('data\n')
      expect(seen('ls', join(data, 'segments'))).toBe('')
      expect(seen('cat', join(data, 'segments/manifest'), join(data, 'index/pages'))).toBe('')
    },
  )
})

describe('a failed opening', () => {
  const parent = (): string => join(directory, 'new')
  const path = (): string => join(parent(), 'store')

  test('removes directories that it created, whichever disk call fails', async () => {
    const calls = ['makeDirectory', 'open', 'rename', 'syncDirectory', 'list'] as const
    const counts: Record<string, number> = {}
    for (const call of calls) {
      for (let fails = 0; ; fails++) {
        let number = 0
        const original = nodeDisk[call] as (...args: unknown[]) => Promise<unknown>
        const spy = vi
          .spyOn(nodeDisk, call)
          .mockImplementation(((...args: unknown[]) =>
            number++ === fails
              ? Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' }))
              : original(...args)) as never)
        const opened = await openSmall(path()).catch(reasonOf)
        spy.mockRestore()
        if (typeof opened !== 'string') {
          await opened.close()
          await rm(parent(), { recursive: true })
          if (number <= fails) break
          continue
        }
        counts[call] = (counts[call] ?? 0) + 1
        expect([call, fails, opened, readdirSync(directory)]).toEqual([call, fails, 'STORE_FAILED', []])
      }
    }
    expect(Object.keys(counts).sort()).toEqual([...calls].sort())
  })

  test('removes directories that it created if a file cannot be written or synced', async () => {
    for (const call of ['write', 'sync', 'truncate'] as const) {
      for (let fails = 0; ; fails++) {
        let number = 0
        const open = nodeDisk.open.bind(nodeDisk)
        const spy = vi.spyOn(nodeDisk, 'open').mockImplementation(async (...args) => {
          const file = await open(...args)
          const original = (file[call] as (...rest: unknown[]) => Promise<void>).bind(file)
          return Object.assign(file, {
            [call]: (...rest: unknown[]) =>
              number++ === fails
                ? Promise.reject(Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' }))
                : original(...rest),
          } as Partial<DiskFile>)
        })
        const opened = await openSmall(path(), { durability: 'full' }).catch(reasonOf)
        spy.mockRestore()
        if (typeof opened !== 'string') {
          await opened.close()
          await rm(parent(), { recursive: true })
          break
        }
        expect([call, fails, opened, readdirSync(directory)]).toEqual([call, fails, 'STORE_FULL', []])
      }
    }
  })

  test('keeps an existing directory, also with a store in it', async () => {
    await mkdir(path(), { recursive: true })
    const takeLock = (): Promise<never> => Promise.reject(new Error('no lock'))
    expect(await openSmall(path(), { takeLock }).catch(reasonOf)).toBe('STORE_FAILED')
    expect(await readdir(parent())).toEqual(['store'])
    await fill(path())
    const before = await filesOf(path())
    expect(await openSmall(path(), { takeLock }).catch(reasonOf)).toBe('STORE_FAILED')
    expect(await filesOf(path())).toEqual(before)
  })

  test('keeps the store of a faster opener in the directory that it created', async () => {
    let faster: Awaited<ReturnType<typeof openSmall>> | undefined
    const original = nodeDisk.makeDirectory.bind(nodeDisk)
    vi.spyOn(nodeDisk, 'makeDirectory').mockImplementationOnce(async (at) => {
      const created = await original(at)
      faster = await openSmall(path())
      return created
    })
    expect(await openSmall(path()).catch(reasonOf)).toBe('STORE_LOCKED')
    expect(await faster!.commit({ put: [['k', 'v']] })).toBe(true)
    await faster!.close()
    const again = await openSmall(path())
    expect(await again.get('k')).toBe('v')
    await again.close()
  })

  test('of a second opener keeps the store of the first', async () => {
    const opened = await Promise.allSettled([openSmall(path()), openSmall(path()), openSmall(path())])
    const stores = opened.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    expect(stores).toHaveLength(1)
    expect(await stores[0]!.commit({ put: [['k', 'v']] })).toBe(true)
    await stores[0]!.close()
    const again = await openSmall(path())
    expect(await again.get('k')).toBe('v')
    await again.close()
  })
})

describe('a backup or repair', () => {
  test('into the store itself or a directory in it is rejected, through any path', async () => {
    await fill(data)
    const alias = join(directory, 'alias')
    await symlink(data, alias)
    await symlink(join(data, 'segments'), join(directory, 'inside'))
    const targets = [
      data,
      join(data, 'backup'),
      join(data, 'segments/deep/er'),
      alias,
      join(alias, 'backup'),
      join(directory, 'inside/backup'),
      `${data}/../data/backup`,
    ]
    const before = await filesOf(data)
    for (const target of targets) {
      for (const act of [backupStore, repairStore]) {
        const rejection = act(data, target).then(() => 'done', reasonOf)
        expect([target, await rejection]).toEqual([target, 'INVALID_ARGUMENT'])
      }
    }
    expect(await filesOf(data)).toEqual(before)
    expect(await readdir(directory)).toEqual(['alias', 'data', 'inside'])
    await expect(backupStore(data, join(directory, 'data-backup'))).resolves.toBeDefined()
  })

  test('through a mount of the store is rejected', async () => {
    await fill(data)
    const script = `mkdir ${directory}/mounted && mount --bind ${data} ${directory}/mounted && exec "$@"`
    const program = `
      import { backupStore } from ${JSON.stringify(join(import.meta.dirname, '../../dist/adapters/level/index.js'))}
      const outcome = await backupStore(${JSON.stringify(data)}, ${JSON.stringify(join(directory, 'mounted/backup'))})
        .then(() => 'done', (error) => error.reason)
      console.log(outcome)`
    const args = [...ownMounts.slice(1), script, 'sh', process.execPath, '--input-type=module', '-e', program]
    const { status, stdout } = spawnSync(ownMounts[0], args, { encoding: 'utf8' })
    // Not every system lets a process mount a file system.
    expect(status === 0 ? stdout : 'INVALID_ARGUMENT\n').toBe('INVALID_ARGUMENT\n')
  })

  test('removes directories that it created if it fails', async () => {
    await fill(data, 5_000_000)
    const reason = new Error('enough')
    for (const act of [backupStore, repairStore]) {
      const ending = new AbortController()
      const onProgress = (): void => ending.abort(reason)
      const target = join(directory, 'new/target')
      await expect(act(data, target, { signal: ending.signal, onProgress })).rejects.toBe(reason)
      expect(await readdir(directory)).toEqual(['data'])
    }
  })
})

describe.each([
  ['backup', backupStore],
  ['repair', repairStore],
] as const)('the target of a %s', (_name, act) => {
  /** Runs the act with a change of its target just before the copy gets its first list of segments. */
  async function changedMeanwhile(target: string, change: () => void): Promise<unknown> {
    const rename = nodeDisk.rename.bind(nodeDisk)
    const spy = vi.spyOn(nodeDisk, 'rename').mockImplementation(async (from, to) => {
      spy.mockRestore()
      change()
      await rename(from, to)
    })
    return act(data, target).then(() => 'done', reasonOf)
  }

  test('that is replaced by another store meanwhile leaves that store unchanged', async () => {
    const [target, other] = [join(directory, 'target'), join(directory, 'other')]
    await fill(data)
    await fill(other, 20)
    for (const link of [false, true]) {
      const before = await filesOf(other)
      const reason = await changedMeanwhile(target, () => {
        renameSync(target, `${target}.old`)
        if (link) symlinkSync(other, target)
        else renameSync(other, target)
      })
      expect(reason).toBe('STORE_MOVED')
      expect(await filesOf(target)).toEqual(before)
      expect(await readdir(`${target}.old`)).toEqual([])
      await rm(`${target}.old`, { recursive: true })
      if (!link) await rename(target, other)
    }
  })

  test('whose segments are replaced by those of another store meanwhile leaves that store unchanged', async () => {
    const [target, other] = [join(directory, 'target'), join(directory, 'other')]
    const segments = join(target, 'segments')
    await fill(data)
    await fill(other, 20)
    // A repair reports no progress between its first write and its end.
    const moments = act === backupStore ? ['at the first list', 'after a piece'] : ['at the first list']
    for (const moment of moments) {
      for (const link of [false, true]) {
        const before = await filesOf(other)
        const change = (): void => {
          if (!existsSync(segments) || existsSync(`${target}.old`)) return
          renameSync(segments, `${target}.old`)
          if (link) symlinkSync(join(other, 'segments'), segments)
          else renameSync(join(other, 'segments'), segments)
        }
        const reason =
          moment === 'at the first list'
            ? await changedMeanwhile(target, change)
            : await act(data, target, { onProgress: change }).then(() => 'done', reasonOf)
        if (!link && existsSync(segments)) await rename(segments, join(other, 'segments'))
        expect([moment, link, reason, await filesOf(other)]).toEqual([moment, link, 'STORE_MOVED', before])
        await rm(`${target}.old`, { recursive: true })
        await rm(target, { recursive: true, force: true })
      }
    }
  })

  test.each(['', 'segments', 'segments/00000001.seg'])(
    'that loses "%s" meanwhile is an error',
    async (name) => {
      const target = join(directory, 'target')
      await fill(data)
      await mkdir(target)
      expect(await changedMeanwhile(target, () => rmSync(join(target, name), { recursive: true }))).toBe(
        'STORE_MOVED',
      )
      // The directory itself existed before, and stays.
      const left = await readdir(target).catch(() => [])
      expect([left, (await readdir(directory)).includes('target')]).toEqual([[], name !== ''])
    },
  )

  test('can be the root of a file system, and the error about a full one names it', async () => {
    await fill(data, 300_000)
    const script = `
      cd ${directory} && mkdir large small
      mount -t tmpfs -o size=64m none large && mount -t tmpfs -o size=200k none small && exec "$@"`
    const program = `
      import { ${act.name} as act } from ${JSON.stringify(join(import.meta.dirname, '../../dist/adapters/level/index.js'))}
      const outcome = (target) => act('data', target).then(() => 'done', (error) => error.message)
      console.log(await outcome('large'), await outcome('small'))`
    const args = [...ownMounts.slice(1), script, 'sh', process.execPath, '--input-type=module', '-e', program]
    const { status, stdout } = spawnSync(ownMounts[0], args, { encoding: 'utf8' })
    const wanted = `done the new store in ${directory}/small could not be written (ENOSPC). Free space and try again\n`
    // Not every system lets a process mount a file system.
    expect(status === 0 ? stdout : wanted).toBe(wanted)
  })

  test('has no marker until everything else is there', async () => {
    const target = join(directory, 'target')
    await fill(data)
    const rename = nodeDisk.rename.bind(nodeDisk)
    const snapshot = join(directory, 'snapshot')
    const marked: boolean[] = []
    const spy = vi.spyOn(nodeDisk, 'rename').mockImplementation(async (from, to) => {
      marked.push(readdirSync(target).some((name) => name === 'forkspace.json'))
      if (!to.endsWith('forkspace.json')) return rename(from, to)
      spy.mockRestore()
      cpSync(target, snapshot, { recursive: true })
      await rename(from, to)
    })
    await act(data, target)
    expect(marked.length).toBeGreaterThan(1)
    expect(marked.filter((is) => is)).toEqual([])
    await expect(openEngine({ storage: levelStorage(snapshot) })).rejects.toMatchObject({
      reason: 'DATA_LOSS',
    })
    renameSync(join(snapshot, 'forkspace.json.new'), join(snapshot, 'forkspace.json'))
    const findings = (await checkStore(snapshot, { readData: true })).findings
    expect(findings).toEqual([])
    expect(await contentsOf(snapshot)).toEqual(await contentsOf(target))
  })
})

async function findingsOf(store: Awaited<ReturnType<typeof openSmall>>): Promise<StoreFinding[]> {
  const findings: StoreFinding[] = []
  for await (const finding of store.check({})) findings.push(finding)
  return findings
}

describe.each(['descriptor', 'identity'] as const)('an open store held by %s', (hold) => {
  const put = (key: string): { put: [string, string][] } => ({ put: [[`~${key}`, 'x'.repeat(300)]] })

  test('rejects commits after its directory was replaced, still reads, and does not touch the other store', async () => {
    const store = await openSmall(data, { hold })
    for (let n = 0; n < 200; n++) await store.commit(put(`k${n % 20}`))
    const aside = `${data}.old`
    renameSync(data, aside)
    const other = await openSmall(data)
    await other.commit(put('theirs'))
    await other.close()
    const before = await filesOf(data)
    const [first, second] = [store.commit(put('first')), store.commit(put('second'))].map((commit) =>
      commit.catch((error: { reason: string; details: object }) => [error.reason, error.details]),
    )
    expect(await first).toEqual(['STORE_MOVED', { outcome: 'unknown' }])
    expect(await second).toEqual(['STORE_MOVED', { outcome: 'unknown' }])
    await expect(store.commit(put('third'))).rejects.toMatchObject({
      reason: 'STORE_MOVED',
      details: { outcome: 'not-applied' },
    })
    await expect(store.recover()).rejects.toMatchObject({ reason: 'STORE_MOVED' })
    await expect(store.reclaim()).rejects.toMatchObject({ reason: 'STORE_MOVED' })
    expect(await store.get('~k7')).toHaveLength(300)
    await store.close()
    expect(await filesOf(data)).toEqual(before)
    expect((await checkStore(aside)).findings).toEqual([])
    const moved = await openSmall(aside)
    expect(await moved.get('~k7')).toHaveLength(300)
    expect(await moved.get('~theirs')).toBe(undefined)
    await moved.close()
  })

  test.each(['close', 'reclaim'] as const)(
    'changes nothing in another store if %s is the first call after the move',
    async (call) => {
      const store = await openSmall(data, { hold })
      for (let n = 0; n < 200; n++) await store.commit(put(`k${n % 20}`))
      renameSync(data, `${data}.old`)
      const other = await openSmall(data)
      for (let n = 0; n < 200; n++) await other.commit(put(`k${n % 20}`))
      await other.close()
      const before = await filesOf(data)
      if (call === 'reclaim') await store.reclaim().catch(reasonOf)
      await store.close()
      expect(await filesOf(data)).toEqual(before)
      expect((await checkStore(`${data}.old`)).findings).toEqual([])
    },
  )

  test.each(['a directory', 'a link'])(
    'rejects commits after %s replaced that of its segments, and does not touch the new one',
    async (by) => {
      const [segments, aside] = [join(data, 'segments'), join(directory, 'aside')]
      const restored = join(directory, 'restored')
      for (const act of ['commit', 'recover', 'reclaim', 'close'] as const) {
        const store = await openSmall(data, { hold })
        for (let n = 0; n < 100; n++) await store.commit(put(`k${n % 20}`))
        await cp(segments, restored, { recursive: true })
        for (let n = 0; n < 100; n++) await store.commit(put(`k${n % 20}`))
        await rename(segments, aside)
        await (by === 'a link' ? symlink(restored, segments) : rename(restored, segments))
        const before = await filesOf(`${segments}/`)
        const attempts = {
          close: async () => 'STORE_MOVED',
          commit: () => store.commit(put('late')),
          recover: () => store.commit(put('late')).catch(() => store.recover()),
          reclaim: () => store.reclaim(),
        }
        expect(await attempts[act]().catch(reasonOf)).toBe('STORE_MOVED')
        await store.close()
        expect(await filesOf(`${segments}/`)).toEqual(before)
        await rm(segments, { recursive: true })
        await rm(restored, { recursive: true, force: true })
        await rename(aside, segments)
      }
      expect((await checkStore(data)).findings).toEqual([])
    },
  )

  test.each(['index/LOCK', 'index'])(
    'changes no segment after its %s was removed, since another process could have opened the store',
    async (name) => {
      for (const act of ['close', 'recover', 'reclaim'] as const) {
        const store = await openSmall(data, { hold })
        for (let n = 0; n < 137; n++) await store.commit(put(`k${n % 20}`))
        await rm(join(data, name), { recursive: true })
        // As another process would leave it.
        const program = `
          import { levelStorage } from ${JSON.stringify(join(import.meta.dirname, '../../dist/adapters/level/index.js'))}
          const store = await levelStorage(${JSON.stringify(data)}).open()
          for (let n = 0; n < 20; n++) await store.commit({ put: [['theirs' + n, 'x']] })
          await store.reclaim()
          await store.close()`
        execFileSync(process.execPath, ['--input-type=module', '-e', program])
        const before = await filesOf(join(data, 'segments'))
        const attempts = {
          close: async () => 'STORE_MOVED',
          // Without a failed commit, nothing is to be recovered.
          recover: () => store.recover().then(() => 'STORE_MOVED'),
          reclaim: () => store.reclaim(),
        }
        expect(await attempts[act]().catch(reasonOf)).toBe('STORE_MOVED')
        await store.close()
        expect(await filesOf(join(data, 'segments'))).toEqual(before)
        const again = await openSmall(data)
        expect([await again.get('~k3'), await again.get('theirs19')]).toEqual(['x'.repeat(300), 'x'])
        await again.close()
      }
    },
  )

  test('rejects commits from the next turn on, and keeps those that it accepted in the turn of the move', async () => {
    const store = await openSmall(data, { hold })
    await store.commit(put('a'))
    renameSync(data, `${data}.old`)
    const inTheTurn = await store.commit(put('b')).catch(reasonOf)
    expect([true, 'STORE_MOVED']).toContain(inTheTurn)
    await nextTurn()
    expect(await store.commit(put('c')).catch(reasonOf)).toMatch(/^STORE_(MOVED|FAILED)$/)
    await store.close()
    const moved = await openSmall(`${data}.old`)
    for (const key of inTheTurn === true ? ['~a', '~b'] : ['~a'])
      expect(await moved.get(key)).toHaveLength(300)
    await moved.close()
    expect(await readdir(directory)).toEqual(['data.old'])
  })

  test('rejects commits of code that awaited the move', async () => {
    const store = await openSmall(data, { hold })
    for (let n = 0; n < 20; n++) {
      await store.commit(put('a'))
      await rename(data, `${data}.old`)
      expect(await store.commit(put('b')).catch(reasonOf)).toBe('STORE_MOVED')
      await rename(`${data}.old`, data)
      await store.recover()
    }
    // Here, the move runs on another thread while the check is made.
    for (let n = 0; n < 20; n++) {
      await sleep(1)
      const moved = rename(data, `${data}.old`)
      await store.commit(put('a')).catch(reasonOf)
      await moved
      expect(await store.commit(put('b')).catch(reasonOf)).toMatch(/^STORE_(MOVED|FAILED)$/)
      await rename(`${data}.old`, data)
      await store.recover()
    }
    await store.close()
  })

  test('rejects commits of a writer that never leaves its turn, soon after the move', async () => {
    const store = await openSmall(data, { hold })
    await store.commit(put('a'))
    renameSync(data, `${data}.old`)
    const accepted: string[] = []
    let reason: unknown = true
    for (let n = 0; reason === true && n < 100_000; n++) {
      reason = await store.commit(put(`k${n}`)).catch(reasonOf)
      if (reason === true) accepted.push(`~k${n}`)
    }
    expect(reason).toBe('STORE_MOVED')
    await store.close()
    const moved = await openSmall(`${data}.old`)
    for (const key of accepted) expect(await moved.get(key)).toHaveLength(300)
    await moved.close()
  })

  test('continues when its directory is back', async () => {
    const store = await openSmall(data, { hold })
    renameSync(data, `${data}.old`)
    await expect(store.commit(put('a'))).rejects.toMatchObject({ reason: 'STORE_MOVED' })
    renameSync(`${data}.old`, data)
    await store.recover()
    expect(await store.commit(put('b'))).toBe(true)
    await store.close()
  })

  test('continues when a link to its directory replaces it', async () => {
    const store = await openSmall(data, { hold })
    renameSync(data, `${data}.old`)
    symlinkSync(`${data}.old`, data)
    expect(await store.commit(put('a'))).toBe(true)
    expect(await openSmall(data).catch(reasonOf)).toBe('STORE_LOCKED')
    await store.close()
  })

  test('recreates nothing after its directory was deleted', async () => {
    const store = await openSmall(data, { hold })
    await store.commit(put('a'))
    await rm(data, { recursive: true })
    await expect(store.commit(put('b'))).rejects.toMatchObject({ reason: 'STORE_MOVED' })
    await store.reclaim().catch(reasonOf)
    await store.close()
    expect(await readdir(directory)).toEqual([])
  })

  test('rejects commits if its lock file is gone, since another process could take the lock', async () => {
    const store = await openSmall(data, { hold })
    await store.commit(put('a'))
    await rm(join(data, 'index/LOCK'))
    await expect(store.commit(put('b'))).rejects.toMatchObject({ reason: 'STORE_MOVED' })
    await store.close()
    const again = await openSmall(data)
    expect(await again.get('~a')).toHaveLength(300)
    await again.close()
  })

  test.each(['removed', 'replaced by a copy of itself'])(
    'rejects commits if its newest segment was %s, still reads, and a check reports it',
    async (how) => {
      const [head, restored] = [join(data, 'segments/00000001.seg'), join(directory, 'restored.seg')]
      const store = await openSmall(data, { hold, segmentBytes: 2 ** 20 })
      await store.commit(put('a'))
      await cp(head, restored)
      await store.commit(put('b'))
      expect(await findingsOf(store)).toEqual([])
      await (how === 'removed' ? rm(head) : rename(restored, head))
      await expect(store.commit(put('c'))).rejects.toMatchObject({
        reason: 'STORE_MOVED',
        message: expect.stringContaining('segments/00000001.seg was moved, removed or replaced') as string,
      })
      await expect(store.recover()).rejects.toMatchObject({ reason: 'STORE_MOVED' })
      await expect(store.reclaim()).rejects.toMatchObject({ reason: 'STORE_MOVED' })
      expect(await findingsOf(store)).toMatchObject([
        { problem: 'missing', object: 'file segments/00000001.seg' },
      ])
      expect(await store.get('~b')).toHaveLength(300)
      await store.close()
    },
  )

  test.each(['forkspace.json', 'segments/manifest'])('reports a %s of another store', async (name) => {
    const other = join(directory, 'other')
    await (await openSmall(other)).close()
    const store = await openSmall(data, { hold })
    await cp(join(other, name), join(data, name))
    expect(await findingsOf(store)).toEqual([
      { problem: 'damaged', object: `file ${name}`, message: 'belongs to another store' },
    ])
    await store.close()
  })

  test('reports a removed older segment', async () => {
    const store = await openSmall(data, { hold })
    for (let n = 0; n < 100; n++) await store.commit(put(`k${n}`))
    await rm(join(data, 'segments/00000001.seg'))
    expect(await findingsOf(store)).toMatchObject([
      { problem: 'missing', object: 'file segments/00000001.seg' },
    ])
    await store.close()
  })

  test('does not prevent opening another directory at its path in the same process', async () => {
    const store = await openSmall(data, { hold })
    await rename(data, `${data}.old`)
    const other = await openSmall(data)
    expect(await openSmall(`${data}.old`).catch(reasonOf)).toBe('STORE_LOCKED')
    await other.commit(put('theirs'))
    await other.close()
    await store.close()
    expect((await checkStore(data)).findings).toEqual([])
  })
})

test('a backup of a store that is moved during the copy contains that store', async () => {
  const engine = await openEngine({ storage: levelStorage(data, { durability: 'relaxed' }) })
  await engine.sessions.create({ files: { '/a': Buffer.alloc(3_000_000, 'a') } })
  await engine.close()
  const restored = join(directory, 'restored')
  await cp(data, restored, { recursive: true })
  let isMoved = false
  const onProgress = (): void => {
    if (isMoved) return
    isMoved = true
    renameSync(data, `${data}.old`)
    execFileSync('mv', [restored, data])
  }
  await backupStore(data, join(directory, 'backup'), { onProgress })
  expect(isMoved).toBe(true)
  expect((await checkStore(join(directory, 'backup'), { readData: true })).findings).toEqual([])
})
