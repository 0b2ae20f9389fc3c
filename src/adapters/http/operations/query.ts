import * as z from 'zod'
import { invalidField } from '../http-error.js'
import { parseQuery } from '../server/target.js'

type Read = (text: string) => unknown

/** Values that mean the same as a missing parameter. */
const absent: Readonly<Record<string, string>> = { scope: '', replayAfterMessageId: '', replayLimit: '0' }

/**
 * Reads the query parameters of an operation into the wire form of its request, and ignores other parameters.
 * If a value should be a number or boolean but is not, it stays a string, which the schema refuses.
 *
 * @throws HttpError `INVALID_ARGUMENT` for a repeated parameter that is not a list.
 */
export function queryReader(
  schema: z.ZodType<object>,
  parameters: readonly string[] = [],
): (query: string) => Record<string, unknown> {
  const { shape } = schema as unknown as z.ZodObject
  const reads = new Map(parameters.map((parameter) => [parameter, readerOf(shape[parameter] as z.ZodType)]))
  return (query) => {
    const request: Record<string, unknown> = {}
    if (reads.size === 0) return request
    for (const [parameter, text] of parseQuery(query)) {
      const read = reads.get(parameter)
      if (read === undefined || (absent[parameter] === text && Object.hasOwn(absent, parameter))) continue
      if (read === 'list') ((request[parameter] ??= []) as string[]).push(text)
      else if (Object.hasOwn(request, parameter)) throw invalidField(parameter, 'must not be repeated')
      else request[parameter] = read(text)
    }
    return request
  }
}

function readerOf(schema: z.ZodType): Read | 'list' {
  const inner = schema instanceof z.ZodExactOptional ? (schema.unwrap() as z.ZodType) : schema
  if (inner instanceof z.ZodArray) return 'list'
  if (inner instanceof z.ZodNumber) return (text) => (/^-?\d{1,15}$/.test(text) ? Number(text) : text)
  if (inner instanceof z.ZodBoolean)
    return (text) => (text === 'true' ? true : text === 'false' ? false : text)
  return (text) => text
}
