/** Callers change, fork, merge, rebase, undo and commit a few sessions at once, while the store is collected. */
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { memoryStorage, openEngine, type Storage } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { freshSchema, hasPostgres, sharedPostgres } from '../support/postgres.js'
import { runs, seed } from '../support/seed.js'
import { temporaryDirectory } from '../support/temporary-directory.js'
import { ConcurrentSessions } from './concurrent-sessions.js'

const callers = 7
const freshnessMillis = 5

type Stores = (directory: string) => Storage[] | Promise<Storage[]>

/** The calls of each caller are more where they cost less. */
const stores: readonly (readonly [string, number, Stores])[] = [
  ['durable memory', 80, () => [memoryStorage({ durable: true })]],
  ['level', 80, (directory) => [levelStorage(join(directory, 'data'), { durability: 'relaxed' })]],
  ['PostgreSQL with three engines', 25, onPostgres],
]

async function onPostgres(): Promise<Storage[]> {
  const { connectionString } = await sharedPostgres()
  const schema = freshSchema()
  const one = (): Storage => postgresStorage({ connectionString, schema, shared: true, freshnessMillis })
  return [one(), one(), one()]
}

const cases = stores.flatMap(
  ([name, ...store]) =>
    [
      [`no acknowledged file, merge or commit is lost on ${name}`, false, ...store],
      [`all states in use are kept while sessions are undone and restored on ${name}`, true, ...store],
    ] as const,
)

test.skipIf(!hasGit).each(cases.filter(([title]) => hasPostgres || !title.includes('PostgreSQL')))(
  `%s (FORKSPACE_SEED=${seed})`,
  { timeout: 600_000 },
  async (_title, isUndoing, calls, storesIn) => {
    const random = randomWords(seed)
    for (let run = 0; run < runs(20); run++) {
      const directory = mkdtempSync(join(temporaryDirectory(), 'concurrent-'))
      const repository = GitRepository.create(join(directory, 'remote.git'))
      const engines = []
      // One engine of several has little memory, and evicts the sessions.
      for (const storage of await storesIn(directory))
        engines.push(
          await openEngine({
            storage,
            hostPaths: { roots: [directory] },
            ...(engines.length % 2 === 0 && { memoryBudgetBytes: 4 << 20 }),
          }),
        )
      const sessions = new ConcurrentSessions({
        engines,
        repository,
        random,
        freshnessMillis,
        isUndoing,
      })
      await sessions.start()
      await Promise.all(Array.from({ length: callers }, () => sessions.call(calls)))
      await sessions.check()
      expect(sessions.problems, `run ${run}`).toEqual([])
      await engines[0]?.collect()
      expect(await engines.at(-1)?.check({ readData: true })).toMatchObject({ found: 0 })
      for (const engine of engines) await engine.close()
      rmSync(directory, { recursive: true })
    }
  },
)
