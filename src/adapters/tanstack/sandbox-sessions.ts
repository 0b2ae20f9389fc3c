import type { EngineScope, Session, SessionCreateRequest, SessionInfo } from '../../engine/index.js'
import { EngineError, given, invalid, untilAborted } from '../../engine/ports.js'
import { SandboxChanges } from './changes.js'
import { forkWithCommit } from './commits.js'
import { limits } from './limits.js'

/** The tag with the id of the sandbox to which a session belongs. */
const idTag = 'sandbox'
/** The tag that tells a sandbox and its snapshots apart. */
const kindTag = 'sandbox-kind'
/** The tag with the source that this adapter created for a session. Forks and snapshots have it too. */
const sourceTag = 'sandbox-source'

type Kind = 'live' | 'snapshot'

/** The sessions of sandboxes. Their tags say which sandbox they belong to, so that a later process finds them. */
export class SandboxSessions {
  readonly #engine: EngineScope
  readonly #from: SessionCreateRequest
  readonly changes = new SandboxChanges()
  readonly #sources = new Map<string, string>()
  /** The numbers of imports that run, by the ids of their sources. */
  readonly #imports = new Map<string, number>()
  /** The sessions of clones, by the ids of the empty sessions that they replaced. */
  readonly #replacements = new Map<string, Session>()
  readonly #running = new Map<string, Promise<unknown>>()

  constructor(engine: EngineScope, from: SessionCreateRequest) {
    this.#engine = engine
    this.#from = from
  }

