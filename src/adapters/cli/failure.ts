import { inCommands } from './commands-in-messages.js'
import { unchanged, type InFlags } from './flags.js'
import { asJson, printableName, printableText } from './printable.js'

/** What the command ends with. */
export const ExitCode = { ok: 0, failure: 1, usage: 2 } as const

/** The command line says something that cannot be meant. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** What was asked for cannot be done: told as it is, with no reason of the engine's. */
export class Failure extends Error {
  override readonly name = 'Failure'
}

/** Whoever read the output wants no more of it. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed'
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof OutputClosed) return ExitCode.ok
  return error instanceof UsageError ? ExitCode.usage : ExitCode.failure
}

/** One line on what went wrong, without a stack. Options of the library have their names on the command line. */
export function describeFailure(error: unknown, inFlags: InFlags = unchanged): string {
  if (!(error instanceof Error)) return printableText(String(error))
  const { reason, details } = engineParts(error)
  // A failed import has the message of its cause, which says more.
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

/** The same for programs: `{"error": {reason, code, message, details}}`. */
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

/** By its form: the engine's class is not loaded for this, and a server's client may have another. */
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
