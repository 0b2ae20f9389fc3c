import * as z from 'zod'
import { invalidField } from '../http-error.js'
import { parseQuery } from '../server/target.js'

type Read = (text: string) => unknown

/** What stands for not giving the parameter at all. */
const absent: Readonly<Record<string, string>> = { scope: '', replayAfterMessageId: '', replayLimit: '0' }

/**
 * Reads the query parameters of an operation into the form of its request on the wire; others are passed over.
 * What is no number or boolean stays a string, for the schema to refuse. INVALID_ARGUMENT for one that stands
 * there twice and is no list.
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
