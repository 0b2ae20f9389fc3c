const redacted = '[redacted]'

/**
 * A value that is never shown by accident: as text, in JSON, in a template, in the console and in a
 * structured clone it is `[redacted]` or empty. Only {@link reveal} gives it.
 */
export class Secret {
  readonly #value: string

  constructor(value: string) {
    this.#value = value
  }

  /** The value itself. */
  reveal(): string {
    return this.#value
  }

  toString(): string {
    return redacted
  }

  toJSON(): string {
    return redacted
  }

  [Symbol.toPrimitive](): string {
    return redacted
  }

  /** What `util.inspect` and the console show. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return redacted
  }
}
