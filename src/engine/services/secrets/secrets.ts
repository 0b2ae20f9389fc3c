import { EngineError, invalid } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { idLength } from '../../base/ids.js'
import { given, parseText, shown } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { KeyedMutex } from '../../base/keyed-mutex.js'
import { limits } from '../../base/limits.js'
import { compareUtf8 } from '../../base/order.js'
import { nextTurn } from '../../base/cooperative.js'
import { present } from '../../base/present.js'
import type { Core } from '../../session/core.js'
import { eventTypes } from '../../records/event.js'
import type { LiveSession } from '../../session/table/live.js'
import type { RecordChanges } from '../../session/journal/journal.js'
import { roughly, SessionIndex } from '../../session/table/session-index.js'
import { commitRecords, mutate, record } from '../../session/mutation-queue.js'
import { findSession } from '../../session/history/replay.js'
import { headOf, type Head } from '../../session/sharing/head.js'
import { Overtaken } from '../../session/sharing/shared-session.js'
import { keys, prefixEnd } from '../../storage/keys.js'
import type { ScanRange } from '../../storage/store.js'
import { checkQuota } from '../quota.js'
import { Secret } from './secret.js'
import type { KeyRing } from './secret-keys.js'
import { damagedSecret, openSecret, parseSecretRecord, rewrapSecret, sealSecret } from './secret-records.js'
import { SecretScope, type SecretPlace, type SecretRecord } from '../../records/secret.js'

/** A secret without its value. */
export interface SecretInfo {
  /** The name of the secret. */
  readonly secretName: string
  /** Always `SECRET_SCOPE_SESSION`. */
  readonly scope: SecretScope
}

/** The request of `session.secrets.put`. */
export interface SecretPutRequest {
  /** The name, 1 to 128 bytes of visible characters, without white space at its ends. */
  readonly secretName: string
  /** The value, at most 65,536 bytes. */
  readonly secretValue: string
  /** The only scope, which is also the default. */
  readonly scope?: SecretScope
}

/** Identifies a secret of a session. */
export interface SecretReference {
  /** The name, 1 to 128 bytes of visible characters, without white space at its ends. */
  readonly secretName: string
  /** The only scope, which is also the default. */
  readonly scope?: SecretScope
}

/** Secrets by name; the value is undefined for a damaged record. */
type SecretIndex = Map<string, SecretRecord | undefined>

/** The records of some secrets, with the head of their session on a shared store. */
interface StoredSecrets {
  readonly head: Head | undefined
  readonly found: readonly (readonly [key: string, json: string])[]
}

/**
 * Secrets of sessions. Values are always encrypted, in memory too. A secret belongs to one session: a fork
 * starts without secrets, and a restore does not change them.
 */
