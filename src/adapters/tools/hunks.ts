import { formatNumberedLines, type EditHunk, type JsonObject } from '../../engine/index.js'
import { limits } from './limits.js'

/** A hunk as plain JSON. */
export interface ShownHunk extends JsonObject {
  /** The number of the first of `lines`, from 1. */
  readonly startLine: number
  readonly lines: string[]
}

/** The part of an edit's hunks that a model is shown. */
export function shownHunks(hunks: readonly EditHunk[] = []): ShownHunk[] {
  return hunks
    .slice(0, limits.shownHunks)
    .map(({ startLine, lines }) => ({ startLine, lines: lines.slice(0, limits.shownHunkLines) }))
}

/** Hunks as text, with numbers of lines. */
export function numberHunks(hunks: readonly EditHunk[]): string {
  return hunks
    .map(({ startLine, lines }) =>
      formatNumberedLines(lines.map((text, index) => ({ lineNumber: startLine + index, text }))),
    )
    .join('\n...\n')
}
