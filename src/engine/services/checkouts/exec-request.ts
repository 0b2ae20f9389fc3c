import { Buffer } from 'node:buffer'
import { checkSignal } from '../../base/abort.js'
import { invalid } from '../../base/errors.js'
import { copyBytes, given, parseText, readEntries, readList, tooLarge } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { parsePath } from '../../base/path.js'
import { Shape } from '../../base/shape.js'
import type { ProcessRequest } from './process-ports.js'

/** The request of `session.exec`. */
export interface ExecRequest {
  /**
   * The program: a name in the option `exec.path`, or an absolute path on the host. No shell reads it: `ls -la` is the
   * command `ls` with the argument `-la`.
   */
  readonly command: string
  /** The arguments, each as it is. None by default. */
  readonly args?: readonly string[]
  /** The directory of the session in which the command starts; `/` by default. */
  readonly cwd?: string
  /** Variables in addition to those of the option `exec.env`, which they override. None by default. */
  readonly env?: Readonly<Record<string, string>>
  /** The standard input, as bytes or text; empty by default. */
  readonly stdin?: Uint8Array | string
  /** After this time, the command and its children are killed. 10 minutes by default. */
  readonly timeoutMs?: number
  /** Bytes that are kept of each output; 1 MiB by default. Further output is lost. */
  readonly maxOutputBytes?: number
  /** Kills the command and its children, and ends the call with the signal's reason. The session does not change. */
  readonly signal?: AbortSignal
}

const requestShape = new Shape<ExecRequest>({
  command: true,
  args: true,
  cwd: true,
  env: true,
  stdin: true,
  timeoutMs: true,
  maxOutputBytes: true,
  signal: true,
})

export interface ParsedExec extends Omit<ProcessRequest, 'directory' | 'signal'> {
  /** Absolute path in the session. */
  readonly cwd: string
  readonly signal: AbortSignal | undefined
}

export function parseExec(request: ExecRequest): ParsedExec {
  const { command, args = [], cwd = '/', env, stdin = '', ...rest } = requestShape.read(request)
  const { timeoutMs = limits.execMs, maxOutputBytes = limits.execOutputBytes, signal } = rest
  checkSignal(signal)
  if (parseArgument('command', command) === '') throw invalid('command', 'must not be empty')
  const list = readList('args', args, limits.execArguments, 'arguments')
  parsePath(cwd, 'cwd')
  const input =
    typeof stdin === 'string'
      ? Buffer.from(parseText('stdin', stdin, limits.execInputBytes))
      : copyBytes('stdin', stdin, 'must be bytes or a string')
  if (input.byteLength > limits.execInputBytes) throw tooLarge('stdin', 'bytes', limits.execInputBytes)
  return {
    command,
    args: list.map((argument, index) => parseArgument(`args[${index}]`, argument)),
    cwd,
    env: parseVariables('env', env),
    stdin: input,
    timeoutMs: parseWhole('timeoutMs', timeoutMs, 1, limits.execMostMs),
    maxOutputBytes: parseWhole('maxOutputBytes', maxOutputBytes, 0, limits.execMostOutputBytes),
    signal,
  }
}

/** The variables of an environment, without a prototype. */
export function parseVariables(field: string, env: unknown): Readonly<Record<string, string>> {
  const copy = Object.create(null) as Record<string, string>
  if (env === undefined) return copy
  const entries = readEntries(field, env, 'must be an object of strings')
  if (entries.length > limits.execVariables) throw tooLarge(field, 'variables', limits.execVariables)
  for (const [name, value] of entries) {
    if (name === '' || /[=\0]/.test(name))
      throw invalid(field, `has a name that is empty, or contains "=" or NUL: ${given(name)}`)
    copy[name] = parseArgument(`${field}.${name}`, value)
  }
  return copy
}

function parseArgument(field: string, value: unknown): string {
  const text = parseText(field, value, limits.execArgumentBytes)
  if (text.includes('\0')) throw invalid(field, 'contains a NUL character')
  return text
}

function parseWhole(field: string, value: unknown, least: number, most: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most)
    return value
  throw invalid(field, `must be a whole number from ${least} to ${most}; it is ${given(value)}`)
}
