import type * as z from 'zod'
import {
  contentRoutes,
  contentSchemas,
  operations,
  schemas,
  type ContentRoute,
  type ContentRouteName,
  type Operation,
  type OperationName,
} from '../../../engine/contract.js'
import { responseEncoder, type ResponseEncoder } from './encode.js'
import type { HttpLimits } from '../limits.js'
import { queryReader } from './query.js'

/**
 * The functions and schemas with which the handler reads the requests of an operation and writes its
 * responses.
 */
export interface OperationIo {
  readonly readQuery: (query: string) => Record<string, unknown>
  /** Largest body in bytes; 0 if the operation takes no body. */
  readonly bodyBytes: number
  readonly request: z.ZodType<object>
  readonly response: ResponseEncoder
}

export function operationIo(limits: HttpLimits): ReadonlyMap<OperationName, OperationIo> {
  return new Map(
    Object.entries<Operation>(operations).map(([key, operation]) => {
      const name = key as OperationName
      const io: OperationIo = {
        readQuery: queryReader(schemas[name].request, operation.query),
        bodyBytes: takesBody(operation) ? limits.bodyBytes : 0,
        request: schemas[name].request,
        response: responseEncoder(name),
      }
      return [name, io]
    }),
  )
}

/** The function and schema with which the handler reads the parameters of a content route. */
export interface ContentIo {
  readonly readQuery: (query: string) => Record<string, unknown>
  readonly parameters: z.ZodType<object>
}

export function contentIo(): ReadonlyMap<ContentRouteName, ContentIo> {
  return new Map(
    Object.entries<ContentRoute>(contentRoutes).map(([key, { query }]) => {
      const name = key as ContentRouteName
      const parameters: z.ZodType<object> = contentSchemas[name]
      return [name, { readQuery: queryReader(parameters, query), parameters }]
    }),
  )
}

/** The body of a GET or DELETE request is ignored. */
export function takesBody({ method }: Operation): boolean {
  return method !== 'GET' && method !== 'DELETE'
}
