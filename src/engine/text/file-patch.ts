import { EngineError } from '../base/errors.js'
import type { ByteText } from './byte-text.js'

/** A line of a hunk. The text has its line end, except for a last line without one. */
export interface HunkLine {
  readonly kind: ' ' | '-' | '+'
  readonly text: ByteText
}

/** Changed lines with the lines around them. */
export interface Hunk {
  /** The line of a unified hunk in the old and in the new file, from 1; 0 before the first line. */
  readonly oldStart: number
  readonly newStart: number
  readonly lines: readonly HunkLine[]
}

/** A section of a V4A patch: lines that lead to the place, and the changed lines there. */
export interface V4aSection {
  readonly anchors: readonly ByteText[]
  readonly lines: readonly HunkLine[]
  /** Whether the lines are at the end of the file. */
  readonly isAtEnd: boolean
}

/** The part of a patch for one file, with paths in the session. */
export type FilePatch =
  | {
      readonly kind: 'create'
      readonly path: string
      readonly content: ByteText
      readonly mode?: number
    }
  | { readonly kind: 'delete'; readonly path: string; readonly hunks?: readonly Hunk[] }
  | {
      readonly kind: 'update'
      readonly path: string
      /** The new path of a renamed or copied file. */
      readonly newPath?: string
      readonly isCopy?: boolean
      readonly mode?: number
      readonly change:
        | { readonly format: 'unified'; readonly hunks: readonly Hunk[] }
        | { readonly format: 'v4a'; readonly sections: readonly V4aSection[] }
    }

export function invalidPatch(message: string, details: Readonly<Record<string, string>> = {}): EngineError {
  return new EngineError('INVALID_PATCH', `patch: ${message}`, { field: 'patch', ...details })
}
