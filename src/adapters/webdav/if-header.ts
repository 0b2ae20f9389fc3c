import { badRequest } from './dav-error.js'
import { webdavLimits } from './limits.js'

/** One condition of the header `If`: that a lock covers the resource, or that the resource has an ETag. */
export interface Condition {
  readonly isNegated: boolean
  readonly kind: 'token' | 'etag'
  readonly value: string
}

/** Conditions that must all be true, for the resource of a tag, or of the request. */
export interface ConditionList {
  readonly tag: string | undefined
  readonly conditions: readonly Condition[]
}

/** A URL in angle brackets, an ETag in square brackets, or a mark. Each character is looked at once. */
const piece = /[ \t]*(?:<([^<>]*)>|\[((?:W\/)?"[^"\]]*")\]|(\(|\)|Not(?![A-Za-z])))[ \t]*/iy

/**
 * The lists of the header `If`, of which one must be true.
 *
 * @throws DavError for a header that does not have the form of RFC 4918
 */
export function parseIf(header: string): readonly ConditionList[] {
  const lists: ConditionList[] = []
  let tag: string | undefined
  let conditions: Condition[] | undefined
  let isNegated = false
  let count = 0
  piece.lastIndex = 0
  while (piece.lastIndex < header.length) {
    const [, url, etag, mark] = piece.exec(header) ?? []
    if (mark === '(' && conditions === undefined) conditions = []
    else if (mark === ')' && conditions !== undefined && conditions.length > 0 && !isNegated) {
      lists.push({ tag, conditions })
      conditions = undefined
    } else if (mark?.toLowerCase() === 'not' && conditions !== undefined && !isNegated) isNegated = true
    else if (url !== undefined && conditions === undefined) tag = url
    else if ((url ?? etag) !== undefined && conditions !== undefined) {
      const value = url ?? etag ?? ''
      conditions.push({ isNegated, kind: url === undefined ? 'etag' : 'token', value })
      isNegated = false
      if (++count > webdavLimits.conditions)
        throw badRequest(`if: has over ${webdavLimits.conditions} conditions`)
    } else throw badRequest('if: does not have the form of RFC 4918, such as (<urn:uuid:…>)')
  }
  if (conditions !== undefined || lists.length === 0)
    throw badRequest('if: does not have the form of RFC 4918, such as (<urn:uuid:…>)')
  return lists
}

/** The tokens that a client submits. */
export function tokensOf(lists: readonly ConditionList[]): ReadonlySet<string> {
  const tokens = new Set<string>()
  for (const { conditions } of lists)
    for (const { kind, isNegated, value } of conditions) if (kind === 'token' && !isNegated) tokens.add(value)
  return tokens
}
