import { maxHeaderSize } from 'node:http'
import * as z from 'zod'
import { createHttpHandler, staticTokens } from '../../src/adapters/http/index.js'
import {
  callOperation,
  operations,
  schemas,
  type CallableOperation,
  type Operation,
  type OperationName,
  type OperationRequest,
  type OperationResponse,
} from '../../src/engine/contract.js'
import type { Engine } from '../../src/index.js'

/** Calls an operation by name, as the engine's own tenant and principal. */
export type Call = <Name extends CallableOperation>(
  name: Name,
  request: OperationRequest<Name>,
) => Promise<OperationResponse<Name>>

/** An HTTP error response, with the properties that tests check on an engine error. */
export class Refusal extends Error {
  readonly reason: string
  readonly status: number
  readonly http: number
  readonly details: Readonly<Record<string, string>>

  constructor(http: number, { code, message, details }: Status) {
    super(message)
    this.http = http
    this.status = code
    this.reason = details[0]!.reason
    this.details = details[0]!.metadata
  }
}

interface Status {
  readonly code: number
  readonly message: string
  readonly details: readonly {
    readonly reason: string
    readonly metadata: Readonly<Record<string, string>>
  }[]
}

/** In process, or through requests and responses on the wire. */
export const transports: readonly (readonly [name: string, make: (engine: Engine) => Call])[] = [
  ['in process', (engine) => (name, request) => callOperation(engine, name, request)],
  [
    'over HTTP',
    (engine) => {
      const send = wireCalls(engine)
      return async (name, request) => {
        const schema: z.ZodType = schemas[name].request
        const response = await send(name, z.encode(schema, request) as Wire)
        return z.decode(schemas[name].response as z.ZodType, response) as never
      }
    },
  ],
]

export type Wire = Readonly<Record<string, unknown>>

/** Undefined if no URL can express the call; throws a {@link Refusal}. */
export type WireCall = (name: CallableOperation, wire: Wire) => Promise<unknown>

/** Calls operations with raw wire values, valid or not. */
export function wireCalls(engine: Engine): WireCall {
  const caller = { tenant: 'local', principal: 'local' }
  const handler = createHttpHandler(engine, { authenticate: staticTokens({ token: caller }) })
  return async (name, wire) => {
    const request = requestOf(name, wire)
    if (request === undefined) return undefined
    const response = await handler.fetch(request)
    const body: unknown = await response.json()
    if (response.ok) return body
    throw new Refusal(response.status, body as Status)
  }
}

/** The request for a call; undefined if no URL can express it. */
export function requestOf(
  name: OperationName,
  wire: Wire,
  origin = 'http://localhost',
  token = 'token',
): Request | undefined {
  const { method, path, query = [] }: Operation = operations[name]
  const rest: Record<string, unknown> = { ...wire }
  let possible = true
  const encode = (value: unknown): string => {
    if (typeof value !== 'string' || !value.isWellFormed()) possible = false
    return possible ? encodeURIComponent(value as string) : ''
  }
  const url = path.replaceAll(/\{(\w+)\}/g, (_, key: string) => {
    const value = rest[key]
    delete rest[key]
    return encode(value)
  })
  const parameters: string[] = []
  for (const key of query) {
    const value = rest[key]
    delete rest[key]
    if (value === undefined) continue
    const values: unknown[] = Array.isArray(value) ? value : [value]
    for (const one of values) {
      const text = typeof one === 'number' || typeof one === 'boolean' ? String(one) : one
      parameters.push(`${key}=${encode(text)}`)
    }
  }
  const target = `${url}${parameters.length === 0 ? '' : `?${parameters.join('&')}`}`
  // Servers reject longer targets before they read them.
  if (!possible || target.length > maxHeaderSize) return undefined
  const hasBody = method !== 'GET' && method !== 'DELETE'
  return new Request(`${origin}${target}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(hasBody && { 'content-type': 'application/json' }) },
    ...(hasBody && { body: JSON.stringify(rest) }),
  })
}
