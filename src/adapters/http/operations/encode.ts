import { Buffer } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import * as z from 'zod'
import { schemas, type OperationName } from '../../../engine/contract.js'
import { jsonLimits } from '../limits.js'
import type { Steps } from './steps.js'

/** Writes the responses of an operation, or the items of its stream, as JSON. */
export interface ResponseEncoder {
  /** Whether a list is so long that {@link inSteps} should write it. */
  isLong(response: object): boolean
  encode(response: object): Json
  inSteps(response: object): Steps<Json>
}

/** Text, or its bytes where {@link Apart} made them. */
export type Json = string | Uint8Array

/** Gives a native value the form that it has on the wire, for `JSON.stringify`. */
type ToWire = (value: unknown, apart: Apart) => unknown

type Shape = Readonly<Record<string, z.ZodType>>
type Fields = Readonly<Record<string, unknown>>

/** Leaves out fields that the schema does not have. It does not check values: the engine made them. */
export function responseEncoder(name: OperationName): ResponseEncoder {
  const schema: z.ZodType = schemas[name].response
  const toWire = wireOf(schema)
  const lists = schema instanceof z.ZodObject ? listsIn(schema.shape) : []
  const isLong = ({ key }: LongList, response: object): boolean =>
    ((response as Fields)[key] as readonly unknown[]).length > jsonLimits.stepElements
  return {
    isLong: (response) => lists.some((list) => isLong(list, response)),
    encode: (response) => encode(toWire, response),
    *inSteps(response) {
      const apart = new Apart()
      const wire = toWire({ ...response, ...emptied(lists) }, apart) as Record<string, unknown>
      for (const { key, element } of lists)
        wire[key] = apart.addJson(yield* encodeList(element, (response as Fields)[key] as readonly unknown[]))
      return apart.putInto(JSON.stringify(wire))
    },
  }
}

function encode(toWire: ToWire, value: unknown): Json {
  const apart = new Apart()
  return apart.putInto(JSON.stringify(toWire(value, apart)))
}

interface LongList {
  readonly key: string
  readonly element: ToWire
}

function listsIn(shape: Shape): LongList[] {
  return Object.entries(shape).flatMap(([key, schema]) =>
    schema instanceof z.ZodArray ? [{ key, element: wireOf(schema.element as z.ZodType) }] : [],
  )
}

function emptied(lists: readonly LongList[]): Fields {
  return Object.fromEntries(lists.map(({ key }) => [key, []]))
}

function* encodeList(element: ToWire, list: readonly unknown[]): Steps<string> {
  const groups: string[] = []
  const toWire = listOf(element)
  for (let at = 0; at < list.length; at += groupElements) {
    const json = encode(toWire, list.slice(at, at + groupElements))
    groups.push((typeof json === 'string' ? json : Buffer.from(json).toString()).slice(1, -1))
    yield
  }
  return `[${groups.join(',')}]`
}

/** Elements of a long list that are written at once. */
const groupElements = 50

function wireOf(schema: z.ZodType): ToWire {
  if (schema instanceof z.ZodExactOptional) return wireOf(schema.unwrap() as z.ZodType)
  if (schema instanceof z.ZodCodec) return codecOf(schema)
  if (schema instanceof z.ZodArray) return listOf(wireOf(schema.element as z.ZodType))
  if (schema instanceof z.ZodUnion)
    return choiceOf((schema.options as z.ZodObject[]).map(({ shape }) => shape))
  if (schema instanceof z.ZodObject) return objectOf(schema.shape)
  return unchanged
}

function unchanged(value: unknown): unknown {
  return value
}

/** `JSON.stringify` takes ten times as long for base64 as copying it does. */
function codecOf(schema: z.ZodCodec): ToWire {
  const toWire = schema.def.reverseTransform as (value: unknown) => string
  const isBase64 = z.globalRegistry.get(schema.def.in as z.ZodType)?.contentEncoding === 'base64'
  if (!isBase64) return toWire
  return (value, apart) => {
    const digits = toWire(value)
    return digits.length < apartLength ? digits : apart.addDigits(digits)
  }
}

const apartLength = 1024

function listOf(element: ToWire): ToWire {
  if (element === unchanged) return unchanged
  return (list, apart) => (list as unknown[]).map((one) => element(one, apart))
}

/** No schema has a field `__proto__`, which an assignment would not set. Maps keep their keys: they have no shape. */
function objectOf(shape: Shape): ToWire {
  const keys = Object.keys(shape)
  const toWires = Object.values(shape).map(wireOf)
  return (value, apart) => {
    const wire: Record<string, unknown> = {}
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index]!
      const field = (value as Fields)[key]
      if (field === undefined) continue
      const toWire = toWires[index]!
      wire[key] = toWire === unchanged ? field : toWire(field, apart)
    }
    return wire
  }
}

/** Of objects that their first key tells apart. */
function choiceOf(shapes: readonly Shape[]): ToWire {
  const choices = shapes.map((shape) => ({ key: Object.keys(shape)[0]!, toWire: objectOf(shape) }))
  return (value, apart) => choices.find(({ key }) => key in (value as object))!.toWire(value, apart)
}

/** JSON that is written apart from the rest. The rest has marks in its place, which no other string contains. */
class Apart {
  #pieces: Piece[] | undefined

  /** A mark for JSON, in the order in which the marks are written. */
  addJson(text: string): string {
    return this.#add({ text, isDigits: false })
  }

  /** A mark for base64. */
  addDigits(text: string): string {
    return this.#add({ text, isDigits: true })
  }

  #add(piece: Piece): string {
    if (this.#pieces === undefined) this.#pieces = [piece]
    else this.#pieces.push(piece)
    return mark
  }

  /** Puts the pieces in place of their marks. */
  putInto(json: string): Json {
    const apart = this.#pieces
    if (apart === undefined) return json
    const pieces: Piece[] = []
    for (const [index, text] of json.split(`"${mark}"`).entries()) {
      if (index > 0) pieces.push(apart[index - 1]!)
      pieces.push({ text, isDigits: false })
    }
    const lengths = pieces.map(({ text, isDigits }) => (isDigits ? text.length + 2 : Buffer.byteLength(text)))
    const bytes = Buffer.allocUnsafeSlow(lengths.reduce((sum, length) => sum + length, 0))
    let filled = 0
    for (const { text, isDigits } of pieces) {
      if (!isDigits) filled += bytes.write(text, filled)
      else {
        bytes[filled++] = quote
        filled += bytes.write(text, filled, 'latin1')
        bytes[filled++] = quote
      }
    }
    return bytes
  }
}

interface Piece {
  readonly text: string
  /** Base64 without its quotes: each character is one byte. */
  readonly isDigits: boolean
}

const quote = 0x22

/** Random, and in no response: nothing that a client stores can contain it. */
const mark = randomBytes(24).toString('base64')
