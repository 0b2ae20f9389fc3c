/** What an operation was asked, and what it answered. */
export interface OperationExample {
  readonly operation: string
  /** A few words. */
  readonly name: string
  /** Of path and query. */
  readonly parameters: Readonly<Record<string, unknown>>
  readonly body?: object
  readonly status: number
  /** Of a stream, its first item. */
  readonly response: object
}
