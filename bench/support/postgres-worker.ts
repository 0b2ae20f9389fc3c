/** One process of the PostgreSQL benchmark. It runs its writers on request. */
import { openEngine } from 'forkspace'
import { postgresStorage } from 'forkspace/postgres'
import pg from 'pg'
import type { Contestant } from './measure.js'
import { insertsOf, writesOf, type WriteStep, type WriteWork } from './postgres-writes.js'

let contestant: Contestant | undefined

async function start({ kind, connectionString, writers, count, connections }: WriteWork): Promise<void> {
  if (kind === 'inserts') {
    contestant = insertsOf(new pg.Pool({ connectionString, max: connections }), writers, count)
    return
  }
  const storage = postgresStorage({ connectionString, schema: 'shared', shared: true })
  contestant = await writesOf(await openEngine({ storage }), writers, count)
}

async function run(): Promise<void> {
  await contestant?.run()
}

process.on('message', (step: WriteStep) => {
  const done = step.step === 'start' ? start(step.work) : run()
  done.then(
    () => process.send!({ count: contestant?.count ?? 0 }),
    (error: unknown) => process.send!({ error: String(error) }),
  )
})
process.on('disconnect', () => process.exit())
