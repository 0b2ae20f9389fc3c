const redacted = '[redacted]'

/**
 * The value of a secret. It cannot be shown by accident: as text, in JSON, in a template and in the console
 * it is `[redacted]`, and a structured clone is empty. Only {@link reveal} returns the value.
 */
export class Secret {
  readonly #value: string

  /** @internal */
  constructor(value: string) {
    this.#value = value
  }

  /**
   * The value.
   *
   * @example
   * const { secretValue } = await session.secrets.get({ secretName: 'API_TOKEN' })
   * const headers = { authorization: `Bearer ${secretValue.reveal()}` }
   */
  reveal(): string {
    return this.#value
  }

  /** Always `[redacted]`. */
  toString(): string {
    return redacted
  }

  /** Always `[redacted]`. */
  toJSON(): string {
    return redacted
  }

  /** Always `[redacted]`. */
  [Symbol.toPrimitive](): string {
    return redacted
  }

  /** The text that `util.inspect` and the console show. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return redacted
  }
}
