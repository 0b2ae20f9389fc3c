import type * as z from 'zod'
import type { OperationName } from '../index.js'

/** The schemas of one operation. */
export interface OperationSchemas {
  /** Path parameters, query and body, combined in one object. */
  readonly request: z.ZodType<object>
  /** The response, or one item of a stream. */
  readonly response: z.ZodType<object>
}

/** Keeps the types of each schema, and accepts names of operations only. */
export function defineSchemas<const Schemas extends { readonly [Name in OperationName]?: OperationSchemas }>(
  schemas: Schemas,
): Schemas {
  return schemas
}
