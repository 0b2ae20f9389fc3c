/**
 * Prints the process memory that many sessions or one large tree use. Arguments: a subject, the number of sessions or
 * files, the number of files in the base, and the storage directory. The subject is `sessions`; `directory` or `tree`,
 * which creates one; or `used-directory` or `used-tree`, which uses the created one.
 */
import { openEngine, type BatchOperation, type Engine, type Session } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { projectPaths } from './project-files.js'
import { settledRss } from './settled-rss.js'

/** Bytes and milliseconds. */
export type MemoryReport = Readonly<Record<string, number>>

const editsPerSession = 3
const filesPerBatch = 10_000

const [what = '', count = '', baseFiles = '', directory = ''] = process.argv.slice(2)
const storage = levelStorage(directory, { durability: 'relaxed' })
const shape = what.replace('used-', '')
const report =
  what === 'sessions'
    ? manySessions(Number(count), Number(baseFiles))
    : what === shape
      ? makeTree(Number(count))
      : useTree(Number(count))
console.log(JSON.stringify(await report))

async function manySessions(count: number, baseFiles: number): Promise<MemoryReport> {
  const paths = projectPaths(baseFiles)
  let engine = await openEngine({ storage })
  const base = await filled(engine, paths)
  await engine.close()

  engine = await openEngine({ storage })
  const parent = await engine.sessions.open(base)
  const before = await settledRss()
  let start = performance.now()
  const handles: Session[] = []
  for (let i = 0; i < count; i++) {
    const session = await parent.fork()
    for (let edit = 0; edit < editsPerSession; edit++) {
      const path = paths[(i * 31 + edit * 977) % paths.length]!
      await session.files.write({ path, content: `${i} ${edit}` })
    }
    handles.push(session)
  }
  const createMs = (performance.now() - start) / count
  const grown = (await settledRss()) - before
  start = performance.now()
  for (let i = 0; i < 500; i++) await read(handles[(i * 7919) % count]!, paths, (i * 7919) % count)
  const readMs = (performance.now() - start) / 500
  const ids = handles.map(({ id }) => id)
  handles.length = 0
  const withoutHandles = (await settledRss()) - before
  await engine.close()

  const empty = await settledRss()
  start = performance.now()
  engine = await openEngine({ storage })
  const openMs = performance.now() - start
  const opened = (await settledRss()) - empty
  start = performance.now()
  await read(await engine.sessions.open(ids[count >> 1]!), paths, count >> 1)
  const firstReadMs = performance.now() - start
  for (const [i, id] of ids.entries()) await read(await engine.sessions.open(id), paths, i)
  const allRead = (await settledRss()) - empty
  await engine.close()
  return { createMs, grown, withoutHandles, readMs, openMs, opened, firstReadMs, allRead }
}

async function read(session: Session, paths: readonly string[], i: number): Promise<void> {
  const text = await session.fs.promises.readFile(paths[(i * 31) % paths.length]!, 'utf8')
  if (text !== `${i} 0`) throw new Error(`session ${i} has ${text}`)
}

/** Paths in one directory or in many. */
function treePaths(count: number): string[] {
  return shape === 'directory'
    ? Array.from({ length: count }, (_, i) => `/all/file-${((i * 7919) % count).toString(36)}`)
    : projectPaths(count)
}

async function makeTree(count: number): Promise<MemoryReport> {
  const paths = treePaths(count)
  const engine = await openEngine({ storage })
  const before = await settledRss()
  const start = performance.now()
  await filled(engine, paths)
  const createMs = (performance.now() - start) / count
  const created = (await settledRss()) - before
  await engine.close()
  return { createMs, created }
}

async function useTree(count: number): Promise<MemoryReport> {
  // The list of all paths would slow down each garbage collection of the opening.
  const path = treePaths(count)[count >> 1]!
  const before = await settledRss()
  let start = performance.now()
  const engine = await openEngine({ storage })
  const { sessions } = await engine.sessions.list()
  const session = await engine.sessions.open(sessions[0]!.id)
  await session.fs.promises.readFile(path, 'utf8')
  const openMs = performance.now() - start
  const opened = (await settledRss()) - before
  const paths = treePaths(count)
  const pages = await walked(session, count)
  const listed = (await settledRss()) - before
  const statMs = await timed(2000, (i) => session.fs.promises.stat(paths[(i * 104_729) % count]!))
  const writeMs = await timed(2000, (i) =>
    session.files.write({ path: paths[(i * 1299) % count]!, content: `${i}` }),
  )
  const forks: Session[] = []
  const forkMs = await timed(100, async () => forks.push(await session.fork()))
  const forkWriteMs = await timed(100, (i) => forks[i]!.files.write({ path: paths[i]!, content: 'fork' }))
  start = performance.now()
  const { modified } = await forks[0]!.diff(session).paths()
  const diffMs = performance.now() - start
  if (modified.length !== 1) throw new Error(`the diff has ${modified.length} paths`)
  const used = (await settledRss()) - before
  await engine.close()
  return {
    openMs,
    opened,
    pageMs: pages.ms / pages.count,
    listed,
    statMs,
    writeMs,
    forkMs,
    forkWriteMs,
    diffMs,
    used,
  }
}

async function filled(engine: Engine, paths: readonly string[]): Promise<string> {
  const session = await engine.sessions.create()
  for (let from = 0; from < paths.length; from += filesPerBatch) {
    const batch = paths
      .slice(from, from + filesPerBatch)
      .map((path, i): BatchOperation => ({ write: { path, content: `${from + i}` } }))
    await session.files.batch(batch)
  }
  return session.id
}

async function walked(session: Session, expected: number): Promise<{ ms: number; count: number }> {
  const start = performance.now()
  let count = 0
  let files = 0
  for (let pageToken = ''; ;) {
    const page = await session.manifest({ pageSize: 1000, pageToken })
    count++
    files += page.nodes.filter(({ contentHash }) => contentHash !== '').length
    pageToken = page.nextPageToken
    if (pageToken !== '') continue
    if (files !== expected) throw new Error(`the manifest has ${files} files`)
    return { ms: performance.now() - start, count }
  }
}

async function timed(count: number, act: (i: number) => Promise<unknown>): Promise<number> {
  const start = performance.now()
  for (let i = 0; i < count; i++) await act(i)
  return (performance.now() - start) / count
}
