import { Buffer } from 'node:buffer'
import * as z from 'zod'
import { itemAt, present, runAtOnce, type Steps } from '../../../engine/ports.js'
import { schemas, type OperationName } from '../../../engine/contract.js'
import { jsonLimits } from '../limits.js'

/** Encodes the responses of an operation, or the items of its stream, as JSON. */
export interface ResponseEncoder {
  /** Whether a list of the response is so long that {@link inSteps} should encode it. */
  isLong(response: object): boolean
  encode(response: object): Json
  inSteps(response: object): Steps<Json, undefined>
}

/** JSON as a string, or as bytes in UTF-8. */
export type Json = string | Uint8Array

/** Converts a native value to its wire form, for `JSON.stringify`. */
type ToWire = (value: unknown) => unknown

type Shape = Readonly<Record<string, z.ZodType>>
type Fields = Readonly<Record<string, unknown>>

/** A field of a response. */
interface Field {
  readonly key: string
  readonly toJson: (value: unknown) => string
  /**
   * Base64 needs no escaping. `JSON.stringify` would check every character, which takes ten times as long as
   * copying.
   */
  readonly isBase64: boolean
  /** Converts one element, if the field is a list. */
  readonly element?: ToWire
}

/** Encodes only the fields of the schema. It does not check the values, because they come from the engine. */
export function responseEncoder(name: OperationName): ResponseEncoder {
  const schema: z.ZodType = schemas[name].response
  const toWire = wireOf(schema)
  const shape: Shape = schema instanceof z.ZodObject ? schema.shape : {}
  const fields = Object.entries(shape).map(([key, field]) => fieldOf(key, field))
  const lists = fields.filter(({ element }) => element !== undefined)
  const inSteps = (response: object): Steps<Json, undefined> => encodeFields(fields, response as Fields)
  return {
    isLong: (response) =>
      lists.some(({ key }) => ((response as Fields)[key] as unknown[]).length > jsonLimits.stepElements),
    encode: fields.some((field) => field.isBase64)
      ? (response) => runAtOnce(inSteps(response))
      : (response) => JSON.stringify(toWire(response)),
    inSteps,
  }
}

function fieldOf(key: string, schema: z.ZodType): Field {
  const toWire = wireOf(schema)
  if (isBase64(schema)) return { key, toJson: (value) => `"${toWire(value) as string}"`, isBase64: true }
  const toJson = (value: unknown): string => JSON.stringify(toWire(value))
  return schema instanceof z.ZodArray
    ? { key, toJson, isBase64: false, element: wireOf(schema.element as z.ZodType) }
    : { key, toJson, isBase64: false }
}

function isBase64(schema: z.ZodType): boolean {
  return (
    schema instanceof z.ZodCodec &&
    z.globalRegistry.get(schema.def.in as z.ZodType)?.contentEncoding === 'base64'
  )
}

function* encodeFields(fields: readonly Field[], response: Fields): Steps<Json, undefined> {
  const pieces: Piece[] = []
  for (const { key, toJson, isBase64, element } of fields) {
    const value = response[key]
    if (value === undefined) continue
    const json = element === undefined ? toJson(value) : yield* encodeList(element, value as unknown[])
    pieces.push({ json: `${pieces.length === 0 ? '{' : ','}${JSON.stringify(key)}:`, isBase64: false })
    pieces.push({ json, isBase64 })
  }
  pieces.push({ json: pieces.length === 0 ? '{}' : '}', isBase64: false })
  return join(pieces)
}

interface Piece {
  readonly json: string
  readonly isBase64: boolean
}

/**
 * Joins pieces that contain long base64 as bytes. A string would be copied once more before it reaches the
 * socket.
 */
function join(pieces: readonly Piece[]): Json {
  if (!pieces.some(({ json, isBase64 }) => isBase64 && json.length >= jsonLimits.joinedAsBytes))
    return pieces.map(({ json }) => json).join('')
  const lengths = pieces.map(({ json, isBase64 }) => (isBase64 ? json.length : Buffer.byteLength(json)))
  const bytes = Buffer.allocUnsafeSlow(lengths.reduce((sum, length) => sum + length, 0))
  let end = 0
  for (const { json, isBase64 } of pieces) end += bytes.write(json, end, isBase64 ? 'latin1' : 'utf8')
  return bytes
}

function* encodeList(element: ToWire, list: readonly unknown[]): Steps<string, undefined> {
  const groups: string[] = []
  for (let at = 0; at < list.length; at += jsonLimits.groupElements) {
    const group = list.slice(at, at + jsonLimits.groupElements).map((one) => element(one))
    groups.push(JSON.stringify(group).slice(1, -1))
    yield
  }
  return `[${groups.join(',')}]`
}

function wireOf(schema: z.ZodType): ToWire {
  if (schema instanceof z.ZodExactOptional) return wireOf(schema.unwrap() as z.ZodType)
  if (schema instanceof z.ZodCodec) return schema.def.reverseTransform as ToWire
  if (schema instanceof z.ZodArray) return listOf(wireOf(schema.element as z.ZodType))
  if (schema instanceof z.ZodUnion)
    return choiceOf((schema.options as z.ZodObject[]).map(({ shape }) => shape))
  if (schema instanceof z.ZodObject) return objectOf(schema.shape)
  return unchanged
}

function unchanged(value: unknown): unknown {
  return value
}

function listOf(element: ToWire): ToWire {
  if (element === unchanged) return unchanged
  return (list) => (list as unknown[]).map((one) => element(one))
}

/**
 * Assignment is safe, because no schema has a field `__proto__`. Maps have no shape, so they keep all keys.
 */
function objectOf(shape: Shape): ToWire {
  const fields = Object.entries(shape).map(([key, schema]) => ({ key, toWire: wireOf(schema) }))
  return (value) => {
    const wire: Record<string, unknown> = {}
    for (const { key, toWire } of fields) {
      const field = (value as Fields)[key]
      if (field === undefined) continue
      wire[key] = toWire === unchanged ? field : toWire(field)
    }
    return wire
  }
}

/** Encodes a union whose options differ in their first key. */
function choiceOf(shapes: readonly Shape[]): ToWire {
  const choices = shapes.map((shape) => ({ key: itemAt(Object.keys(shape), 0), toWire: objectOf(shape) }))
  return (value) =>
    present(
      choices.find(({ key }) => key in (value as object)),
      'the option of a union',
    ).toWire(value)
}
