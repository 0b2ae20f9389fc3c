import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { memoryStorage, openEngine, type Engine, type Session, type SessionFs } from '../../../src/index.js'
import { FailingStorage } from '../../support/failing-storage.js'
import { isLong } from '../../support/seed.js'
import { allStorages } from '../../support/storages.js'

type Call = readonly [name: string, syscall: string, run: (fs: SessionFs) => unknown]

const reads: readonly Call[] = [
  ['accessSync', 'access', (fs) => fs.accessSync('/dir/file')],
  ['existsSync', 'access', (fs) => fs.existsSync('/dir/file')],
  ['globSync', 'glob', (fs) => fs.globSync('/dir/*')],
  ['lstatSync', 'lstat', (fs) => fs.lstatSync('/dir/link')],
  ['openSync to read', 'open', (fs) => fs.openSync('/dir/file', 'r')],
  ['openSync to write over', 'open', (fs) => fs.openSync('/dir/file', 'r+')],
  ['opendirSync', 'opendir', (fs) => fs.opendirSync('/dir')],
  ['readFileSync', 'open', (fs) => fs.readFileSync('/dir/file')],
  ['readdirSync', 'scandir', (fs) => fs.readdirSync('/dir')],
  ['readdirSync, recursive', 'scandir', (fs) => fs.readdirSync('/', { recursive: true })],
  ['readlinkSync', 'readlink', (fs) => fs.readlinkSync('/dir/link')],
  ['realpathSync', 'lstat', (fs) => fs.realpathSync('/dir/link')],
  ['realpathSync.native', 'realpath', (fs) => fs.realpathSync.native('/dir/link')],
  ['statSync', 'stat', (fs) => fs.statSync('/dir/file')],
  ['statSync without an error', 'stat', (fs) => fs.statSync('/dir/file', { throwIfNoEntry: false })],
  ['watch', 'watch', (fs) => fs.watch('/dir').close()],
]

const changes: readonly Call[] = [
  ['appendFileSync', 'open', (fs) => fs.appendFileSync('/dir/file', 'more')],
  ['chmodSync', 'chmod', (fs) => fs.chmodSync('/dir/file', 0o600)],
  ['copyFileSync', 'copyfile', (fs) => fs.copyFileSync('/dir/file', '/dir/copy')],
  ['cpSync', 'cp', (fs) => fs.cpSync('/dir', '/copy', { recursive: true })],
  ['linkSync', 'link', (fs) => fs.linkSync('/dir/file', '/dir/second')],
  ['lutimesSync', 'lutime', (fs) => fs.lutimesSync('/dir/file', 1, 1)],
  ['mkdirSync', 'mkdir', (fs) => fs.mkdirSync('/dir/made')],
  ['mkdirSync, recursive', 'mkdir', (fs) => fs.mkdirSync('/dir/made/deep', { recursive: true })],
  ['mkdtempSync', 'mkdtemp', (fs) => fs.mkdtempSync('/dir/temp-')],
  ['openSync of a new file', 'open', (fs) => fs.openSync('/dir/new', 'w')],
  ['renameSync', 'rename', (fs) => fs.renameSync('/dir/file', '/dir/moved')],
  ['rmSync', 'lstat', (fs) => fs.rmSync('/dir/file')],
  ['rmSync, recursive', 'lstat', (fs) => fs.rmSync('/dir', { recursive: true })],
  ['rmdirSync', 'rmdir', (fs) => fs.rmdirSync('/dir/empty')],
  ['symlinkSync', 'symlink', (fs) => fs.symlinkSync('file', '/dir/another')],
  ['truncateSync', 'open', (fs) => fs.truncateSync('/dir/file', 2)],
  ['unlinkSync', 'unlink', (fs) => fs.unlinkSync('/dir/file')],
  ['utimesSync', 'utime', (fs) => fs.utimesSync('/dir/file', 1, 1)],
  ['writeFileSync', 'open', (fs) => fs.writeFileSync('/dir/new', 'new')],
  ['writeFileSync of 10 MiB', 'open', (fs) => fs.writeFileSync('/dir/new', Buffer.alloc(10 * 2 ** 20, 1))],
]

const large = Buffer.alloc(5 * 2 ** 20, 'large')

async function setUp({ fs: { promises: fs } }: Session): Promise<void> {
  await fs.mkdir('/dir/empty', { recursive: true })
  await fs.writeFile('/dir/file', 'hello world')
  await fs.symlink('file', '/dir/link')
}

