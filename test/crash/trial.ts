import { openEngine, type Engine, type EngineError, type Storage } from '../../src/index.js'
import { requireChecked } from './check.js'
import { Probe } from './probe.js'
import { Verifier } from './verifier.js'
import { requireStoreFailure, Workload } from './workload.js'

/** A store used in this process while its disk fails, reopened as often as needed. */
export class Trial {
  readonly verifier: Verifier
  readonly #storage: () => Storage
  readonly #workload: Workload
  #engine: Engine | undefined
  #probe: Probe | undefined

  constructor(storage: () => Storage, random: () => number, onProgress: (line: string) => void) {
    this.#storage = storage
    this.verifier = new Verifier(random, onProgress)
    this.#workload = new Workload(this.verifier, random)
  }

  /** Opens the store and checks all contents. */
  async open(): Promise<void> {
    const engine = await openEngine({ storage: this.#storage() })
    this.#engine = engine
    await requireChecked(engine)
    this.#probe = await Probe.create(engine)
    await this.verifier.check(engine)
    await this.#workload.open(engine)
  }

  /** The errors of the store, if any. */
  run(calls: number, pending: number): Promise<EngineError[]> {
    return this.#workload.run(calls, pending)
  }

  /** Requires that reads of acknowledged data continue after failed writes. */
  async requireReads(): Promise<void> {
    await this.#probe!.read()
    await this.#engine!.sessions.list({ pageSize: 100 })
  }

  /** Whether the same engine accepts changes again; if so, checks all contents in it. */
  async resumes(): Promise<boolean> {
    if (!(await this.#probe!.resumes())) return false
    await this.verifier.check(this.#engine!)
    await this.#workload.open(this.#engine!)
    return true
  }

  async close(): Promise<void> {
    await this.#engine?.close().catch(requireStoreFailure)
    this.#engine = undefined
  }
}