export class Secrets {
  readonly #ring: KeyRing
  /**
   * Serializes stored changes of each session, so that a rotation cannot write a secret after its deletion.
   */
  readonly #stored = new KeyedMutex()
  /** Whether a call has changed the secrets of a session since they were read for a rotation. */
  readonly #rewrapping = new Map<string, { isChanged: boolean }>()
  readonly #indexes = new SessionIndex<SecretIndex>(
    keys.secrets,
    () => new Map(),
    (index, json, _core, key) => addStored(index, json, key),
    { weigh },
  )

  constructor(ring: KeyRing) {
    this.#ring = ring
  }

  /**
   * Stores a secret.
   *
   * @throws {EngineError} NO_MASTER_KEY when the engine has no master key
   * @throws {EngineError} QUOTA when the session has 1,000 secrets
   */
  put(core: Core, live: LiveSession, { secretName, secretValue }: SecretPutRequest): Promise<SecretInfo> {
    return mutate(core, live, () => {
      const master = this.#ring.current()
      const index = this.#indexes.get(core, live)
      if (!index.has(secretName)) checkQuota('secrets', index.size + 1, limits.secrets)
      const version = (index.get(secretName)?.version ?? 0) + 1
      const place = { ...placeOf(live, secretName), version }
      const sealed = sealSecret(core.environment, master, place, secretValue)
      index.set(secretName, sealed)
      this.#noteChange(live)
      const info: SecretInfo = { secretName, scope: sealed.scope }
      const committed = record(core, live, {
        type: eventTypes.putSecret,
        details: { ...info },
        redo: [],
        ...core.journal.kept((): RecordChanges => ({ put: [[keys.secret(live.id, secretName), sealed]] })),
      })
      return committed.then(() => info)
    })
  }

  /**
   * Decrypts a secret.
   *
   * @throws {EngineError} NO_MASTER_KEY when the engine lacks the key of the secret
   * @throws {EngineError} SECRET_NOT_FOUND when no secret has this name
   * @throws {EngineError} DATA_LOSS when the stored secret is damaged
   */
  async get(core: Core, live: LiveSession, secretName: string): Promise<Secret> {
    this.#ring.current()
    const index = await whenLoaded(() => this.#indexes.get(core, live))
    if (!index.has(secretName)) throw secretNotFound(secretName)
    const sealed = index.get(secretName)
    const place = placeOf(live, secretName)
    if (sealed === undefined) throw damagedSecret(place)
    return new Secret(openSecret(this.#ring, { ...place, version: sealed.version }, sealed))
  }

  /** Lists the secrets in the order of their names. Needs no master key. */
  async list(core: Core, live: LiveSession): Promise<{ secrets: SecretInfo[] }> {
    const index = await whenLoaded(() => this.#indexes.get(core, live))
    const names = [...index.keys()].toSorted(compareUtf8)
    return { secrets: names.map((secretName) => ({ secretName, scope: SecretScope.SESSION })) }
  }

  /**
   * Deletes a secret. Needs no master key, so that unreadable secrets can be deleted.
   *
   * @throws {EngineError} SECRET_NOT_FOUND when no secret has this name
   */
  delete(core: Core, live: LiveSession, secretName: string): Promise<SecretInfo> {
    return mutate(core, live, () => {
      if (!this.#indexes.get(core, live).delete(secretName)) throw secretNotFound(secretName)
      this.#noteChange(live)
      const info: SecretInfo = { secretName, scope: SecretScope.SESSION }
      const committed = record(core, live, {
        type: eventTypes.deleteSecret,
        details: { ...info },
        redo: [],
        ...core.journal.kept((): RecordChanges => ({ del: [keys.secret(live.id, secretName)] })),
      })
      return committed.then(() => info)
    })
  }

  #noteChange({ id }: LiveSession): void {
    const watch = this.#rewrapping.get(id)
    if (watch !== undefined) watch.isChanged = true
  }

  /** Deletes the secrets of a deleted session from the store. */
  async forget(core: Core, sessionId: string): Promise<void> {
    const gte = keys.secrets(sessionId)
    await core.journal.kept(() =>
      this.#stored.run(sessionId, async () => {
        const found = await core.store.scan({ gte, lt: prefixEnd(gte), limit: limits.secrets })
        if (found.length > 0) await core.store.commit({ del: found.map(([key]) => key) })
      }),
    )
  }

  /**
   * Rewraps the data keys of all stored secrets that the current master key does not wrap. An error does not
   * stop the rotation: it processes all secrets, and then throws the first error. Rewrapped keys stay
   * rewrapped.
   *
   * @throws {EngineError} NO_MASTER_KEY when the engine lacks the key of a secret
   * @throws {EngineError} DATA_LOSS when a stored secret is damaged
   */
  async rotate(core: Core): Promise<{ rewrapped: number }> {
    this.#ring.current()
    if (core.fence.closed) await core.fence.recover()
    const problems: EngineError[] = []
    let rewrapped = 0
    const lt = prefixEnd(keys.allSecrets())
    for (let gte = keys.allSecrets(); ;) {
      const [next] = await core.store.scan({ gte, lt, limit: 1 })
      if (next === undefined) break
      const sessionId = next[0].slice(keys.allSecrets().length, nameStart)
      rewrapped += await this.#rewrapSession(core, sessionId, problems)
      gte = prefixEnd(keys.secrets(sessionId))
    }
    if (problems[0] !== undefined) throw problems[0]
    return { rewrapped }
  }

  /** Rewraps the secrets of a session, a few at a time, with turns of the event loop in between. */
  async #rewrapSession(core: Core, sessionId: string, problems: EngineError[]): Promise<number> {
    const gte = keys.secrets(sessionId)
    let rewrapped = 0
    let lost = 0
    for (let next = gte; ;) {
      if (lost === limits.sharedChangeRuns) throw new Overtaken(sessionId)
      const live = core.table.live.get(sessionId)
      if (live !== undefined) return rewrapped + (await this.#rewrapLive(core, live, problems))
      await core.table.draining.get(sessionId)
      const range = { gte: next, lt: prefixEnd(gte), limit: limits.secretsPerCommit }
      const done = await this.#stored.run(sessionId, async () => {
        const read = await this.#readStored(core, sessionId, range)
        if (read === undefined) return false
        const { head, found } = read
        const stored: SecretIndex = new Map()
        for (const [key, json] of found) addStored(stored, json, key)
        const changed = this.#rewrap(core, sessionId, stored, problems)
        if (changed.length > 0) {
          const put = recordsOf(sessionId, changed)
          if (head === undefined) await core.store.commit({ put })
          // The engine that deletes a session deletes its secrets afterwards.
          else if (!(await isKept(core, sessionId, changed))) return true
          else if (!(await core.store.commit({ put, heads: [head.next()] }))) {
            lost++
            return false
          }
        }
        lost = 0
        rewrapped += changed.length
        next = `${found.at(-1)?.[0] ?? next}\0`
        return found.length < range.limit
      })
      if (done) return rewrapped
      await nextTurn()
    }
  }

  /** Reads secrets of a session. Returns undefined if it was opened meanwhile, because memory may then be newer. */
  async #readStored(core: Core, sessionId: string, range: ScanRange): Promise<StoredSecrets | undefined> {
    const { live, draining } = core.table
    const isInMemory = (): boolean => live.has(sessionId) || draining.has(sessionId)
    // A change from before the watch may not be stored yet.
    if (isInMemory()) return undefined
    const watch = { isChanged: false }
    this.#rewrapping.set(sessionId, watch)
    try {
      // The head is read first, so nothing is stored if another engine changes the session meanwhile.
      const head = await headOf(core, sessionId)
      const found = await core.store.scan(range)
      // A session that was changed may be evicted again.
      return watch.isChanged || isInMemory() ? undefined : { head, found }
    } finally {
      this.#rewrapping.delete(sessionId)
    }
  }

  /**
   * Rewraps the secrets of a session in memory. Each group of a few secrets is one of the session's changes,
   * in call order.
   */
  async #rewrapLive(core: Core, live: LiveSession, problems: EngineError[]): Promise<number> {
    const tried = new Set<string>()
    let rewrapped = 0
    // On a shared store, this runs again if another engine was first.
    const rewrapSome = (): Promise<{ readonly names: readonly string[]; readonly count: number }> => {
      const index = this.#indexes.get(core, live)
      const { print } = this.#ring.current()
      const some: SecretIndex = new Map()
      for (const [name, sealed] of index) {
        if (some.size === limits.secretsPerCommit) break
        if (!tried.has(name) && sealed?.keyPrint !== print) some.set(name, sealed)
      }
      const changed = this.#rewrap(core, live.id, some, problems)
      for (const sealed of changed) index.set(sealed.secretName, sealed)
      const committed =
        changed.length === 0
          ? live.acknowledged
          : commitRecords(core, live, { put: recordsOf(live.id, changed) })
      return committed.then(() => ({ names: [...some.keys()], count: changed.length }))
    }
    try {
      await core.sharing?.freshen(core, live)
      for (;;) {
        const { names, count } = await mutate(core, live, rewrapSome)
        if (names.length === 0) break
        for (const name of names) tried.add(name)
        rewrapped += count
        await nextTurn()
      }
    } catch (error) {
      if (live.discarded !== 'deleted') throw error
    }
    return rewrapped
  }

  #rewrap(core: Core, sessionId: string, index: SecretIndex, problems: EngineError[]): SecretRecord[] {
    const { print } = this.#ring.current()
    const changed: SecretRecord[] = []
    for (const [secretName, sealed] of index) {
      if (sealed?.keyPrint === print) continue
      try {
        if (sealed === undefined) throw damagedSecret({ tenantKey: '', sessionId, secretName })
        const { tenantKey, version } = sealed
        const place = { tenantKey, sessionId, secretName, version }
        changed.push(rewrapSecret(core.environment, this.#ring, place, sealed))
      } catch (error) {
        if (!(error instanceof EngineError)) throw error
        problems.push(error)
      }
    }
    return changed
  }
}

