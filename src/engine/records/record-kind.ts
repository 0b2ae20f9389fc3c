import { EngineError, messageOf } from '../base/errors.js'
import { isObject, wrongField, type Check, type Checks } from '../base/checks.js'
import { idLength } from '../base/ids.js'
import { shown } from '../base/input.js'
import type { EncodedNode } from '../tree/encoded.js'

/** Receives the references of a record. */
export interface RecordReferences {
  /** The root of a tree. */
  root(root: EncodedNode): void
  /** A blob. The record needs at least its first `length` bytes. */
  blob(hash: string, length: number): void
  /** The key of another record. */
  record(key: string): void
}

/** The owner of the records of a kind. Deleting a session deletes the records that it owns. */
export type RecordScope = 'tenant' | 'session'

/**
 * How a bundle of a session includes the records of one kind: the text that carries them, or the reason for their
 * absence. `madeAnew`: an import writes new records instead.
 */
export type InBundle =
  | { readonly text: 'checkpoints' | 'annotations' | 'approvals' }
  | { readonly absent: string; readonly madeAnew?: true }

/** A kind whose records belong to a session states whether a bundle includes them. */
type Owner = { readonly scope: 'tenant' } | { readonly scope: 'session'; readonly bundle: InBundle }

type Form<R> = Fields<R> & Owner

interface Fields<R> {
  /** In the singular, as in messages: `checkpoint`. */
  readonly name: string
  /** The letter that its keys start with. */
  readonly prefix: string
  /** Whether a key is of this kind. Needed if two kinds have the same prefix. */
  readonly isKey?: (key: string) => boolean
  /** true: the value is plain text, not JSON. */
  readonly isPlain?: true
  /** The fields of an object, or the form of another value. */
  readonly checks: Checks<R> | Check
  /** Converts a record of an earlier version. */
  readonly revive?: (record: R) => R
  readonly references?: (record: R, key: string, to: RecordReferences) => void
  /** true: other records contain the same data, so a repair omits the record if it may be wrong. */
  readonly isDerived?: true
}

/** One kind of record: the prefix of its keys, its owner, its form, and its references. */
export class RecordKind<R> {
  readonly name: string
  readonly prefix: string
  readonly scope: RecordScope
  readonly isDerived: boolean
  /** undefined for a kind whose records belong to the tenant. */
  readonly bundle: InBundle | undefined
  readonly #form: Form<R>

  constructor(form: Form<R>) {
    this.name = form.name
    this.prefix = form.prefix
    this.scope = form.scope
    this.isDerived = form.isDerived === true
    this.bundle = form.scope === 'session' ? form.bundle : undefined
    this.#form = form
  }

  isKey(key: string): boolean {
    return key.startsWith(this.prefix) && (this.#form.isKey?.(key) ?? true)
  }

  /** @throws EngineError `DATA_LOSS` for text that is no record of this kind. */
  parse(json: string, key?: string): R {
    let value: unknown = json
    try {
      if (this.#form.isPlain !== true) value = JSON.parse(json)
    } catch (error) {
      throw this.#damaged(`it is not JSON: ${messageOf(error)}`, key)
    }
    const { checks, revive } = this.#form
    if (typeof checks === 'function') {
      if (!checks(value)) throw this.#damaged('its structure is invalid', key)
    } else {
      if (!isObject(value)) throw this.#damaged('it is not an object', key)
      const field = wrongField(value, checks)
      if (field !== undefined) throw this.#damaged(`the field ${field} is missing or invalid`, key)
    }
    return revive === undefined ? (value as R) : revive(value as R)
  }

  /** Reports the references of a record. */
  references(record: R, key: string, to: RecordReferences): void {
    this.#form.references?.(record, key, to)
  }

  /**
   * Parses a record, and reports its references.
   *
   * @throws {EngineError} DATA_LOSS when the text is no record of this kind
   */
  readReferences(json: string, key: string, to: RecordReferences): void {
    this.references(this.parse(json, key), key, to)
  }

  get hasReferences(): boolean {
    return this.#form.references !== undefined
  }

  #damaged(why: string, key: string | undefined): EngineError {
    const which = key === undefined ? '' : ` ${shown(key)}`
    const sessionId = this.scope === 'session' ? key?.slice(1, 1 + idLength) : undefined
    return new EngineError('DATA_LOSS', `the stored ${this.name} record${which} is damaged: ${why}`, {
      ...(sessionId !== undefined && { sessionId }),
      ...(key !== undefined && { key }),
    })
  }
}
