import { Buffer, isUtf8 } from 'node:buffer'
import * as z from 'zod'
import { issueText } from '../../../engine/contract.js'
import { itemAt, KeyedMutex, runInSlices, type Clock, type Steps } from '../../../engine/ports.js'
import { invalidField, type HttpError } from '../http-error.js'
import { jsonLimits } from '../limits.js'
import { checkBounds } from './json-bounds.js'

/**
 * Decodes requests. A request is a JSON body in UTF-8, and `parameters` override its fields.
 *
 * Large bodies are decoded in slices, those of one tenant one after the other in order of arrival. So many large bodies
 * block the event loop no longer than one of each tenant, and a tenant does not wait for all bodies of another.
 *
 * @throws HttpError `INVALID_ARGUMENT` with the first field that has the wrong type, `TOO_LARGE`
 */
export class Decoder {
  readonly #turns = new KeyedMutex()

  decode(
    schema: z.ZodType<object>,
    body: Uint8Array,
    parameters: object,
    { tenant, clock }: Sender,
  ): object | Promise<object> {
    if (body.byteLength === 0) return decodeValue(schema, parameters)
    const json = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
    if (json.length <= jsonLimits.atOnceBytes) {
      return decodeValue(schema, Object.assign(parseBody(json), parameters))
    }
    return this.#turns.run(tenant, () => runInSlices(decodeLarge(schema, json, parameters), clock))
  }
}

/** The tenant that sent a request, and the clock of its work. */
interface Sender {
  readonly tenant: string
  readonly clock: Clock
}

function* decodeLarge(schema: z.ZodType<object>, json: Buffer, parameters: object): Steps<object> {
  // Bodies of several tenants may begin in the same turn.
  yield
  checkBody(json)
  yield
  const wire = parseObject(json)
  yield
  return (yield* decodeInSteps(schema, Object.assign(wire, parameters), [])) as object
}

/**
 * Parses the JSON object of a body.
 *
 * @throws HttpError `INVALID_ARGUMENT`, or `TOO_LARGE` for too many parts
 */
export function parseBody(json: Buffer): object {
  checkBody(json)
  return parseObject(json)
}

function checkBody(json: Buffer): void {
  if (!isUtf8(json)) throw invalidField('body', 'must be UTF-8')
  checkBounds(json)
}

function parseObject(json: Buffer): object {
  let wire: unknown
  try {
    wire = JSON.parse(json.toString())
  } catch {
    throw invalidField('body', 'must be JSON')
  }
  if (typeof wire !== 'object' || wire === null || Array.isArray(wire))
    throw invalidField('body', 'must be an object')
  return wire
}

type Path = readonly PropertyKey[]

/** A list whose elements are decoded one by one, with pauses. */
interface LongList {
  readonly path: Path
  readonly element: z.ZodType
  readonly elements: readonly unknown[]
}

function* decodeInSteps(schema: z.ZodType, wire: unknown, path: Path): Steps<unknown> {
  const lists: LongList[] = []
  const native = decodeValue(schema, withoutLongLists(schema, wire, [], lists), path)
  for (const { path: within, element, elements } of lists) {
    const list = within.reduce<unknown>((value, key) => (value as Record<PropertyKey, unknown>)[key], native)
    for (const [index, one] of elements.entries()) {
      ;(list as unknown[]).push(yield* decodeInSteps(element, one, [...path, ...within, index]))
      if ((index + 1) % jsonLimits.decodedElements === 0) yield
    }
  }
  return native
}

/**
 * Moves long lists into `lists`. Returns a copy in which these lists are empty, or the value itself if it has
 * none.
 */
function withoutLongLists(schema: z.ZodType, wire: unknown, path: Path, lists: LongList[]): unknown {
  if (schema instanceof z.ZodExactOptional || schema instanceof z.ZodPrefault)
    return withoutLongLists(schema.unwrap() as z.ZodType, wire, path, lists)
  if (schema instanceof z.ZodArray && Array.isArray(wire)) {
    const element = schema.element as z.ZodType
    if (wire.length <= jsonLimits.stepElements)
      return mapChanged(wire, (one, index) => withoutLongLists(element, one, [...path, index], lists))
    lists.push({ path, element, elements: wire })
    return []
  }
  if (!(schema instanceof z.ZodObject) || typeof wire !== 'object' || wire === null) return wire
  let copy: Record<string, unknown> | undefined
  for (const [key, field] of Object.entries<z.ZodType>(schema.shape)) {
    if (!Object.hasOwn(wire, key)) continue
    const before = (wire as Readonly<Record<string, unknown>>)[key]
    const after = withoutLongLists(field, before, [...path, key], lists)
    if (after !== before) (copy ??= { ...wire })[key] = after
  }
  return copy ?? wire
}

function mapChanged(
  list: readonly unknown[],
  map: (one: unknown, index: number) => unknown,
): readonly unknown[] {
  const mapped = list.map(map)
  return mapped.every((one, index) => one === list[index]) ? list : mapped
}

function decodeValue<T>(schema: z.ZodType<T>, wire: unknown, path: Path = []): T {
  const result = z.safeDecode<z.ZodType>(schema, wire)
  if (result.success) return result.data as T
  throw refusal(itemAt(result.error.issues, 0), path)
}

function refusal({ path, message }: z.core.$ZodIssue, within: Path): HttpError {
  return invalidField(
    fieldOf([...within, ...path]) || 'body',
    issueText(message).slice(0, jsonLimits.shownLength),
  )
}

/** Returns the name of a field in the engine's notation, such as `operations[0].write.path`. */
function fieldOf(path: Path): string {
  let field = ''
  for (const part of path)
    field += typeof part === 'number' ? `[${part}]` : `${field === '' ? '' : '.'}${String(part)}`
  return field.slice(0, jsonLimits.shownLength)
}
