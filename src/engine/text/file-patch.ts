import type { BinaryChange } from './binary-change.js'
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

/** The change of lines in a unified patch. */
export interface UnifiedChange {
  readonly format: 'unified'
  readonly hunks: readonly Hunk[]
}

/** A file, or a symlink, whose content is its target. */
export type LeafKind = 'file' | 'symlink'

/** The part of a patch for one file or symlink, with paths in the session. Absent `leaf`: the patch does not say. */
export type FilePatch =
  | {
      readonly kind: 'create'
      readonly path: string
      readonly content: ByteText | BinaryChange
      /** Whether the content comes from a binary change, and has no lines. */
      readonly isBinary?: boolean
      readonly mode?: number
      readonly leaf?: LeafKind
    }
  | {
      readonly kind: 'delete'
      readonly path: string
      readonly leaf?: LeafKind
      /** Absent: the file may have any content. */
      readonly change?: UnifiedChange | BinaryChange
    }
  | {
      readonly kind: 'update'
      readonly path: string
      /** The new path of a renamed or copied file. */
      readonly newPath?: string
      readonly isCopy?: boolean
      readonly mode?: number
      readonly leaf?: LeafKind
      readonly change:
        | UnifiedChange
        | BinaryChange
        | { readonly format: 'v4a'; readonly sections: readonly V4aSection[] }
    }
