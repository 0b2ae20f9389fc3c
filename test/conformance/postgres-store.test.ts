import { describe } from 'vitest'
import { freshPostgres, hasPostgres } from '../support/postgres.js'
import { isLong } from '../support/seed.js'
import { storeSuite } from './store.js'

describe.skipIf(!hasPostgres)('PostgreSQL', () => {
  storeSuite({
    name: 'postgres',
    capabilities: { durable: true, syncReads: false },
    create: async () => {
      const { storage } = await freshPostgres()
      return { storage, cleanup: () => Promise.resolve() }
    },
  })
  // `npm test` runs the model and the HTTP interface on a shared schema.
  if (!isLong) return
  storeSuite({
    name: 'postgres, shared',
    capabilities: { durable: true, syncReads: false, shared: { freshnessMs: 100 } },
    create: async () => {
      const { storage } = await freshPostgres({ shared: true })
      return { storage, cleanup: () => Promise.resolve() }
    },
  })
})