function weigh(index: SecretIndex): number {
  let bytes = 0
  for (const sealed of index.values()) bytes += roughly.record + (sealed?.value.length ?? 0)
  return bytes
}

/** The index at which the name starts in a key. */
const nameStart = keys.secrets('0'.repeat(idLength)).length

function addStored(index: SecretIndex, json: string, key: string): void {
  const name = key.slice(nameStart)
  index.set(name, parseSecretRecord(json, name))
}

/** Whether the session of some secrets exists. */
async function isKept(core: Core, sessionId: string, [secret]: readonly SecretRecord[]): Promise<boolean> {
  const { tenantKey } = present(secret, 'a secret of the session')
  const record = await findSession({ ...core, tenantKey }, sessionId)
  return record !== undefined && record.deletedAt === undefined
}

function recordsOf(
  sessionId: string,
  all: readonly SecretRecord[],
): (readonly [key: string, sealed: SecretRecord])[] {
  return all.map((sealed) => [keys.secret(sessionId, sealed.secretName), sealed] as const)
}

function placeOf(live: LiveSession, secretName: string): Omit<SecretPlace, 'version'> {
  return { tenantKey: live.tenantKey, sessionId: live.id, secretName }
}

function secretNotFound(secretName: string): EngineError {
  return new EngineError('SECRET_NOT_FOUND', `the session has no secret named ${given(secretName)}`, {
    secretName: shown(secretName),
  })
}

