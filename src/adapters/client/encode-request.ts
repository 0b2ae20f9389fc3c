import * as z from 'zod'
import {
  contentRoutes,
  contentSchemas,
  EngineError,
  invalid,
  issueText,
  itemAt,
  operations,
  schemas,
  unknownName,
  type ContentRouteName,
  type ErrorReason,
  type Operation,
  type OperationName,
} from '../../engine/client-contract.js'
import { copyOf, isPlain } from './checked.js'
import { clientLimits } from './limits.js'

/** A request that is ready to be sent. */
export interface WireRequest {
  readonly method: string
  /** The path, which starts with `/v1`, and the query. */
  readonly target: string
  /** JSON as a string, or a content as bytes. */
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array>
}

/**
 * Encodes a native request.
 *
 * @throws EngineError `INVALID_ARGUMENT` with the first field that has the wrong type.
 */
export function encodeRequest(name: OperationName, request: object): WireRequest {
  const { method } = operations[name]
  const { target, rest } = encodeRoute(operations[name], schemas[name].request, request)
  return method === 'GET' || method === 'DELETE'
    ? { method, target }
    : { method, target, body: JSON.stringify(rest) }
}

/**
 * Encodes the request of a content route, without its content.
 *
 * @throws EngineError `INVALID_ARGUMENT`
 */
export function encodeContentRequest(name: ContentRouteName, parameters: object): WireRequest {
  const route = contentRoutes[name]
  return {
    method: route.method,
    target: encodeRoute(route, contentSchemas[name], parameters).target,
  }
}

/** Moves the parameters of the path and query from the request into the target. */
function encodeRoute(
  { path, query = [] }: Pick<Operation, 'path' | 'query'>,
  schema: z.ZodType,
  request: object,
): { readonly target: string; readonly rest: Readonly<Record<string, unknown>> } {
  const copy = copyOf(request)
  checkNames(schema, copy, '')
  const encoded = z.safeEncode(schema as z.ZodType<object, object>, copy)
  if (!encoded.success) {
    const { path: at, message } = itemAt(encoded.error.issues, 0)
    throw invalid(fieldOf(at) || 'request', issueText(message))
  }
  const rest: Record<string, unknown> = { ...encoded.data }
  const { sourceId, jobId } = rest as Record<string, string>
  const ofJob =
    path.includes('{jobId}') && sourceId !== undefined && jobId !== undefined
      ? { sourceId, jobId }
      : undefined
  const local = path.replaceAll(/\{(\w+)\}/g, (_, parameter: string) => {
    const value = rest[parameter] as string
    delete rest[parameter]
    return encodeParameter(parameter, value, ofJob)
  })
  return { target: `${local}${encodeQuery(query, rest)}`, rest }
}

/**
 * Rejects unknown names, which a server would ignore.
 *
 * @throws EngineError `INVALID_ARGUMENT` for a name at any depth that the schema does not have.
 */
function checkNames(schema: z.ZodType, value: unknown, field: string): void {
  const { def } = schema as unknown as { readonly def: SchemaDefinition }
  if (def.innerType !== undefined) return checkNames(def.innerType, value, field)
  if (Array.isArray(value)) {
    if (def.element === undefined) return
    for (const [index, part] of value.entries()) checkNames(def.element, part, `${field}[${index}]`)
    return
  }
  const { shape } = def
  if (shape === undefined || typeof value !== 'object' || value === null || !isPlain(value)) return
  for (const [name, part] of Object.entries(value)) {
    if (part === undefined) continue
    const partSchema = Object.hasOwn(shape, name) ? shape[name] : undefined
    if (partSchema === undefined) throw unknownName(field, name, new Set(Object.keys(shape)))
    checkNames(partSchema, part, field === '' ? name : `${field}.${name}`)
  }
}

/**
 * The parts of a schema's definition that are used here. An object has `shape`, an array has `element`, and
 * an optional or default wrapper has `innerType`.
 */
interface SchemaDefinition {
  readonly shape?: Readonly<Record<string, z.ZodType>>
  readonly element?: z.ZodType
  readonly innerType?: z.ZodType
}

/**
 * The engine's errors for ids such as `..`. A URL cannot contain these, so no request could return the error.
 */
const notFound: Readonly<Record<string, readonly [reason: ErrorReason, message: (id: string) => string]>> = {
  sessionId: ['SESSION_NOT_FOUND', (id) => `there is no session ${id}; it may have been deleted`],
  sourceSessionId: ['SESSION_NOT_FOUND', (id) => `there is no session ${id}; it may have been deleted`],
  sourceId: ['SOURCE_NOT_FOUND', (id) => `there is no source ${id}; it may have been deleted`],
  annotationId: ['ANNOTATION_NOT_FOUND', (id) => `the session has no annotation ${id}`],
  approvalId: ['APPROVAL_NOT_FOUND', (id) => `the session has no approval ${id}`],
}

/** Quotes text in the same way as the engine's errors. */
function quoted(text: string): string {
  return JSON.stringify(
    text.length > clientLimits.shownLength ? `${text.slice(0, clientLimits.shownLength)}…` : text,
  )
}

/**
 * Encodes a parameter of the path. A URL cannot have an empty part, `.` or `..`, in any encoding, so these
 * values throw.
 */
function encodeParameter(
  parameter: string,
  value: string,
  ofJob: { readonly sourceId: string; readonly jobId: string } | undefined,
): string {
  if (!value.isWellFormed()) throw invalid(parameter, 'contains a lone surrogate')
  if (value !== '' && value !== '.' && value !== '..') return encodeURIComponent(value)
  if (ofJob !== undefined) {
    const message = `the source ${quoted(ofJob.sourceId)} has no import job ${quoted(ofJob.jobId)}`
    throw new EngineError('JOB_NOT_FOUND', message, ofJob)
  }
  const known = notFound[parameter]
  if (known === undefined) throw invalid(parameter, 'must not be empty, "." or ".."')
  const [reason, message] = known
  const field = parameter === 'sourceSessionId' ? 'sessionId' : parameter
  throw new EngineError(reason, message(quoted(value)), { [field]: value })
}

/** Moves the parameters of the query from `rest` into a query string. */
function encodeQuery(parameters: readonly string[], rest: Record<string, unknown>): string {
  const parts: string[] = []
  for (const parameter of parameters) {
    const value = rest[parameter]
    delete rest[parameter]
    if (value === undefined) continue
    for (const one of Array.isArray(value) ? (value as unknown[]) : [value]) {
      const text = String(one)
      if (!text.isWellFormed()) throw invalid(parameter, 'contains a lone surrogate')
      parts.push(`${parameter}=${encodeURIComponent(text)}`)
    }
  }
  return parts.length === 0 ? '' : `?${parts.join('&')}`
}

/** Returns the name of a field in the engine's notation, such as `operations[0].write.path`. */
function fieldOf(path: readonly PropertyKey[]): string {
  let field = ''
  for (const part of path) {
    field += typeof part === 'number' ? `[${part}]` : `${field === '' ? '' : '.'}${String(part)}`
  }
  return field
}
