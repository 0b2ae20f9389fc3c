import { formatNumberedLines, type SessionApi } from '../../engine/index.js'
import { limits } from './limits.js'

/** Changed lines of the new content of a file, with lines around them. */
export interface ShownHunk {
  /** The number of the first of `lines`, from 1. */
  readonly startLine: number
  /** Lines of the new content without line ends. */
  readonly lines: readonly string[]
}

/** The changed lines of a file as it is now, with a few lines around them. */
export async function shownHunks(
  session: SessionApi,
  path: string,
  ranges: readonly { readonly startLine: number; readonly endLine: number }[],
): Promise<ShownHunk[]> {
  return Promise.all(
    ranges.slice(0, limits.shownHunks).map(async (range) => {
      const startLine = Math.max(range.startLine - limits.contextLines, 1)
      const endLine = Math.max(range.endLine + limits.contextLines, startLine)
      const part = { path, startLine, endLine, limit: limits.shownHunkLines }
      const { lines } = await session.text.readLines(part)
      return { startLine, lines: lines.map(({ text }) => text) }
    }),
  )
}

/** Hunks as text, with numbers of lines. */
export function numberHunks(hunks: readonly ShownHunk[]): string {
  return hunks
    .map(({ startLine, lines }) =>
      formatNumberedLines(lines.map((text, index) => ({ lineNumber: startLine + index, text }))),
    )
    .join('\n...\n')
}
