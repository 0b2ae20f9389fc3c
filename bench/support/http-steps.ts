/** The steps that the HTTP benchmark sends to a server process. */

export type ServerKind = 'forkspace' | 'node:http' | 'Hono'

export interface RecordedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export type ServerStep =
  | {
      readonly step: 'start'
      readonly kind: ServerKind
      /** The responses of a peer's server, by method and path. */
      readonly answers: Readonly<Record<string, RecordedAnswer>>
      /** The line that a peer's server writes to subscribers for each message. */
      readonly line: string
    }
  | { readonly step: 'cpu' }

export interface Started {
  readonly url: string
  /** The session with the files of the benchmark, or '' for a peer's server. */
  readonly sessionId: string
}

export const token = 'benchmark'
export const filesPerSession = 1000
/** The sizes in bytes of the files to read, by path. */
export const readSizes = { '/small': 1024, '/large': 64 * 1024 } as const
