import { sha256 } from '../base/hash.js'
import type { BlobRef } from '../cas/blob.js'

/** Extended attributes, in the order of their names' code units. A list is never empty and never changes. */
export type Xattrs = readonly Xattr[]

export type Xattr = readonly [name: string, value: BlobRef]

export function findXattr(xattrs: Xattrs | undefined, name: string): BlobRef | undefined {
  return xattrs?.find(([known]) => known === name)?.[1]
}

/** Sets the value of a name, or removes the name if `value` is undefined. */
export function withXattr(
  xattrs: Xattrs | undefined,
  name: string,
  value: BlobRef | undefined,
): Xattrs | undefined {
  const next: Xattr[] = (xattrs ?? []).filter(([known]) => known !== name)
  if (value !== undefined) next.push([name, value])
  next.sort(([a], [b]) => (a < b ? -1 : 1))
  return next.length === 0 ? undefined : next
}

/** The hash of the attributes in hex: their part in manifestHash. */
export function hashXattrs(xattrs: Xattrs): string {
  return sha256(xattrs.map(([name, value]) => `${value.hash} ${name}\0`).join(''))
}

export function sameXattrs(a: Xattrs | undefined, b: Xattrs | undefined): boolean {
  if (a === b) return true
  if (a === undefined || b === undefined || a.length !== b.length) return false
  return a.every(([name, value], i) => name === b[i]?.[0] && value.hash === b[i][1].hash)
}
