import type * as z from 'zod'
import type { OperationName } from '../index.js'

/** The schemas of one operation. */
export interface OperationSchemas {
  /** Path parameters, query and body as one object. */
  readonly request: z.ZodType<object>
  /** Of a stream: one item. */
  readonly response: z.ZodType<object>
}

/** Keeps each operation's own types, and refuses names that no operation has. */
export function defineSchemas<const Schemas extends { readonly [Name in OperationName]?: OperationSchemas }>(
  schemas: Schemas,
): Schemas {
  return schemas
}