async function loadAll(fs: SessionFs): Promise<void> {
  for (const entry of await fs.promises.readdir('/', { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile()) await fs.promises.readFile(path)
    else if (entry.isDirectory()) await fs.promises.readdir(path)
  }
}

/** The code and system call of a thrown error, or 'done'. */
function attempt(run: () => unknown): string {
  try {
    run()
    return 'done'
  } catch (thrown) {
    const { code, syscall } = thrown as NodeJS.ErrnoException
    return `${code} ${syscall}`
  }
}

const ofEachRead = ['memory', 'durable memory without synchronous reads']

describe.each(allStorages.filter(([name]) => isLong || ofEachRead.includes(name)))(
  'synchronous calls on %s',
  (name, make, lasting) => {
    const waits = name === 'durable memory without synchronous reads'
    let directory: string
    let engine: Engine
    let session: Session
    let hash: string

    beforeEach(async () => {
      directory = mkdtempSync(join(tmpdir(), 'eagain-'))
      const storage = make(directory)
      engine = await openEngine({ storage })
      session = await engine.sessions.create()
      await setUp(session)
      hash = (await session.manifest()).manifestHash
      if (!lasting) return
      await engine.close()
      engine = await openEngine({ storage })
      session = await engine.sessions.open(session.id)
    })

    afterEach(async () => {
      await engine.close()
      rmSync(directory, { recursive: true })
    })

    test.each([...reads, ...changes])(
      'of a session that was just opened: %s',
      async (_name, syscall, run) => {
        const { fs } = session
        const first = attempt(() => run(fs))
        expect(first).toBe(waits ? `EAGAIN ${syscall}` : 'done')
        const after = waits ? (await session.manifest()).manifestHash : hash
        expect(after).toBe(hash)
        await loadAll(fs)
        if (waits) run(fs)
        await session.flush()
      },
    )

    test.each(changes)('after a pending change: %s', async (_name, syscall, run) => {
      const { fs } = session
      await fs.promises.writeFile('/dir/large', large)
      await loadAll(fs)
      // Content that is stored before its event makes later reads wait; storage that is not durable applies it at once.
      const written = fs.promises.writeFile('/dir/large', Buffer.alloc(large.length, 1))
      for (const [, , read] of reads) read(fs)
      // Blobs of a large file are not kept in memory.
      expect(attempt(() => fs.readFileSync('/dir/large'))).toBe(waits ? 'EAGAIN open' : 'done')
      expect(waits || fs.readFileSync('/dir/large').equals(large)).toBe(lasting)
      const now = attempt(() => run(fs))
      expect(now).toBe(lasting ? `EAGAIN ${syscall}` : 'done')
      await written
      if (now !== 'done') run(fs)
      await session.flush()
    })

    test('with a descriptor: a failed read does not move the position', async () => {
      const { fs } = session
      const handle = await fs.promises.open('/dir/file', 'r+')
      const { fd } = handle
      const buffer = Buffer.alloc(5)
      for (const read of [
        () => fs.readSync(fd, buffer, 0, 5, 6),
        () => fs.readSync(fd, buffer),
        () => fs.readvSync(fd, [buffer]),
        () => fs.readFileSync(fd),
      ]) {
        expect(attempt(read)).toBe(waits ? 'EAGAIN read' : 'done')
      }
      const rest = await handle.readFile('utf8')
      expect(rest).toBe(waits ? 'hello world' : '')
      expect(fs.readSync(fd, buffer, 0, 5, 6)).toBe(5)
      expect(buffer.toString()).toBe('world')
      expect(fs.fstatSync(fd).size).toBe(11)
      expect(fs.writeSync(fd, '!')).toBe(1)
      fs.ftruncateSync(fd, 9)
      fs.closeSync(fd)
      expect(await fs.promises.readFile('/dir/file', 'utf8')).toBe('hello wor')
      await session.flush()
    })

    test('fail permanently after the session was deleted', async () => {
      await engine.sessions.delete(session.id)
      for (const [, syscall, run] of [...reads, ...changes])
        expect(attempt(() => run(session.fs))).toBe(`EIO ${syscall}`)
      await expect(session.fs.promises.stat('/')).rejects.toMatchObject({ code: 'EIO', syscall: 'stat' })
    })
  },
)

describe.each([[true], [false]])('after a failed write, synchronous reads: %s,', (syncReads) => {
  test.each([...reads, ...changes])('until the session is reloaded: %s', async (_name, syscall, run) => {
    const storage = new FailingStorage(memoryStorage({ durable: true, syncReads }))
    const engine = await openEngine({ storage })
    const session = await engine.sessions.create()
    const { fs } = session
    await setUp(session)
    storage.next = 'pass'
    fs.writeFileSync('/dir/lost', 'x')
    await expect(session.flush()).rejects.toMatchObject({ reason: 'STORE_FAILED' })
    expect(attempt(() => run(fs))).toBe(`EAGAIN ${syscall}`)
    await loadAll(fs)
    expect(fs.existsSync('/dir/lost')).toBe(false)
    run(fs)
    await session.flush()
    await engine.close()
  })
})
