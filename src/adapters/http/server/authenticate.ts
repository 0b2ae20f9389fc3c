import { Buffer } from 'node:buffer'
import { hash, timingSafeEqual } from 'node:crypto'
import { given, invalid, kindOf, readEntries, Shape, type Caller } from '../../../engine/index.js'
import type { HttpRequest } from './http-messages.js'
import { HttpError } from '../http-error.js'

/**
 * Returns the caller to whom a token belongs, or undefined for an unknown token. If it throws, the client
 * gets `INTERNAL`. `request` has the URL and headers, but no body.
 */
export type Authenticate = (
  token: string,
  request: Request,
) => Caller | undefined | Promise<Caller | undefined>

/** The parts of a request from which its caller is found. */
type AuthenticatedRequest = Pick<HttpRequest, 'header' | 'request'>

const bearer = /^Bearer +([A-Za-z\d._~+/-]+=*)$/i

const basic = /^Basic +([A-Za-z\d+/]+=*)$/i

/**
 * Returns the caller of a request. The result is a promise only if the hook returns one.
 *
 * @throws HttpError `UNAUTHENTICATED`, with the same message for a missing and an unknown token.
 */
export function callerOf(
  httpRequest: AuthenticatedRequest,
  authenticate: Authenticate,
): Caller | Promise<Caller> {
  return callerOfToken(bearerToken(httpRequest), httpRequest, authenticate)
}

/** Like {@link callerOf}, for clients that send the token as the password of Basic authentication. */
export function callerOfBasic(
  httpRequest: AuthenticatedRequest,
  authenticate: Authenticate,
): Caller | Promise<Caller> {
  return callerOfToken(bearerToken(httpRequest) ?? passwordOf(httpRequest), httpRequest, authenticate)
}

function bearerToken(httpRequest: AuthenticatedRequest): string | undefined {
  return bearer.exec(httpRequest.header('authorization') ?? '')?.[1]
}

/** The password, or without one the user name, as in `https://<token>@host`. */
function passwordOf(httpRequest: AuthenticatedRequest): string | undefined {
  const encoded = basic.exec(httpRequest.header('authorization') ?? '')?.[1]
  if (encoded === undefined) return undefined
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  const colon = text.indexOf(':')
  const password = colon < 0 ? '' : text.slice(colon + 1)
  const token = password === '' ? text.slice(0, Math.max(colon, 0)) : password
  return bearer.test(`Bearer ${token}`) ? token : undefined
}

function callerOfToken(
  token: string | undefined,
  httpRequest: AuthenticatedRequest,
  authenticate: Authenticate,
): Caller | Promise<Caller> {
  if (token === undefined) throw unauthenticated()
  // Creating a Request costs more than the rest of this function, and most hooks take only the token.
  const caller =
    authenticate.length === 1 ? (authenticate as OfToken)(token) : authenticate(token, httpRequest.request())
  return caller instanceof Promise ? caller.then(known) : known(caller)
}

const callerShape = new Shape<Caller>({ tenant: true, principal: true })

type OfToken = (token: string) => ReturnType<Authenticate>

function known(caller: Caller | null | undefined): Caller {
  if (caller === undefined || caller === null) throw unauthenticated()
  return caller
}

/**
 * Creates an {@link Authenticate} for a fixed set of tokens. It keeps only their hashes. The token of each
 * request is compared with all of them in constant time, so that the response time reveals nothing about the
 * tokens.
 *
 * @throws {EngineError} INVALID_ARGUMENT when a token cannot be sent in a header, or a caller is invalid
 *
 * @example
 * createHttpHandler(engine, { authenticate: staticTokens({ [token]: { tenant: 'acme', principal: 'ann' } }) })
 */
export function staticTokens(tokens: Readonly<Record<string, Caller>>): Authenticate {
  if (Array.isArray(tokens) || typeof tokens !== 'object' || tokens === null) {
    const kind = Array.isArray(tokens) ? 'an array' : kindOf(tokens)
    throw invalid('tokens', `must be an object of callers by their tokens; it is ${kind}`)
  }
  const entries = readEntries('tokens', tokens, 'must be an object of callers by their tokens').map(
    ([token, caller]) => {
      // A token is a secret, so no error shows it.
      if (typeof caller === 'string')
        throw invalid(
          'tokens',
          `must have callers such as { tenant: 'acme', principal: 'ann' }; one is a string`,
        )
      const { tenant, principal } = callerShape.readPart(caller as Caller, 'tokens')
      if (!bearer.test(`Bearer ${token}`))
        throw invalid('tokens', 'a token may contain only letters, digits and -._~+/, and = at its end')
      if (typeof tenant !== 'string')
        throw invalid('tokens.tenant', `must be a string; it is ${given(tenant)}`)
      if (typeof principal !== 'string')
        throw invalid('tokens.principal', `must be a string; it is ${given(principal)}`)
      return { hash: hashOf(token), caller: { tenant, principal } }
    },
  )
  return (token) => {
    const given = hashOf(token)
    let found: Caller | undefined
    for (const one of entries) if (timingSafeEqual(one.hash, given)) found = one.caller
    return found
  }
}

function hashOf(token: string): Uint8Array {
  return hash('sha256', token, 'buffer')
}

function unauthenticated(): HttpError {
  return new HttpError('UNAUTHENTICATED', 'the request has no valid bearer token')
}
