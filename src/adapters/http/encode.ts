import * as z from 'zod'
import { schemas, type OperationName } from '../../engine/contract.js'
import type { JsonText } from './json-text.js'
import { jsonLimits } from './limits.js'
import type { Steps } from './steps.js'

/** Writes a native value in the form that it has on the wire. */
type Write = (value: unknown, text: JsonText) => void

type Encode = (value: unknown) => unknown

type Shape = Readonly<Record<string, z.ZodType>>
type Fields = Readonly<Record<string, unknown>>

/** Writes the responses of an operation, or the items of its stream. */
export interface ResponseWriter {
  /** Has a list long enough that it is better written in steps. */
  isLong(response: object): boolean
  write(response: object, text: JsonText): void
  inSteps(response: object, text: JsonText): Steps<void>
}

/**
 * Fields that the schema does not have are left out. That a value is of its kind is not looked at: the engine made
 * it.
 */
export function responseWriter(name: OperationName): ResponseWriter {
  const schema: z.ZodType = schemas[name].response
  const write = writerOf(schema)
  const lists = schema instanceof z.ZodObject ? listsOf(schema.shape) : []
  const isLong = (response: object): boolean =>
    lists.some(([key]) => listIn(response, key).length > jsonLimits.stepElements)
  return { isLong, write, inSteps: (response, text) => writeInSteps(schema as z.ZodObject, response, text) }
}

function listsOf(shape: Shape): [string, z.ZodType][] {
  return Object.entries(shape).filter(([, schema]) => schema instanceof z.ZodArray)
}

function listIn(response: object, key: string): readonly unknown[] {
  return (response as Readonly<Record<string, readonly unknown[]>>)[key]!
}

function* writeInSteps(schema: z.ZodObject, response: object, text: JsonText): Steps<void> {
  let separator = '{'
  for (const [key, field] of Object.entries<z.ZodType>(schema.shape)) {
    const value = (response as Fields)[key]
    if (value === undefined) continue
    text.add(`${separator}${JSON.stringify(key)}:`)
    separator = ','
    if (field instanceof z.ZodArray)
      yield* writeList(writerOf(field.element as z.ZodType), value as unknown[], text)
    else writerOf(field)(value, text)
  }
  text.add(separator === '{' ? '{}' : '}')
}

function* writeList(write: Write, list: readonly unknown[], text: JsonText): Steps<void> {
  text.add('[')
  for (let index = 0; index < list.length; index++) {
    if (index > 0) text.add(',')
    write(list[index], text)
    if (index % 50 === 49) yield
  }
  text.add(']')
}

function writerOf(schema: z.ZodType): Write {
  if (!holdsBytes(schema)) {
    const encode = encoderOf(schema)
    return (value, text) => text.add(JSON.stringify(encode(value)))
  }
  if (schema instanceof z.ZodCodec) return bytesWriter(encoderOf(schema))
  if (schema instanceof z.ZodArray) return listWriter(writerOf(schema.element as z.ZodType))
  return schema instanceof z.ZodUnion ? choiceWriter(shapesOf(schema)) : objectWriter(shapeOf(schema))
}

/** Base64 has nothing that would have to be escaped, and takes long to look through. */
function bytesWriter(encode: Encode): Write {
  return (value, text) => text.addBase64(encode(value) as string)
}

function objectWriter(shape: Shape): Write {
  const fields = Object.entries(shape).map(([key, schema], index) => ({
    key,
    name: `${index === 0 ? '{' : ','}${JSON.stringify(key)}:`,
    write: writerOf(schema),
  }))
  return (value, text) => {
    for (const { key, name, write } of fields) {
      text.add(name)
      write((value as Fields)[key], text)
    }
    text.add('}')
  }
}

function listWriter(write: Write): Write {
  return (value, text) => {
    let separator = '['
    for (const one of value as unknown[]) {
      text.add(separator)
      write(one, text)
      separator = ','
    }
    text.add(separator === '[' ? '[]' : ']')
  }
}

/** Of objects that their first key tells apart. */
function choiceWriter(shapes: readonly Shape[]): Write {
  const choices = shapes.map((shape) => ({ key: Object.keys(shape)[0]!, write: objectWriter(shape) }))
  return (value, text) => choices.find(({ key }) => key in (value as object))?.write(value, text)
}

/** To a value that JSON can say. */
function encoderOf(schema: z.ZodType): Encode {
  if (schema instanceof z.ZodExactOptional) return encoderOf(schema.unwrap() as z.ZodType)
  if (schema instanceof z.ZodCodec) return schema.def.reverseTransform as Encode
  if (schema instanceof z.ZodArray) {
    const encode = encoderOf(schema.element as z.ZodType)
    return encode === same ? same : (value) => (value as unknown[]).map((one) => encode(one))
  }
  if (!(schema instanceof z.ZodObject)) return same
  const fields = Object.entries(shapeOf(schema)).map(([key, field]) => [key, encoderOf(field)] as const)
  return (value) => {
    const wire: Record<string, unknown> = {}
    for (const [key, encode] of fields) {
      const field = (value as Fields)[key]
      if (field !== undefined) wire[key] = encode(field)
    }
    return wire
  }
}

function same(value: unknown): unknown {
  return value
}

function holdsBytes(schema: z.ZodType): boolean {
  if (schema instanceof z.ZodCodec) {
    return z.globalRegistry.get(schema.def.in as z.ZodType)?.contentEncoding === 'base64'
  }
  if (schema instanceof z.ZodArray) return holdsBytes(schema.element as z.ZodType)
  if (schema instanceof z.ZodUnion)
    return shapesOf(schema).some((shape) => Object.values(shape).some(holdsBytes))
  return schema instanceof z.ZodObject && Object.values(shapeOf(schema)).some(holdsBytes)
}

function shapeOf(schema: z.ZodType): Shape {
  return (schema as z.ZodObject).shape
}

function shapesOf(schema: z.ZodUnion): Shape[] {
  return (schema.options as z.ZodType[]).map(shapeOf)
}
