/**
 * The basic schemas of requests and responses. Each schema has two forms. Its output is the native form,
 * which the engine uses. Its input is the wire form, which is JSON. `z.decode` converts from the wire form
 * and `z.encode` to it. Only bytes, 64-bit integers and secrets differ between the forms.
 *
 * Schemas check the type of a value. The engine checks its meaning.
 */
import * as z from 'zod'
import type { JsonObject } from '../../base/json-object.js'
import { limits } from '../../base/limits.js'
import { decodeBase64, encodeBase64 } from './base64.js'

const maxInt64 = 2n ** 63n - 1n

/** Decimal digits, or a JSON number up to 2^53 − 1. */
const int64Wire = z
  .custom<string | number>(isInt64, 'must be decimal digits, up to 2^63 − 1')
  .register(z.globalRegistry, { type: 'string', format: 'int64' })

/**
 * A number in native form: a size, offset or count. Values over 2^53 − 1 are rounded, and the engine rejects
 * them.
 */
export const int64 = z.codec(
  int64Wire,
  z.number().check(z.refine(isWhole, 'must be a whole number from 0')),
  {
    decode: Number,
    // String() rounds the digits of a large number.
    encode: (value) => (Number.isSafeInteger(value) ? String(value) : BigInt(value).toString()),
  },
)

/** A bigint in native form, exact over all 64 bits. Requests may also have a number. */
export const exactInt64 = z.codec(int64Wire, z.union([z.bigint(), z.number()]), {
  decode: BigInt,
  encode: (value) => BigInt(value).toString(),
})

/** Like {@link exactInt64}, for responses. */
export const exactInt64Response = z.codec(int64Wire, z.bigint(), { decode: BigInt, encode: String })

/** Base64 on the wire. The URL-safe alphabet and missing padding are accepted too. */
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
    encode: encodeBase64,
  },
)

export const text = z.string()
export const flag = z.boolean()
export const integer = z.int()
export const number = z.number()

/** RFC 3339. */
export const time = z.string().meta({ format: 'date-time' })
export const timeOrNone = z.string().describe('RFC 3339, or empty if it has not happened.')

export const hash = z.string().describe('`sha256:` and 64 hex digits, or empty.')

/** A map from strings to strings. Unlike z.record, it keeps the key `__proto__`. */
export const stringMap = z
  .custom<Readonly<Record<string, string>>>(
    (value) => isObject(value) && Object.values(value).every((one) => typeof one === 'string'),
    'must be an object of strings',
  )
  .register(z.globalRegistry, { type: 'object', additionalProperties: { type: 'string' } })

/** An object without fixed keys. */
export const anyObject = z
  .custom<Readonly<Record<string, unknown>>>(isObject, 'must be an object')
  .register(z.globalRegistry, { type: 'object', additionalProperties: true })

/** An object of JSON. */
export const jsonObject = z
  .custom<JsonObject>(isObject, 'must be an object')
  .register(z.globalRegistry, { type: 'object', additionalProperties: true })

/** An object of JSON as text, for a query. */
export const jsonText = z.codec(z.string().meta({ contentMediaType: 'application/json' }), jsonObject, {
  decode: (text, context) => {
    try {
      return JSON.parse(text) as JsonObject
    } catch {
      context.issues.push({ code: 'custom', message: 'must be an object of JSON', input: text })
      return z.NEVER
    }
  },
  encode: (value, context) => {
    try {
      return JSON.stringify(value)
    } catch {
      context.issues.push({ code: 'custom', message: 'must be an object of JSON', input: value })
      return z.NEVER
    }
  },
})

/** Metadata of a checkpoint or fork. */
export const metadata = jsonObject.meta({
  description: `At most ${limits.metadataBytes} bytes as JSON, and ${limits.metadataDepth} levels.`,
})

/** Filters a listing by metadata. */
export const metadataFilter = jsonText.describe(
  'An object as JSON: lists only items whose metadata contains its values. Nested objects may have more keys; arrays ' +
    'must have the same length. Absent: all.',
)

