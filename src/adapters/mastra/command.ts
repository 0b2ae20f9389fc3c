import { Buffer } from 'node:buffer'
import { SandboxTimeoutError, type CommandResult, type ExecuteCommandOptions } from '@mastra/core/workspace'
import { checkSignal, given, invalid, untilAborted } from '../../engine/ports.js'
import type { WorkspaceExec } from '../tools/parts.js'
import { limits } from './limits.js'
import { pathOf } from './path.js'

/** What the commands of a sandbox run with. */
export interface CommandSettings {
  readonly exec: WorkspaceExec
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** The call and the turn, for the events of the command. */
  readonly marks: { readonly callId?: string; readonly turn?: string }
}

/** Runs a command, for at most its time. The output comes when it ends. */
export async function executeCommand(
  settings: CommandSettings,
  command: string,
  args: readonly string[],
  options: ExecuteCommandOptions,
): Promise<CommandResult> {
  const line = lineOf(command, args)
  const { timeout, cwd, abortSignal, onStdout, onStderr, maxRetainedBytes } = options
  const timeoutMs = numberOf('timeout', timeout, 1)
  const retained = numberOf('maxRetainedBytes', maxRetainedBytes, 0)
  const context = {
    cwd: cwd === undefined ? settings.cwd : resolve(settings.cwd, cwd),
    env: { ...settings.env, ...variablesOf(options.env) },
    ...settings.marks,
  }
  checkSignal(abortSignal, 'abortSignal')
  const startedAt = performance.now()
  const { stdout, stderr, exitCode } = await limited(
    (signal) => settings.exec(line, { ...context, signal }),
    timeoutMs,
    abortSignal,
  )
  if (stdout !== '') onStdout?.(stdout)
  if (stderr !== '') onStderr?.(stderr)
  const out = newest(stdout, retained)
  const err = newest(stderr, retained)
  return {
    success: exitCode === 0,
    exitCode,
    stdout: out.text,
    stderr: err.text,
    executionTimeMs: Math.round(performance.now() - startedAt),
    ...(out.droppedBytes > 0 && { stdoutTruncated: true, stdoutDroppedBytes: out.droppedBytes }),
    ...(err.droppedBytes > 0 && { stderrTruncated: true, stderrDroppedBytes: err.droppedBytes }),
    command,
    args: [...args],
  }
}

async function limited<T>(
  work: (signal: AbortSignal) => Promise<T>,
  timeoutMs: number | undefined,
  abortSignal: AbortSignal | undefined,
): Promise<T> {
  abortSignal?.throwIfAborted()
  const stop = new AbortController()
  const abort = (): void => stop.abort(abortSignal?.reason)
  abortSignal?.addEventListener('abort', abort, { once: true })
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => stop.abort(new SandboxTimeoutError(timeoutMs, 'command')), timeoutMs)
  try {
    return await untilAborted(work(stop.signal), stop.signal)
  } finally {
    clearTimeout(timer)
    abortSignal?.removeEventListener('abort', abort)
  }
}

/** A command with its arguments, each quoted for a shell. */
function lineOf(command: unknown, args: unknown): string {
  if (typeof command !== 'string' || command.trim() === '')
    throw invalid('command', `must be a text that is not empty; it is ${given(command)}`)
  if (!Array.isArray(args)) throw invalid('args', `must be an array of texts; it is ${given(args)}`)
  return [
    command,
    ...args.map((one: unknown) => {
      if (typeof one !== 'string') throw invalid('args', `must have only texts; one is ${given(one)}`)
      return /^[\w@%+=:,./-]+$/.test(one) ? one : `'${one.replaceAll("'", String.raw`'\''`)}'`
    }),
  ].join(' ')
}

/** A directory relative to that of the sandbox. */
export function resolve(base: string, directory: unknown): string {
  const isRelative = typeof directory === 'string' && !directory.startsWith('/')
  return pathOf(isRelative ? `${base}/${directory}` : directory, 'cwd')
}

/** Variables that are set. Mastra passes those that are to be unset as undefined. */
export function variablesOf(env: unknown): Record<string, string> {
  if (env === undefined) return {}
  if (typeof env !== 'object' || env === null || Array.isArray(env))
    throw invalid('env', `must be an object of texts; it is ${given(env)}`)
  const variables: [string, string][] = []
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) continue
    if (typeof value !== 'string') throw invalid(`env.${name}`, `must be a text; it is ${given(value)}`)
    variables.push([name, value])
  }
  return Object.fromEntries(variables)
}

function numberOf(field: string, value: unknown, least: number): number | undefined {
  if (value === undefined || value === Number.POSITIVE_INFINITY) return undefined
  if (typeof value === 'number' && value >= least) return Math.min(value, limits.longestCommandMs)
  throw invalid(field, `must be a number from ${least}; it is ${given(value)}`)
}

/** The newest bytes of an output. */
function newest(
  text: string,
  most: number | undefined,
): { readonly text: string; readonly droppedBytes: number } {
  const bytes = Buffer.byteLength(text)
  if (most === undefined || bytes <= most) return { text, droppedBytes: 0 }
  let kept = Buffer.from(text).subarray(bytes - most)
  // A character that was cut through is dropped.
  while (kept.length > 0 && ((kept[0] ?? 0) & 0xc0) === 0x80) kept = kept.subarray(1)
  return { text: kept.toString(), droppedBytes: bytes - kept.length }
}
