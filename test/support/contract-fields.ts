import { bodySchema, resolved, type DescribedOperation, type JsonSchema } from './contract-checks.js'

/** The path of a value in a body. */
export type Path = readonly (string | number)[]

/** A value in the body of an operation, and its schema. */
export interface Position {
  readonly path: Path
  readonly schema: JsonSchema
  readonly required: boolean
}

/** Every value position in a body at any depth; for lists, the first item. */
export function positionsOf(operation: DescribedOperation): Position[] {
  const schema = bodySchema(operation)
  return schema === undefined ? [] : [...below(schema, [])]
}

function* below(schema: JsonSchema, path: Path): Generator<Position> {
  const { properties = {}, required = [], items } = resolved(schema)
  for (const [name, property] of Object.entries(properties as Record<string, JsonSchema>)) {
    const isRequired = (required as readonly string[]).includes(name)
    yield { path: [...path, name], schema: resolved(property), required: isRequired }
    yield* below(property, [...path, name])
  }
  if (items === undefined) return
  yield { path: [...path, 0], schema: resolved(items as JsonSchema), required: false }
  yield* below(items as JsonSchema, [...path, 0])
}

/** A value that a schema allows, with every field set. */
export function sampleOf(schema: JsonSchema): unknown {
  const { type, format, contentEncoding, properties, items, minimum, ...rest } = resolved(schema)
  if (Array.isArray(rest['enum'])) return rest['enum'][0]
  switch (type) {
    case 'integer':
    case 'number':
      return Math.max(1, (minimum as number | undefined) ?? 1)
    case 'boolean':
      return false
    case 'array':
      return [sampleOf(items as JsonSchema)]
    case 'object': {
      if (properties === undefined) return rest['additionalProperties'] === undefined ? {} : { a: 'b' }
      const fields = Object.entries(properties as Record<string, JsonSchema>)
      return Object.fromEntries(fields.map(([name, property]) => [name, sampleOf(property)]))
    }
    default:
      if (format === 'int64') return '1'
      if (format === 'date-time') return '2026-01-31T08:00:00Z'
      return contentEncoding === 'base64' ? 'AA==' : 'a'
  }
}

/** A sample value as it is written in a query. */
export function sampleText(schema: JsonSchema): string {
  const sample = sampleOf(schema)
  return typeof sample === 'string' ? sample : JSON.stringify(sample)
}

const notText = [5, true, null, {}, []]

/** Values that a schema does not allow. */
export function wrongValues(schema: JsonSchema): readonly unknown[] {
  const { type, format, contentEncoding, ...rest } = resolved(schema)
  if (Array.isArray(rest['enum'])) return [...notText, 'NOTHING_OF_THE_KIND', '', 'toString', '__proto__']
  if (format === 'int64') {
    const texts = [
      '',
      '-1',
      '+1',
      '1.5',
      '1e3',
      '0x10',
      ' 1',
      '1 ',
      '01',
      '٣',
      '9223372036854775808',
      '1'.repeat(400),
    ]
    return [...texts, -1, 1.5, 2 ** 53, true, null, {}, []]
  }
  if (contentEncoding === 'base64')
    return ['*', 'A', 'AAAAA', 'AA=A', 'A===', 'AAAA\n', 'é', '\u0141AAA', ...notText]
  switch (type) {
    case 'integer':
      return ['1', 1.5, 1e300, true, null, {}, []]
    case 'number':
      return ['1', true, null, {}, []]
    case 'boolean':
      return ['true', 1, 0, null, {}, []]
    case 'array':
      return ['a', 5, true, null, {}, { length: 1 }]
    case 'object': {
      const notObjects = ['a', 5, true, null, []]
      const value = rest['additionalProperties'] as JsonSchema | undefined
      return value?.['type'] === 'string' ? [...notObjects, { a: 5 }, { a: null }, { a: {} }] : notObjects
    }
    default:
      return notText
  }
}

/** Query texts that a parameter must reject; empty if it accepts any text. */
export function wrongTexts(schema: JsonSchema): readonly string[] {
  const { type, format, ...rest } = resolved(schema)
  if (Array.isArray(rest['enum'])) return ['NOTHING_OF_THE_KIND', 'toString', '__proto__']
  if (type === 'integer')
    return ['', 'a', '-1', '1.5', '1e3', '0x10', ' 1', '1'.repeat(400), 'NaN', 'Infinity']
  if (type === 'boolean') return ['', '1', 'yes', 'TRUE', 'null']
  if (format === 'date-time') {
    return [
      '',
      'yesterday',
      '5',
      '2026-01-31',
      '2026-02-30T00:00:00Z',
      '2026-01-31T08:00:00',
      '2026-01-31T25:00:00Z',
    ]
  }
  return []
}

/** The value with the part at a path replaced; `remove` deletes that part. */
export function replaced(value: unknown, path: Path, other: unknown): unknown {
  const [key, ...rest] = path
  if (key === undefined) return other
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) }) as Record<
    string | number,
    unknown
  >
  if (rest.length === 0 && other === remove) delete copy[key]
  else copy[key] = replaced(copy[key], rest, other)
  return copy
}

export const remove = Symbol('remove')

/** Names of a state: a request has at most one of them. */
const alternatives = [
  'from',
  'base',
  'eventId',
  'time',
  'checkpointId',
  'checkpointLabel',
  'sourceCheckpointLabel',
]

/** The value without the fields that exclude the field at a path, and one alternative of each other object. */
export function compatible(value: unknown, path: Path): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const [key, ...rest] = path
  const names = alternatives.filter((name) => name in value || name === key)
  const kept = names.includes(String(key)) ? key : names[0]
  const fields = Object.entries(value).filter(([name]) => !names.includes(name) || name === kept)
  return Object.fromEntries(
    fields.map(([name, field]) => [name, compatible(field, name === key ? rest : [])]),
  )
}

/** The path as errors write it: `operations[0].write.path`. */
export function fieldName(path: Path): string {
  return path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${part}`))
    .join('')
    .slice(1)
}
