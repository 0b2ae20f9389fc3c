import type { Scenario } from '../support/scenario.js'
import { bus } from './service-bus.js'
import { cache } from './service-cache.js'
import { events } from './service-events.js'

export const services: Scenario = {
  name: 'services',
  title: 'Services of a session (in memory unless noted)',
  async *run(context) {
    yield* cache(context)
    yield* bus(context)
    yield* events(context)
  },
}
