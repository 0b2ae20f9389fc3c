import type { parsePatch, StructuredPatch, StructuredPatchHunk } from 'diff'

export type { StructuredPatch, StructuredPatchHunk }

let loading: Promise<typeof parsePatch> | undefined

/** The parser of unified patches. It is loaded on first use. */
export function loadPatchParser(): Promise<typeof parsePatch> {
  return (loading ??= import('diff').then((module) => module.parsePatch))
}
