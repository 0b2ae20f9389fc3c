import type { LogEntry } from '../../engine/index.js'
import { asJson, printableText } from './printable.js'

export type LogFormat = 'json' | 'pretty'

export type Log = (
  level: LogEntry['level'],
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void

/**
 * Creates a log that writes to a stream: lines of text, or JSON objects with `time`, `level`, `message` and
 * `fields`.
 */
export function createLog(stream: NodeJS.WritableStream, format: LogFormat): Log {
  // A closed log stream cannot be reported anywhere else.
  stream.on('error', () => undefined)
  return (level, message, fields = {}) => {
    const time = new Date().toISOString()
    if (format === 'json') {
      stream.write(`${asJson({ time, level, message, fields })}\n`)
      return
    }
    const shown = Object.entries(fields)
      .map(([name, value]) => ` ${name}=${typeof value === 'string' ? printableText(value) : asJson(value)}`)
      .join('')
    stream.write(`${time} ${level.padEnd(5)} ${printableText(message)}${shown}\n`)
  }
}
