/** The writes that the PostgreSQL benchmark measures, in its own process or in several others. */
import type { Engine } from 'forkspace'
import type pg from 'pg'
import type { Contestant } from './measure.js'
import { contents } from './project-files.js'

/** The work of one process. */
export interface WriteWork {
  /** Writes of files by an engine that shares the store, or inserts of rows by pg. */
  readonly kind: 'writes' | 'inserts'
  readonly connectionString: string
  /** Writers in this process. Each waits for its own operation before the next one. */
  readonly writers: number
  /** Operations of one run in this process. */
  readonly count: number
  /** Connections of inserts in this process. */
  readonly connections: number
}

export type WriteStep = { readonly step: 'start'; readonly work: WriteWork } | { readonly step: 'run' }

/** Each writer writes new files with new contents to a session of its own. */
export async function writesOf(engine: Engine, writers: number, count: number): Promise<Contestant> {
  const sessions = await Promise.all(Array.from({ length: writers }, () => engine.sessions.create()))
  const bodies = contents(1024, 200)
  // Every content is new, also among several processes.
  let number = (process.pid * 1_000_003) % 2 ** 31
  return shared(writers, count, (writer) => {
    const content = bodies[number % bodies.length]!
    content.writeUInt32LE(number)
    return sessions[writer]!.fs.promises.writeFile(`/file-${number++}`, content)
  })
}

/** The table must exist. */
export function insertsOf(raw: pg.Pool, writers: number, count: number): Contestant {
  const [value] = contents(1, 200)
  return shared(writers, count, () =>
    raw.query({ name: 'insert', text: 'INSERT INTO raw (value) VALUES ($1)', values: [value] }),
  )
}

/** Work that several writers share, each of which waits for its own. */
function shared(writers: number, count: number, work: (writer: number) => Promise<unknown>): Contestant {
  const share = Math.ceil(count / writers)
  return {
    count: share * writers,
    run: async () => {
      const one = async (writer: number): Promise<void> => {
        for (let i = 0; i < share; i++) await work(writer)
      }
      await Promise.all(Array.from({ length: writers }, (_, writer) => one(writer)))
    },
  }
}
