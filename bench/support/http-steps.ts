/** What the HTTP benchmark asks of a server in a process of its own. */

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
      /** By method and path: what a server that is not ours answers. */
      readonly answers: Readonly<Record<string, RecordedAnswer>>
      /** The line that such a server writes to subscribers for each message. */
      readonly line: string
    }
  | { readonly step: 'cpu' }

export interface Started {
  readonly url: string
  /** Of a session with the files of the benchmark; '' where there is none. */
  readonly sessionId: string
}

export const token = 'benchmark'
export const filesPerSession = 1000
/** Of a file that is read, in bytes, by its path. */
export const readSizes = { '/small': 1024, '/large': 64 * 1024 } as const
