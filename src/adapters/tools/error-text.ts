import type { ErrorReason } from '../../engine/index.js'
import { EngineError } from '../../engine/ports.js'
import type { ToolResult } from './tool-types.js'

/** Advice on the next step for each error reason. Reasons whose message already gives the advice are not listed. */
const advice: Partial<Record<ErrorReason, string>> = {
  HASH_MISMATCH: 'It changed after you last read it. Make the change anew for its present content.',
  PATH_NOT_FOUND: 'Check the path: list its directory, or search with a glob such as **/name.',
  IS_A_DIRECTORY: 'List the directory, and name a file in it.',
  NOT_A_DIRECTORY: 'A part of the path is a file. Check the path.',
  ALREADY_EXISTS: 'Choose another path, or edit the existing file.',
  UNRESOLVED_CONFLICTS: 'Resolve the conflicts first.',
  MERGE_TARGET_MOVED: 'Something else changed the workspace meanwhile. Try again.',
}

/** The result of a failed call: the error with its reason and what to do, so that a model can correct itself. */
export function errorResult(error: unknown): ToolResult {
  if (!(error instanceof EngineError)) throw error
  const { reason, message, details } = error
  const next = advice[reason] === undefined ? '' : ` ${advice[reason]}`
  const nearest = details['nearestLines']
  const text = `${reason}: ${message}.${next}${nearest === undefined ? '' : `\nNearest lines:\n${nearest}`}`
  return { text, isError: true, data: { reason, details: { ...details } } }
}
