/** Prints what files and forks take of the heap. Arguments: files, forks, and a directory for storage on disk. */
import { memoryStorage, openEngine, type Engine, type Session } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { heapBytes } from './measure.js'
import { filesOf, projectPaths } from './project-files.js'

/** Bytes of heap, contents of buffers not included. */
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
  // Compiled code and what is kept once are not what is measured.
  await forked((await create(engine, 100)).session, 50)
  const empty = await heapBytes()
  const { session, createMs } = await create(engine, size)
  const filled = await heapBytes()
  const forks = await forked(session, forkCount)
  const branched = await heapBytes()
  return { createMs, perFile: (filled - empty) / size, perFork: (branched - filled) / forks.length }
}

/** A function of its own, so that paths and contents are gone when it returns. */
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
