/**
 * The kinds of values that requests and responses are made of. Each schema has two forms: its output is the
 * native one, which the engine takes and gives, and its input is the one on the wire, which is JSON;
 * `z.decode` leads from the wire, `z.encode` to it. They differ for bytes and 64-bit integers alone.
 *
 * Schemas say of what kind a value is; whether it makes sense, the engine checks.
 */
import * as z from 'zod'
import { limits } from '../../base/limits.js'
import { decodeBase64, encodeBase64 } from './base64.js'

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
    // Digits that a number does not show would be lost.
    encode: (value) => (Number.isSafeInteger(value) ? String(value) : BigInt(value).toString()),
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
    encode: encodeBase64,
  },
)

export const text = z.string()
export const flag = z.boolean()
export const integer = z.int()
export const number = z.number()

/** RFC 3339. */
export const time = z.string().meta({ format: 'date-time' })
/** RFC 3339, or '' for what has not happened. */
export const timeOrNone = z.string().describe('RFC 3339, or empty for what has not happened.')

/** `sha256:<hex>`, or ''. */
export const hash = z.string().describe('`sha256:` and 64 hex digits, or empty.')

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

export const nothing = z.object({}).meta({ id: 'Empty', description: 'An object without fields.' })

/** What a path leads to. */
export const nodeKind = z.enum(['file', 'directory', 'symlink']).meta({ id: 'NodeKind' })

/** Of the session that the operation is about. */
export const sessionId = text.describe('The id of the session.')

/** Where something in a session is. */
export const path = text.describe(
  `An absolute path without \`.\`, \`..\`, NUL or empty parts; at most ${limits.pathBytes} bytes of UTF-8, ` +
    `${limits.nameBytes} in each of at most ${limits.pathDepth} parts.`,
)

export const pathPrefix = text.describe(
  'A literal prefix of paths: `/src` matches `/srcfoo` too, `/src/` is what is below the directory. Absent or empty: all.',
)

/** Permission bits, as a decimal number. */
export const mode = integer.meta({
  minimum: 0,
  maximum: 0o7777,
  description: 'Permission bits as a decimal number: 420 is 0644.',
})

/** Tags and labels. */
export const labels = stringMap.meta({
  description:
    `At most ${limits.tagEntries} entries, keys of at most ${limits.tagKeyBytes} bytes, values of at most ` +
    `${limits.tagValueBytes}.`,
})

/** Of a listing by tags or labels. */
export const filter = text.describe('`key=value`: only those that have this. Absent or empty: all.')

/** The name of a schema in the contract, by which others refer to it. */
export function named<Schema extends z.ZodType>(id: string, schema: Schema): Schema {
  return schema.meta({ id })
}

/** An amount of bytes, for descriptions. */
export function inBytes(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB']
  let unit = 0
  for (; bytes >= 1024 && bytes % 1024 === 0; unit++) bytes /= 1024
  return `${bytes} ${units[unit]}`
}

/** Marks a field that the interface does not have. */
export function extension<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ 'x-extension': true })
}

/** What the requests of paginated listings have besides. */
export const pageRequest = {
  pageSize: integer
    .meta({
      minimum: 0,
      description:
        `The most entries of a page; absent or 0: ${limits.pageSizeDefault}. Above ${limits.pageSizeMax} it is ` +
        `${limits.pageSizeMax}.`,
    })
    .exactOptional(),
  pageToken: text
    .describe(
      'The `nextPageToken` of the page before, of the same listing; absent or empty: the first page. It stays ' +
        'valid while what is listed changes.',
    )
    .exactOptional(),
}

export const nextPageToken = text.describe('For the next page; empty when there is none.')

type JsonSchema = z.core.JSONSchema.JSONSchema

/**
 * The JSON Schema of the form on the wire, in the dialect of OpenAPI 3.1. Throws for a schema that JSON Schema
 * has no words for, unless its metadata have them.
 */
export function wireJsonSchema(schema: z.ZodType): JsonSchema {
  const { $defs = {}, ...json } = wireJsonSchemaByNames(schema)
  return inlined(json, $defs) as JsonSchema
}

/** As {@link wireJsonSchema}, with what is {@link named} in `$defs` and references to it in its place. */
export function wireJsonSchemaByNames(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: ({ zodSchema, message }) => {
      if (z.globalRegistry.has(zodSchema)) return {}
      throw new Error(message)
    },
  })
}

/** None of the schemas holds itself. */
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