  /** Creates the session of a new sandbox. */
  create(id: string): Promise<Session> {
    return this.#engine.sessions.create({
      ...this.#from,
      initialTags: { ...this.#from.initialTags, ...tagsOf(id, 'live') },
    })
  }

  /** Creates the session of a sandbox on an import of a repository, or of a directory of the host. */
  async import(
    id: string,
    {
      kind,
      place,
      ref,
    }: { readonly kind: 'git' | 'directory'; readonly place: string; readonly ref: string },
    signal?: AbortSignal,
  ): Promise<Session> {
    const sourceId = await this.#claimSource(kind, place)
    try {
      const { sources, sessions } = this.#engine
      const job = await sources.startImport(
        sourceId,
        kind === 'git' && ref !== '' ? { git: { gitRef: ref } } : {},
      )
      const { revisionId } = await sources.waitForJob(job, signal === undefined ? {} : { signal })
      return await sessions.create({
        sourceRef: { sourceId, revisionId },
        ...(this.#from.ttlSeconds !== undefined && { ttlSeconds: this.#from.ttlSeconds }),
        initialTags: {
          ...this.#from.initialTags,
          ...tagsOf(id, 'live'),
          [sourceTag]: sourceId,
          ...(ref !== '' && { 'sandbox-ref': ref }),
        },
      })
    } finally {
      const others = (this.#imports.get(sourceId) ?? 1) - 1
      if (others > 0) this.#imports.set(sourceId, others)
      else this.#imports.delete(sourceId)
      await this.#deleteUnused(sourceId)
    }
  }

  /** The newest session of a sandbox. */
  async find(id: string): Promise<Session | undefined> {
    const [info] = (await this.#list(id, 'live')).slice(-1)
    return info && this.#engine.sessions.open(info.id)
  }

  /** Lets the calls of a sandbox run one after the other. */
  async oneByOne<T>(id: string, job: () => Promise<T>): Promise<T> {
    const run = (this.#running.get(id) ?? Promise.resolve()).then(job)
    const ended = run.catch(() => undefined)
    this.#running.set(id, ended)
    try {
      return await run
    } finally {
      if (this.#running.get(id) === ended) this.#running.delete(id)
    }
  }

  /** Lets all handles on a session continue on another one. */
  replace(session: Session, by: Session): void {
    this.#replacements.delete(by.id)
    this.#replacements.set(session.id, by)
    const [oldest] = this.#replacements.keys()
    if (oldest !== undefined && this.#replacements.size > limits.sandboxes) this.#replacements.delete(oldest)
  }

  newestOf(session: Session): Session {
    let newest = session
    for (;;) {
      const next = this.#replacements.get(newest.id)
      if (next === undefined) return newest
      newest = next
    }
  }

  /** Forks a session as a sandbox of its own. */
  forkAs(id: string, session: Session): Promise<Session> {
    return forkWithCommit(session, { newTags: tagsOf(id, 'live') })
  }

  /** Forks a session as a snapshot, which outlives it. */
  async snapshot(id: string, session: Session, label: string | undefined): Promise<Session> {
    const fork = await forkWithCommit(session, {
      newTags: tagsOf(id, 'snapshot'),
      ...(label !== undefined && { metadata: { label } }),
    })
    const older = await this.#list(id, 'snapshot')
    for (const { id: sessionId } of older.slice(0, -limits.snapshots))
      await this.#engine.sessions.delete(sessionId)
    return fork
  }

  /**
   * Opens a snapshot, with the id of its sandbox.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when there is no such snapshot.
   */
  async snapshotOf(snapshotId: string): Promise<{ readonly id: string; readonly snapshot: Session }> {
    const snapshot = await this.#engine.sessions.open(snapshotId)
    const { [idTag]: id, [kindTag]: kind } = (await snapshot.get()).tags
    if (id === undefined || kind !== 'snapshot')
      throw new EngineError('SESSION_NOT_FOUND', `${given(snapshotId)} is no snapshot of a sandbox`, {
        sessionId: snapshotId,
      })
    return { id, snapshot }
  }

  /** Deletes all sessions of a sandbox, and its snapshots. */
  async deleteAll(id: string, signal?: AbortSignal): Promise<void> {
    await this.#deleteEach(id, ['snapshot', 'live'], signal)
  }

  /** Deletes all sessions of a sandbox. Its snapshots stay. */
  async deleteLive(id: string): Promise<void> {
    await this.#deleteEach(id, ['live'])
  }

  async #deleteEach(id: string, kinds: readonly Kind[], signal?: AbortSignal): Promise<void> {
    const sources = new Set<string>()
    for (const kind of kinds)
      for (const { id: sessionId, tags } of await untilAborted(this.#list(id, kind), signal)) {
        await this.delete(sessionId)
        const { [sourceTag]: sourceId } = tags
        if (sourceId !== undefined) sources.add(sourceId)
      }
    for (const sourceId of sources) await this.#deleteUnused(sourceId)
  }

  /** Deletes a session that no sandbox got, with its source if no other one is on it. */
  async discard(session: Session): Promise<void> {
    const { [sourceTag]: sourceId } = (await session.get()).tags
    await this.delete(session.id)
    if (sourceId !== undefined) await this.#deleteUnused(sourceId)
  }

  /** Deletes a source that this adapter created, once no sandbox and no snapshot is on it. */
  async #deleteUnused(sourceId: string): Promise<void> {
    const { sessions, sources } = this.#engine
    const used = await sessions.list({ filter: `${sourceTag}=${sourceId}`, pageSize: 1 })
    if (used.sessions.length > 0 || this.#imports.has(sourceId)) return
    for (const [key, id] of this.#sources) if (id === sourceId) this.#sources.delete(key)
    try {
      await sources.delete(sourceId)
    } catch (error) {
      if (!(error instanceof EngineError) || error.reason !== 'SOURCE_NOT_FOUND') throw error
    }
  }

  /** Deletes a session. One that is deleted already is no error. */
  async delete(sessionId: string): Promise<void> {
    try {
      await this.#engine.sessions.delete(sessionId)
    } catch (error) {
      if (!(error instanceof EngineError) || error.reason !== 'SESSION_NOT_FOUND') throw error
    }
  }

  async #list(id: string, kind: Kind): Promise<SessionInfo[]> {
    const found: SessionInfo[] = []
    let pageToken = ''
    do {
      const page = await this.#engine.sessions.list({ filter: `${idTag}=${id}`, pageToken })
      found.push(...page.sessions.filter(({ tags }) => tags[kindTag] === kind))
      pageToken = page.nextPageToken
    } while (pageToken !== '')
    return found
  }

  /** The source of a place, which later imports use again. It stays until the import has ended. */
  async #claimSource(kind: 'git' | 'directory', place: string): Promise<string> {
    const key = `${kind} ${place}`
    const known = this.#sources.get(key)
    const sourceId = known ?? (await this.#createSource(kind, place))
    // Nothing is awaited from here to the claim, so a known source cannot be deleted meanwhile.
    if (this.#sources.size < limits.repositories) this.#sources.set(key, sourceId)
    this.#imports.set(sourceId, (this.#imports.get(sourceId) ?? 0) + 1)
    return sourceId
  }

  async #createSource(kind: 'git' | 'directory', place: string): Promise<string> {
    const { sourceId } = await this.#engine.sources.create({ displayName: place, ...originOf(kind, place) })
    return sourceId
  }
}

function tagsOf(id: string, kind: Kind): Readonly<Record<string, string>> {
  return { [idTag]: id, [kindTag]: kind }
}

function originOf(kind: 'git' | 'directory', place: string) {
  if (kind === 'directory') return { hostPath: { path: place } }
  return place.startsWith('/') ? { gitRepository: { path: place } } : { gitRemote: { remoteUrl: place } }
}

/** Checks an id of a sandbox or a snapshot, or a label. */
export function checkedId(field: string, id: unknown): string {
  if (typeof id === 'string' && id !== '' && id.length <= limits.idLength && !/\p{Cc}/u.test(id)) return id
  throw invalid(
    field,
    `must be a string of 1 to ${limits.idLength} characters without control characters; it is ${given(id)}`,
  )
}
