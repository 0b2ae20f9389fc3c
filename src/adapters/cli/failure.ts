import { inCommands } from './commands-in-messages.js'
import { unchanged, type InFlags } from './flags.js'
import { asJson, printableName, printableText } from './printable.js'

/** The exit codes of the command. */
export const ExitCode = { ok: 0, failure: 1, usage: 2 } as const

/** Thrown if the command line is invalid. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Thrown if the command failed for a reason outside the engine. The message is shown unchanged. */
export class Failure extends Error {
  override readonly name = 'Failure'
}

/** Thrown if the reader of the output closed it. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed'
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof OutputClosed) return ExitCode.ok
  return error instanceof UsageError ? ExitCode.usage : ExitCode.failure
}

/**
 * Describes an error in one line, without a stack. Library options are shown as options of the command line.
 */
export function describeFailure(error: unknown, inFlags: InFlags = unchanged): string {
  if (!(error instanceof Error)) return printableText(String(error))
  const { reason, details } = engineParts(error)
  // The message of a failed import repeats the message of its cause, and the cause has more details.
  const cause = reason === 'IMPORT_FAILED' && error.cause instanceof Error ? error.cause : undefined
  const isCausePart = cause !== undefined && cause.message.includes(error.message)
  const parts = isCausePart ? [] : [reason === undefined ? error.message : inFlags(inCommands(error.message))]
  if (cause !== undefined) parts.push(describeFailure(cause, inFlags))
  for (const [name, value] of Object.entries(details)) {
    if (!error.message.includes(value)) parts.push(`${name} ${printableName(value)}`)
  }
  const text = parts.join('; ')
  return printableText(reason === undefined || reason === 'IMPORT_FAILED' ? text : `${text} (${reason})`)
}

/** Formats the error as JSON: `{"error": {reason, code, message, details}}`. */
export function failureAsJson(error: unknown, inFlags: InFlags = unchanged): string {
  const { reason, code, details } = engineParts(error)
  const text = error instanceof Error ? error.message : String(error)
  const message = reason === undefined ? text : inFlags(inCommands(text))
  const usage = error instanceof UsageError
  return asJson({
    error: {
      reason: reason ?? (usage ? 'USAGE' : 'FAILED'),
      code: code ?? (usage ? 'INVALID_ARGUMENT' : 'FAILED_PRECONDITION'),
      message,
      details,
    },
  })
}

export function reasonOf(error: unknown): string | undefined {
  return engineParts(error).reason
}

/**
 * Recognizes errors of the engine by their fields, without loading the engine. The client has its own error
 * class.
 */
function engineParts(error: unknown): {
  reason: string | undefined
  code: string | undefined
  details: Readonly<Record<string, string>>
} {
  const { reason, code, details } = (error ?? {}) as { reason?: unknown; code?: unknown; details?: unknown }
  if (typeof reason !== 'string') return { reason: undefined, code: undefined, details: {} }
  return {
    reason,
    code: typeof code === 'string' ? code : undefined,
    details: (details ?? {}) as Readonly<Record<string, string>>,
  }
}
