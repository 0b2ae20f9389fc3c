import * as z from 'zod'
import { schemas, type OperationName } from '../../engine/contract.js'
import type { JsonText } from './json-text.js'
import { jsonLimits } from './limits.js'
import type { Steps } from './steps.js'

/** Writes a native value in the form that it has on the wire. */
type Write = (value: unknown, text: JsonText) => void

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
  if (schema instanceof z.ZodExactOptional) return writerOf(schema.unwrap() as z.ZodType)
  if (schema instanceof z.ZodCodec) return codecWriter(schema)
  if (schema instanceof z.ZodArray) return listWriter(writerOf(schema.element as z.ZodType))
  if (schema instanceof z.ZodUnion) return choiceWriter(shapesOf(schema))
  if (schema instanceof z.ZodObject) return objectWriter(shapeOf(schema))
  if (schema instanceof z.ZodString) return (value, text) => text.addString(value as string)
  return (value, text) => text.add(JSON.stringify(value))
}

/** Base64 and decimal digits: nothing in them has to be escaped. */
function codecWriter(schema: z.ZodCodec): Write {
  const encode = schema.def.reverseTransform as (value: unknown) => string
  const isBase64 = z.globalRegistry.get(schema.def.in as z.ZodType)?.contentEncoding === 'base64'
  return isBase64
    ? (value, text) => text.addBase64(encode(value))
    : (value, text) => text.add(`"${encode(value)}"`)
}

function objectWriter(shape: Shape): Write {
  const fields = Object.entries(shape).map(([key, schema]) => ({
    key,
    name: `${JSON.stringify(key)}:`,
    write: writerOf(schema),
  }))
  return (value, text) => {
    let separator = '{'
    for (const { key, name, write } of fields) {
      const field = (value as Fields)[key]
      if (field === undefined) continue
      text.add(separator + name)
      write(field, text)
      separator = ','
    }
    text.add(separator === '{' ? '{}' : '}')
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

function shapeOf(schema: z.ZodType): Shape {
  return (schema as z.ZodObject).shape
}

function shapesOf(schema: z.ZodUnion): Shape[] {
  return (schema.options as z.ZodType[]).map(shapeOf)
}
