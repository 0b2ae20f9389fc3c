import { expect, test } from 'vitest'
import { hasPostgres } from '../support/postgres-server.js'
import { runs, seed } from '../support/seed.js'
import { runLoop } from './compiled.js'

test.skipIf(!hasPostgres)(
  `keeps acknowledged operations on PostgreSQL whole (FORKSPACE_SEED=${seed})`,
  { timeout: 300_000 },
  async () => {
    const stdout = await runLoop('postgres', '--n', String(4 * runs(7)), '--seed', String(seed))
    expect(stdout).toMatch(
      /^postgres: \d+ writers killed, \d+ servers killed, \d+ cuts, \d+ failovers, [\d,]+ acknowledged, 0 lost, 0 torn, \d+ resumed, 0 stuck$/m,
    )
  },
)

test.skipIf(!hasPostgres)(
  `applies each acknowledged operation of two engines once on PostgreSQL (FORKSPACE_SEED=${seed})`,
  { timeout: 300_000 },
  async () => {
    const args = ['--n', String(2 * runs(1)), '--seed', String(seed), '--engines', '2']
    expect(await runLoop('postgres', ...args)).toMatch(
      /^postgres: \d+ engines killed, \d+ suspended, [\d,]+ acknowledged, 0 lost, 0 applied twice, 0 wrong, [\d,]+ refused$/m,
    )
  },
)

test.skipIf(!hasPostgres)(
  `keeps acknowledged operations whose contents are in a bucket (FORKSPACE_SEED=${seed})`,
  { timeout: 300_000 },
  async () => {
    const args = ['--n', String(6 * runs(2)), '--seed', String(seed), '--blobs', 's3']
    expect(await runLoop('postgres', ...args)).toMatch(
      /^postgres: .*, \d+ buckets killed, [\d,]+ acknowledged, 0 lost, 0 torn, \d+ resumed, 0 stuck$/m,
    )
  },
)

test.skipIf(!hasPostgres)(
  `keeps what engines use that collect while others are killed and suspended (FORKSPACE_SEED=${seed})`,
  { timeout: 300_000 },
  async () => {
    const args = ['--n', String(2 * runs(4)), '--seed', String(seed), '--collect', '--engines', '2']
    expect(await runLoop('postgres', ...args)).toMatch(
      /^postgres: \d+ engines killed, \d+ suspended, \d+ collections, [\d,]+ sessions, 0 lost, 0 wrong$/m,
    )
  },
)
