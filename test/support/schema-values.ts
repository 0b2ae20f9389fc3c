import fc from 'fast-check'
import * as z from 'zod'
import { wireJsonSchema } from '../../src/engine/contract.js'

/** Text that breaks hand-written encoders and decoders. */
export const hostileText: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '"',
        '\\',
        '\\"',
        '","isAdmin":true,"x":"',
        '\\u0022',
        '\n',
        '\r\n',
        '\u2028',
        '\u2029',
        '\uFEFF',
        '\uD83D',
        '\uDE00',
        '😀',
        'é',
        '</script>',
        '{}',
        'x'.repeat(300),
        'ß"'.repeat(800),
      ),
      fc.integer({ min: 0, max: 0x9f }).map((code) => String.fromCharCode(code)),
      fc.string({ unit: 'binary', maxLength: 3 }),
    ),
    { maxLength: 6 },
  )
  .map((parts) => parts.join(''))

/** Native values of a schema whose strings come from `text`. Throws for unknown kinds of schema. */
export function valuesOf(schema: z.ZodType, text: fc.Arbitrary<string> = hostileText): fc.Arbitrary<unknown> {
  const of = (inner: z.ZodType): fc.Arbitrary<unknown> => valuesOf(inner, text)
  if (schema instanceof z.ZodExactOptional || schema instanceof z.ZodPrefault)
    return of(schema.unwrap() as z.ZodType)
  if (schema instanceof z.ZodObject) return recordOf(schema, of)
  if (schema instanceof z.ZodArray) return fc.array(of(schema.element as z.ZodType), { maxLength: 3 })
  if (schema instanceof z.ZodUnion) return fc.oneof(...(schema.options as z.ZodType[]).map(of))
  if (schema instanceof z.ZodEnum) return fc.constantFrom(...(schema.options as string[]))
  if (schema instanceof z.ZodBoolean) return fc.boolean()
  if (schema instanceof z.ZodNumber) return fc.integer({ min: 0, max: 0o777 })
  if (schema instanceof z.ZodString) return text
  if (schema instanceof z.ZodCodec) return codecOf(schema, text)
  const map = wireJsonSchema(schema).additionalProperties
  if (map === undefined) throw new Error(`no values for ${schema.def.type}`)
  const values = map === true ? fc.oneof(text, fc.integer(), fc.array(text, { maxLength: 2 })) : text
  const keys = fc.oneof(text, fc.constantFrom('__proto__', 'constructor', 'toJSON', '1', ''))
  // Object.fromEntries also defines `__proto__` as an own field.
  return fc.array(fc.tuple(keys, values), { maxLength: 4 }).map((entries) => Object.fromEntries(entries))
}

function recordOf(
  schema: z.ZodObject,
  of: (inner: z.ZodType) => fc.Arbitrary<unknown>,
): fc.Arbitrary<unknown> {
  const fields = Object.entries<z.ZodType>(schema.shape)
  const required = fields.filter(([, field]) => !(field instanceof z.ZodExactOptional)).map(([key]) => key)
  return fc.record(Object.fromEntries(fields.map(([key, field]) => [key, of(field)])), {
    requiredKeys: required,
    noNullPrototype: true,
  })
}

function codecOf({ def }: z.ZodCodec, text: fc.Arbitrary<string>): fc.Arbitrary<unknown> {
  const out = def.out as z.ZodType
  if (out instanceof z.ZodNumber) return fc.maxSafeNat()
  if (out instanceof z.ZodBigInt || out instanceof z.ZodUnion)
    return fc.bigInt({ min: 0n, max: 2n ** 63n - 1n })
  if (z.globalRegistry.get(def.in as z.ZodType)?.contentEncoding === 'base64')
    return fc.oneof(fc.uint8Array({ maxLength: 20 }), fc.uint8Array({ minLength: 760, maxLength: 780 }))
  // A secret.
  return text.map((value) => ({ reveal: () => value }))
}
