/**
 * Prints the heap size of files and forks. Arguments: the number of files, the number of forks, and a directory for
 * storage on disk. Without a directory, the storage is in memory.
 */
import { memoryStorage, openEngine, type Engine, type Session } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { heapBytes } from './measure.js'
import { filesOf, projectPaths } from './project-files.js'

/** Milliseconds, and bytes of heap without the contents of buffers. */
export interface HeapReport {
  readonly createMs: number
  readonly perFile: number
  readonly perFork: number
}

const [size = '', forkCount = '', directory] = process.argv.slice(2)
const storage = directory === undefined ? memoryStorage() : levelStorage(directory, { durability: 'relaxed' })
const engine = await openEngine({ storage })
console.log(JSON.stringify(await measure(engine, Number(size), Number(forkCount))))
await engine.close()

async function measure(engine: Engine, size: number, forkCount: number): Promise<HeapReport> {
  // Warms up, so that the figures exclude compiled code and objects that are allocated once.
  await forked((await create(engine, 100)).session, 50)
  const empty = await heapBytes()
  const { session, createMs } = await create(engine, size)
  const filled = await heapBytes()
  const forks = await forked(session, forkCount)
  const branched = await heapBytes()
  return { createMs, perFile: (filled - empty) / size, perFork: (branched - filled) / forks.length }
}

/** A separate function, so that paths and contents can be collected when it returns. */
async function create(engine: Engine, size: number): Promise<{ session: Session; createMs: number }> {
  const files = filesOf(projectPaths(size))
  const start = performance.now()
  const session = await engine.sessions.create({ files })
  return { session, createMs: performance.now() - start }
}

async function forked(session: Session, count: number): Promise<Session[]> {
  const forks: Session[] = []
  for (let i = 0; i < count; i++) forks.push(await session.fork())
  return forks
}
