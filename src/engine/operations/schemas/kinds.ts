/**
 * The kinds of values that requests and responses are made of. Each schema has two forms: its output is the
 * native one, which the engine takes and gives, and its input is the one on the wire, which is JSON;
 * `z.decode` leads from the wire, `z.encode` to it. They differ for bytes and 64-bit integers alone.
 *
 * Schemas say of what kind a value is; whether it makes sense, the engine checks.
 */
import { Buffer } from 'node:buffer'
import * as z from 'zod'

const maxInt64 = 2n ** 63n - 1n

/** Digits, or a JSON number where that is exact. */
const int64Wire = z
  .custom<string | number>(isInt64, 'must be decimal digits, up to 2^63 − 1')
  .register(z.globalRegistry, { type: 'string', format: 'int64' })

/** Natively a number: sizes, offsets and counts. What is over 2^53 − 1 is rounded, and for the engine to refuse. */
export const int64 = z.codec(
  int64Wire,
  z.number().check(z.refine(isWhole, 'must be a whole number from 0')),
  {
    decode: Number,
    encode: (value) => BigInt(value).toString(),
  },
)

/** Natively a bigint, or in requests also a number: exact over all 64 bits. */
export const exactInt64 = z.codec(int64Wire, z.union([z.bigint(), z.number()]), {
  decode: BigInt,
  encode: (value) => BigInt(value).toString(),
})

/** As {@link exactInt64}, in responses. */
export const exactInt64Response = z.codec(int64Wire, z.bigint(), { decode: BigInt, encode: String })

/** On the wire base64; the alphabet for URLs and missing padding are understood too. */
export const bytes = z.codec(
  z.string().meta({ contentEncoding: 'base64' }),
  z.custom<Uint8Array>((value) => value instanceof Uint8Array, 'must be a Uint8Array'),
  {
    decode: (text, context) => {
      const decoded = decodeBase64(text)
      if (decoded !== undefined) return decoded
      context.issues.push({ code: 'custom', message: 'must be base64', input: text })
      return z.NEVER
    },
    encode: (value) => Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64'),
  },
)

export const text = z.string()
export const flag = z.boolean()
export const integer = z.int()
export const number = z.number()

/** RFC 3339. */
export const time = z.string().meta({ format: 'date-time' })
/** RFC 3339, or '' for what has not happened. */
export const timeOrNone = z.string()

/** `sha256:<hex>`, or ''. */
export const hash = z.string()

/** Strings by strings, `__proto__` being a key like any other; z.record would leave that out. */
export const stringMap = z
  .custom<Readonly<Record<string, string>>>(
    (value) => isObject(value) && Object.values(value).every((one) => typeof one === 'string'),
    'must be an object of strings',
  )
  .register(z.globalRegistry, { type: 'object', additionalProperties: { type: 'string' } })

/** An object whose keys depend on something else. */
export const anyObject = z
  .custom<Readonly<Record<string, unknown>>>(isObject, 'must be an object')
  .register(z.globalRegistry, { type: 'object', additionalProperties: true })

export const nothing = z.object({})

/** Marks a field that the interface does not have. */
export function extension<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ 'x-extension': true })
}

/** What the requests of paginated listings have besides. */
export const pageRequest = { pageSize: integer.exactOptional(), pageToken: text.exactOptional() }

/**
 * The JSON Schema of the form on the wire, in the dialect of OpenAPI 3.1. Throws for a schema that JSON Schema
 * has no words for, unless its metadata have them.
 */
export function wireJsonSchema(schema: z.ZodType): z.core.JSONSchema.JSONSchema {
  return z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: ({ zodSchema, message }) => {
      if (z.globalRegistry.has(zodSchema)) return {}
      throw new Error(message)
    },
  })
}

function isInt64(value: unknown): boolean {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0
  return typeof value === 'string' && /^(0|[1-9]\d{0,18})$/.test(value) && BigInt(value) <= maxInt64
}

function isWhole(value: number): boolean {
  return Number.isInteger(value) && value >= 0
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Undefined for what is no base64. The decoder passes over what it does not know, which shows in the length, and
 * takes the low bytes of characters beyond ASCII, which are looked for.
 */
function decodeBase64(text: string): Uint8Array | undefined {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0
  const digits = text.length - padding
  if (digits % 4 === 1 || (padding > 0 && text.length % 4 !== 0)) return undefined
  if (Buffer.byteLength(text) !== text.length) return undefined
  const { buffer, byteOffset, length } = Buffer.from(text, 'base64')
  return length === Math.floor((digits * 3) / 4) ? new Uint8Array(buffer, byteOffset, length) : undefined
}
