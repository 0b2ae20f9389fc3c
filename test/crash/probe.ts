import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine, Session } from '../../src/index.js'
import { probeTag } from './protocol.js'
import { requireStoreFailure } from './workload.js'

const mostTries = 20
const stepMs = 100

/** A separate session that shows whether an engine accepts changes. */
export class Probe {
  readonly #session: Session
  #writes = 0
  #stored = 0

  constructor(session: Session) {
    this.#session = session
  }

  static async create(engine: Engine): Promise<Probe> {
    const probe = new Probe(await engine.sessions.create({ initialTags: { [probeTag]: '' } }))
    await probe.#write()
    return probe
  }

  /** Whether a change is accepted within a few attempts. */
  async resumes(): Promise<boolean> {
    for (let i = 0; i < mostTries; i++) {
      try {
        await this.#write()
        return true
      } catch (error) {
        requireStoreFailure(error)
      }
      await sleep(i * stepMs)
    }
    return false
  }

  async read(): Promise<void> {
    const found = Buffer.from(await this.#session.files.read({ path: '/probe' })).toString()
    // A write with an unknown outcome may be stored.
    const number = Number(/^probe (\d+)$/.exec(found)?.[1])
    if (!(number >= this.#stored && number <= this.#writes)) throw new Error(`${found} was read`)
  }

  async #write(): Promise<void> {
    const number = ++this.#writes
    await this.#session.files.write({ path: '/probe', content: `probe ${number}` })
    this.#stored = number
  }
}
