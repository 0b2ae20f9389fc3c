import type { Core } from '../../session/core.js'
import { keys } from '../../storage/keys.js'
import type { HostIndex } from './host-ports.js'
import type { JobRecords } from './job-records.js'

/** The stored results of the last scan; new results are kept in memory until they are stored with the revision. */
export class HostIndexRecords implements HostIndex {
  readonly #core: Core
  readonly #place: string
  /** false: the tree that belongs to the stored results is missing, so they are ignored. */
  readonly #known: boolean
  readonly #changed = new Map<string, string | undefined>()

  constructor(core: Core, place: string, known: boolean) {
    this.#core = core
    this.#place = place
    this.#known = known
  }

  async get(directoryPath: string): Promise<string | undefined> {
    if (this.#changed.has(directoryPath)) return this.#changed.get(directoryPath)
    return this.#known ? this.#core.store.get(this.#key(directoryPath)) : undefined
  }

  set(directoryPath: string, json: string): void {
    this.#changed.set(directoryPath, json)
  }

  delete(directoryPath: string): void {
    this.#changed.set(directoryPath, undefined)
  }

  records(): JobRecords {
    const put: [string, string][] = []
    const del: string[] = []
    for (const [path, json] of this.#changed) {
      if (json === undefined) del.push(this.#key(path))
      else put.push([this.#key(path), json])
    }
    return { put, del }
  }

  #key(directoryPath: string): string {
    return keys.hostEntries(this.#core.tenantKey, this.#place, directoryPath)
  }
}
