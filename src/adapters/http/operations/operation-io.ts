import type * as z from 'zod'
import { operations, schemas, type Operation, type OperationName } from '../../../engine/contract.js'
import { responseEncoder, type ResponseEncoder } from './encode.js'
import type { HttpLimits } from '../limits.js'
import { queryReader } from './query.js'

/** What the handler has to know of an operation beyond its route. */
export interface OperationIo {
  readonly readQuery: (query: string) => Record<string, unknown>
  /** 0 where a body means nothing. */
  readonly bodyBytes: number
  readonly request: z.ZodType<object>
  readonly response: ResponseEncoder
}

export function operationIo(limits: HttpLimits): ReadonlyMap<OperationName, OperationIo> {
  return new Map(
    Object.entries<Operation>(operations).map(([key, operation]) => {
      const name = key as OperationName
      const io: OperationIo = {
        readQuery: queryReader(name, operation.query),
        bodyBytes: takesBody(operation) ? bodyBytes(name, limits) : 0,
        request: schemas[name].request,
        response: responseEncoder(name),
      }
      return [name, io]
    }),
  )
}

/** A body of GET and DELETE is not looked at. */
export function takesBody({ method }: Operation): boolean {
  return method !== 'GET' && method !== 'DELETE'
}

/** What brings contents of files. */
const changes: readonly OperationName[] = [
  'applyBatch',
  'patchSegments',
  'writeFile',
  'appendFile',
  'createSession',
]

/** What the body of a request may have. */
export function bodyBytes(name: OperationName, limits: HttpLimits): number {
  if (name === 'startImport') return limits.importBodyBytes
  return changes.includes(name) ? limits.changeBodyBytes : limits.bodyBytes
}
