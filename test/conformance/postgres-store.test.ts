import { afterAll, beforeAll, describe } from 'vitest'
import { FreshBuckets } from '../support/fresh-buckets.js'
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
  describe.runIf(isLong)('with a bucket', () => {
    let s3: FreshBuckets
    beforeAll(async () => {
      s3 = await FreshBuckets.start()
    })
    afterAll(() => s3.close())
    storeSuite({
      name: 'postgres, with contents in a bucket',
      capabilities: { durable: true, syncReads: false },
      create: async () => {
        const { storage } = await freshPostgres({ blobs: s3.blobs() })
        return { storage, cleanup: () => Promise.resolve() }
      },
    })
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
