/** The parts of the HTTP interface that the page reads; docs/http.md describes all of it. */

export interface Session {
  readonly id: string
  readonly status: string
  readonly tags: Readonly<Record<string, string>>
  readonly metadata: Readonly<Record<string, unknown>>
  readonly parent?: { readonly sessionId: string; readonly eventId: string }
  readonly createdAt: string
  readonly lastActivityAt: string
}

export interface SessionEvent {
  readonly eventId: string
  readonly timestamp: string
  readonly eventType: string
  readonly principal?: string
  readonly details: Readonly<Record<string, unknown>>
}

/** At most one of the fields is set; without any, it is the newest state. */
export interface StateName {
  readonly checkpointId?: string
  readonly eventId?: string
  readonly base?: boolean
}

export type NodeKind = 'file' | 'directory' | 'symlink'

export interface DirectoryEntry {
  readonly name: string
  readonly kind: NodeKind
}

export interface Stat {
  readonly kind: NodeKind
  readonly sizeBytes: string
  readonly mode: number
  readonly mtimeMs: number
}

export interface Change {
  readonly path: string
  readonly change: 'added' | 'removed' | 'modified'
  readonly kind: NodeKind
}

export interface Hunk {
  readonly oldStart: number
  readonly oldLines: number
  readonly newStart: number
  readonly newLines: number
  readonly lines: readonly string[]
}

export interface ChangedFile {
  readonly path: string
  readonly oldPath?: string
  readonly change: 'added' | 'removed' | 'modified' | 'renamed'
  readonly kind: 'file' | 'symlink'
  readonly oldMode?: number
  readonly mode?: number
  readonly isBinary: boolean
  readonly isTruncated: boolean
  readonly additions: number
  readonly deletions: number
  readonly hunks?: readonly Hunk[]
}

/** What the page may do, from `inspector.json`. */
export interface PageInfo {
  readonly version: string
  readonly write: boolean
  /** Whether it may check the store. */
  readonly check: boolean
  readonly target: 'engine' | 'server'
}
