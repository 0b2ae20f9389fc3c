import type { Scenario } from '../support/scenario.js'
import { bus } from './service-bus.js'
import { cache } from './service-cache.js'

export const services: Scenario = {
  name: 'services',
  title: 'Services of a session, in memory',
  async *run(context) {
    yield* cache(context)
    yield* bus(context)
  },
}
