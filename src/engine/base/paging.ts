import { Buffer } from 'node:buffer'
import { invalid } from './errors.js'
import { given } from './input.js'
import { limits } from './limits.js'
import { Shape } from './shape.js'

/** The page of a listing to read. */
export interface PageRequest {
  /** Entries per page, 1 to 10,000. 0 or absent: 1,000. A larger number is reduced to 10,000. */
  readonly pageSize?: number
  /** `nextPageToken` of the previous page; empty or absent for the first page. */
  readonly pageToken?: string
}

export const pageNames = { pageSize: true, pageToken: true } as const

export const pageShape = new Shape<PageRequest>(pageNames)

export function parsePageSize(pageSize: number | undefined): number {
  if (pageSize === undefined || pageSize === 0) return limits.pageSizeDefault
  if (!Number.isSafeInteger(pageSize) || pageSize < 0)
    throw invalid('pageSize', `must be a whole number from 0; it is ${given(pageSize)}`)
  return Math.min(pageSize, limits.pageSizeMax)
}

/**
 * Makes a page token. It contains the last key of its page, so it stays valid while data changes. It also
 * contains the name of its listing, and other listings reject it.
 */
export function encodePageToken(listing: string, lastKey: string): string {
  return Buffer.from(JSON.stringify([listing, lastKey])).toString('base64url')
}

/** The last key of the previous page; undefined for the first page. */
export function parsePageToken(listing: string, token: string | undefined): string | undefined {
  if (token === undefined || token === '') return undefined
  let parsed: unknown
  try {
    // Only a string is a token, although `Buffer.from` also accepts a list of bytes.
    if (typeof token === 'string') parsed = JSON.parse(Buffer.from(token, 'base64url').toString())
  } catch {
    parsed = undefined
  }
  if (
    !Array.isArray(parsed) ||
    parsed.length !== 2 ||
    parsed[0] !== listing ||
    typeof parsed[1] !== 'string'
  ) {
    throw invalid(
      'pageToken',
      'is not a page token of this listing: pass the nextPageToken of the previous page, or omit it',
    )
  }
  return parsed[1]
}
