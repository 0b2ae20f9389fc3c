/** The request of an operation and its response. */
export interface OperationExample {
  readonly operation: string
  /** A short name. */
  readonly name: string
  /** Path and query parameters. */
  readonly parameters: Readonly<Record<string, unknown>>
  readonly body?: object
  readonly status: number
  /** The first item for a stream. */
  readonly response: object
}
