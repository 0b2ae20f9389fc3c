import { expect, test } from 'vitest'
import { hasPostgres } from '../support/postgres-server.js'
import { runs, seed } from '../support/seed.js'
import { runLoop } from './compiled.js'

test.skipIf(!hasPostgres)(
  `keeps acknowledged operations on PostgreSQL whole (FORKSPACE_SEED=${seed})`,
  async () => {
    const stdout = await runLoop('postgres', '--n', String(3 * runs(10)), '--seed', String(seed))
    expect(stdout).toMatch(
      /^postgres: \d+ writers killed, \d+ servers killed, \d+ cuts, [\d,]+ acknowledged, 0 lost, 0 torn, \d+ resumed, 0 stuck$/m,
    )
  },
)
