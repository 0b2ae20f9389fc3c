import type { Engine, EngineApi, EngineScope, SessionApi } from '../../engine/index.js'
import { present } from '../../engine/ports.js'
import { Failure } from './failure.js'
import { completeId } from './ids.js'
import type { Output } from './output.js'
import { openTarget, type Place, type Target } from './target.js'
import type { World } from './world.js'

/** The services that a verb uses: its target, its output and the process. */
export class Context {
  readonly out: Output
  readonly world: World
  readonly #place: Place
  #target: Target | undefined

  constructor(place: Place, world: World, out: Output) {
    this.#place = place
    this.world = world
    this.out = out
  }

  get stderr(): World['stderr'] {
    return this.world.stderr
  }

  get remote(): boolean {
    return 'server' in this.#place
  }

  /** The server, if the verb does not work on a store. */
  get server(): { readonly baseUrl: string; readonly token: string } | undefined {
    return 'server' in this.#place ? { baseUrl: this.#place.server, token: this.#place.token } : undefined
  }

  /** Opens the target on the first call. Later calls return the same target. */
  async workspaces(options: { readonly create: boolean } = { create: false }): Promise<EngineApi> {
    this.#target ??= await openTarget(this.#place, options)
    return this.#target.workspaces
  }

  /**
   * Returns the local engine, for work that a server does not offer. `what` is the name of the work in the
   * error.
   */
  async engine(what: string, options?: { readonly create: boolean }): Promise<Engine | EngineScope> {
    if (this.remote)
      throw new Failure(`${what} needs direct access to the store: use --store <directory>, not --server`)
    await this.workspaces(options)
    return present(this.#target?.engine, 'the engine of a store')
  }

  async sessionId(prefix: string): Promise<string> {
    const { sessions } = await this.workspaces()
    return completeId('session', prefix, async (request) => {
      const page = await sessions.list(request)
      return { ids: page.sessions.map(({ id }) => id), nextPageToken: page.nextPageToken }
    })
  }

  async session(prefix: string): Promise<SessionApi> {
    const id = await this.sessionId(prefix)
    return (await this.workspaces()).sessions.open(id)
  }

  async sourceId(prefix: string): Promise<string> {
    const { sources } = await this.workspaces()
    return completeId('source', prefix, async (request) => {
      const page = await sources.list(request)
      return { ids: page.sources.map(({ sourceId }) => sourceId), nextPageToken: page.nextPageToken }
    })
  }

  /** Writes a line for people to standard error, except with `--json`. */
  note(text: string): void {
    if (!this.out.json) this.stderr.write(`${text}\n`)
  }

  async close(): Promise<void> {
    await this.#target?.close()
  }
}
