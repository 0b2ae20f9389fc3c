import type * as z from 'zod'
import { wireJsonSchemaByNames } from '../../src/engine/contract.js'

export type JsonSchema = Readonly<Record<string, unknown>>

/** A request or response as an object: its fields, and which of them are required. */
export interface Fields {
  readonly properties: Readonly<Record<string, JsonSchema>>
  readonly required: readonly string[]
}

/** Gathers the schemas that others refer to by their names. */
export class Components {
  readonly #schemas = new Map<string, JsonSchema>()

  /** The schema, or a reference to it where it has a name. */
  of(schema: z.ZodType): JsonSchema {
    const { $schema: _dialect, $defs = {}, ...json } = wireJsonSchemaByNames(schema)
    for (const [name, definition] of Object.entries($defs))
      this.#schemas.set(name, tidied(definition as JsonSchema))
    return tidied(json)
  }

  fieldsOf(schema: z.ZodType): Fields {
    const { properties = {}, required = [] } = this.of(schema)
    return { properties: properties as Fields['properties'], required: required as string[] }
  }

  /** A reference to a schema that gets this name. */
  add(name: string, schema: JsonSchema): JsonSchema {
    this.#schemas.set(name, schema)
    return { $ref: reference(name) }
  }

  sorted(): Readonly<Record<string, JsonSchema>> {
    return Object.fromEntries([...this.#schemas].sort(([a], [b]) => (a < b ? -1 : 1)))
  }
}

function reference(name: string): string {
  return `#/components/schemas/${name}`
}

/** References lead to the components, and bounds that say nothing are left out. */
function tidied<T>(json: T): T {
  if (Array.isArray(json)) return json.map(tidied) as T
  if (typeof json !== 'object' || json === null) return json
  const entries: [string, unknown][] = []
  for (const [key, value] of Object.entries(json)) {
    if (Math.abs(value as number) === Number.MAX_SAFE_INTEGER) continue
    const isReference = key === '$ref' && typeof value === 'string'
    entries.push([key, isReference ? reference(value.replace('#/$defs/', '')) : tidied(value)])
  }
  return Object.fromEntries(entries) as T
}