export const nothing = z.object({}).meta({ id: 'Empty', description: 'An object without fields.' })

export const nodeKind = z.enum(['file', 'directory', 'symlink']).meta({ id: 'NodeKind' })

export const sessionId = text.describe('The id of the session.')

export const path = text.describe(
  `An absolute path without \`.\`, \`..\`, NUL or empty parts. At most ${limits.pathBytes} bytes of UTF-8 and ` +
    `${limits.pathDepth} parts, with at most ${limits.nameBytes} bytes in each part.`,
)

export const pathPrefix = text.describe(
  'A literal prefix of paths. `/src` also matches `/srcfoo`; `/src/` matches all paths below the directory. Absent or ' +
    'empty: all paths.',
)

export const mode = integer.meta({
  minimum: 0,
  maximum: 0o7777,
  description: 'Permission bits as a decimal number: 420 is 0644.',
})

/** Tags of a session, or labels of a source. */
export const labels = stringMap.meta({
  description:
    `At most ${limits.tagEntries} entries, keys of at most ${limits.tagKeyBytes} bytes, values of at most ` +
    `${limits.tagValueBytes}.`,
})

/** Filters a listing by a tag or label. */
export const filter = text.describe(
  '`key=value`: lists only items with this tag or label. Absent or empty: all.',
)

/** Gives a schema a name, which the contract uses to refer to it. */
export function named<Schema extends z.ZodType>(id: string, schema: Schema): Schema {
  return schema.meta({ id })
}

/** Formats a number of bytes for descriptions. */
export function inBytes(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB']
  let unit = 0
  for (; bytes >= 1024 && bytes % 1024 === 0; unit++) bytes /= 1024
  return `${bytes} ${units[unit]}`
}

/** Marks a field as an extension of the interface. */
export function extension<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ 'x-extension': true })
}

/** Additional fields in requests of paginated listings. */
export const pageRequest = {
  pageSize: integer
    .meta({
      minimum: 0,
      description:
        `The most entries in a page. Absent or 0: ${limits.pageSizeDefault}. A larger value than ` +
        `${limits.pageSizeMax} counts as ${limits.pageSizeMax}.`,
    })
    .exactOptional(),
  pageToken: text
    .describe(
      'The `nextPageToken` of the previous page of the same listing. Absent or empty: the first page. It stays ' +
        'valid while the listed items change.',
    )
    .exactOptional(),
}

export const nextPageToken = text.describe('The `pageToken` of the next page. Empty on the last page.')

type JsonSchema = z.core.JSONSchema.JSONSchema

/**
 * The JSON Schema of the wire form, in the dialect of OpenAPI 3.1. Throws for a schema that JSON Schema
 * cannot express, unless its metadata contain a JSON Schema.
 */
export function wireJsonSchema(schema: z.ZodType): JsonSchema {
  const { $defs = {}, ...json } = wireJsonSchemaByNames(schema)
  return inlined(json, $defs) as JsonSchema
}

/** Like {@link wireJsonSchema}, but {@link named} schemas are in `$defs`, with references to them. */
export function wireJsonSchemaByNames(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: ({ zodSchema, message }) => {
      if (z.globalRegistry.has(zodSchema)) return {}
      throw new Error(message)
    },
  })
}

/** Replaces references with their schemas. No schema is recursive. */
function inlined(json: unknown, definitions: Readonly<Record<string, unknown>>): unknown {
  if (Array.isArray(json)) return json.map((one) => inlined(one, definitions))
  if (!isObject(json)) return json
  const { $ref, ...rest } = json as { readonly $ref?: string }
  const own = Object.fromEntries(Object.entries(rest).map(([key, one]) => [key, inlined(one, definitions)]))
  if ($ref === undefined) return own
  const target = inlined(definitions[$ref.slice('#/$defs/'.length)], definitions)
  return { ...(target as object), ...own }
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
