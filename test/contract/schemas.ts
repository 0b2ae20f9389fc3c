import type * as z from 'zod'
import { wireJsonSchemaByNames } from '../../src/engine/contract.js'

export type JsonSchema = Readonly<Record<string, unknown>>

/** A request or response as an object: its fields, and the required ones. */
export interface Fields {
  readonly properties: Readonly<Record<string, JsonSchema>>
  readonly required: readonly string[]
}

/** Collects the named schemas that other schemas refer to. */
export class Components {
  readonly #schemas = new Map<string, JsonSchema>()

  /** The schema, or a reference to it if it has a name. */
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

  /** Adds a schema under a name and returns a reference to it. */
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

/** Points references to the components, and removes redundant bounds. */
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
