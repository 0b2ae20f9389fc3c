import type { JsonValue } from '../../engine/index.js'
/** Parsers for the arguments and option values of the command line. */
import { UsageError } from './failure.js'

/** Parses `key=value` pairs. The object has no prototype, so that keys such as `__proto__` are ordinary. */
export function parsePairs(option: string, pairs: readonly string[] = []): Record<string, string> {
  const parsed = Object.create(null) as Record<string, string>
  for (const pair of pairs) {
    const at = pair.indexOf('=')
    if (at < 1) throw new UsageError(`${option} takes key=value, but got '${pair}'`)
    parsed[pair.slice(0, at)] = pair.slice(at + 1)
  }
  return parsed
}

/** Parses `key=value` pairs whose values are JSON, such as `turn=3`. Other values are text. */
export function parseValues(option: string, pairs: readonly string[]): Record<string, JsonValue> {
  const values = Object.create(null) as Record<string, JsonValue>
  for (const [key, text] of Object.entries(parsePairs(option, pairs))) values[key] = parseValue(text)
  return values
}

function parseValue(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    return text
  }
}

/** A parsed `<session>:<path>`. The path starts at the root, even without a leading slash. */
export interface FileReference {
  readonly session: string
  readonly path: string
}

export function parseFileReference(text: string): FileReference {
  const reference = parsePlace(text)
  if (/^\/+$/.test(reference.path))
    throw new UsageError(
      `a file must have the form <session>:<path>, with a path such as /src/a.ts, but got '${text}'`,
    )
  return reference
}

/** Parses `<session>` or `<session>:<path>`. The path is `/` by default. */
export function parsePlace(text: string): FileReference {
  const at = text.indexOf(':')
  const session = at < 0 ? text : text.slice(0, at)
  const path = at < 0 ? '/' : text.slice(at + 1)
  return { session: parseId(session, 'session'), path: path.startsWith('/') ? path : `/${path}` }
}

/**
 * Parses `<session>:<path>`, or a `<path>` in the session of the first argument. The path starts at the root.
 */
export function parseDestination(text: string): { readonly session?: string; readonly path: string } {
  if (text.startsWith('/')) return { path: text }
  return text.includes(':') ? parsePlace(text) : { path: `/${text}` }
}

export function parseId(text: string, kind: 'session' | 'source' | 'checkpoint'): string {
  if (text === '') throw new UsageError(`the id of a ${kind} is missing`)
  return text
}

export function parseMode(text: string): number {
  if (!/^[0-7]{1,4}$/.test(text)) throw new UsageError(`a mode must be octal, such as 644, but got '${text}'`)
  return Number.parseInt(text, 8)
}

export function parsePort(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new UsageError(`a port must be a number from 0 to 65535, but got '${text}'`)
  return Number(text)
}

/** Parses an author, such as `Ada Lovelace <ada@example.org>`. */
export function parseAuthor(text: string): { name: string; email: string } {
  const [, name, email] = /^([^<>]*[^<>\s])\s*<([^<>\s]+)>$/.exec(text.trim()) ?? []
  if (name === undefined || email === undefined)
    throw new UsageError(`an author must have the form 'Name <email>', but got '${text}'`)
  return { name, email }
}

/** Parses `<tenant>/<principal>`. */
export function parseCaller(text: string): { tenant: string; principal: string } {
  const at = text.indexOf('/')
  const tenant = text.slice(0, at)
  const principal = text.slice(at + 1)
  if (at < 1 || principal === '')
    throw new UsageError(`a caller must have the form <tenant>/<principal>, but got '${text}'`)
  return { tenant, principal }
}

/** The form of a bearer token. */
const tokenPattern = /^[A-Za-z0-9._~+/-]+=*$/

export interface TokenGrant {
  readonly token: string
  readonly caller: { readonly tenant: string; readonly principal: string }
}

/**
 * Parses `<token>` or `<token>@<tenant>/<principal>`. Tenant and principal are `local` by default. Errors do
 * not show the text, because it may be a secret.
 */
export function parseToken(text: string, where: string): TokenGrant {
  const at = text.indexOf('@')
  const token = at < 0 ? text : text.slice(0, at)
  if (!tokenPattern.test(token)) {
    throw new UsageError(
      `${where}: must be <token> or <token>@<tenant>/<principal>; a token can contain letters, digits and . _ ~ + / -, and = at its end`,
    )
  }
  if (at < 0) return { token, caller: { tenant: 'local', principal: 'local' } }
  const [, tenant, principal] = /^([^/]+)\/(.+)$/s.exec(text.slice(at + 1)) ?? []
  if (tenant === undefined || principal === undefined)
    throw new UsageError(`${where}: the part after @ must be <tenant>/<principal>`)
  return { token, caller: { tenant, principal } }
}

/** Parses a key of 32 bytes, as 64 hex digits or in base64. Errors do not show the text. */
export function parseMasterKey(text: string, where: string): Uint8Array {
  const trimmed = text.trim()
  if (/^[0-9a-f]{64}$/i.test(trimmed)) return Buffer.from(trimmed, 'hex')
  if (/^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)) {
    const key = Buffer.from(trimmed, 'base64')
    // The last digit has two bits that must be zero. Any other digit means a truncated or mistyped key.
    if (key.length === 32 && key.toString('base64url') === asUrlSafe(trimmed)) return key
  }
  throw new UsageError(`${where}: a master key is 32 bytes, in hex or base64`)
}

function asUrlSafe(base64: string): string {
  return base64.replaceAll('+', '-').replaceAll('/', '_').replace('=', '')
}