/**
 * Characters that cannot be seen: control and format characters, separators of lines, private-use and
 * noncharacters.
 */
const unseen = /[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}]/u

function parseName(secretName: unknown): string {
  const name = parseText('secretName', secretName, limits.secretNameBytes)
  if (name === '' || name !== name.trim() || unseen.test(name))
    throw invalid('secretName', 'must consist of visible characters, without leading or trailing white space')
  return name
}

function parseScope(scope: unknown): SecretScope {
  if (scope === undefined || scope === SecretScope.SESSION) return SecretScope.SESSION
  throw invalid('scope', `must be ${SecretScope.SESSION}; it is ${given(scope)}`)
}

const putShape = new Shape<SecretPutRequest>({ secretName: true, secretValue: true, scope: true })

const referenceShape = new Shape<SecretReference>({ secretName: true, scope: true })

const listShape = new Shape<{ readonly scope?: SecretScope }>({ scope: true })

export function parseSecretPut(request: SecretPutRequest): SecretPutRequest {
  const { secretName, secretValue, scope } = putShape.read(request)
  return {
    secretName: parseName(secretName),
    secretValue: parseText('secretValue', secretValue, limits.secretValueBytes),
    scope: parseScope(scope),
  }
}

export function parseSecretReference(request: SecretReference): string {
  const { secretName, scope } = referenceShape.read(request)
  parseScope(scope)
  return parseName(secretName)
}

export function parseSecretList(request: { readonly scope?: SecretScope }): void {
  parseScope(listShape.read(request).scope)
}
