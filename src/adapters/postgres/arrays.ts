/** PostgreSQL's binary form of arrays. As text, each byte would take two or three characters. */

const byteaType = 17
const headerBytes = 20
const lengthBytes = 4

/** An array of bytea. Strings are stored in UTF-8. */
export function byteaArray(values: readonly (string | Uint8Array)[]): Buffer {
  let size = headerBytes
  for (const value of values) size += lengthBytes + sizeOf(value)
  const array = Buffer.allocUnsafe(size)
  array.writeInt32BE(1, 0) // dimensions
  array.writeInt32BE(0, 4) // no null
  array.writeInt32BE(byteaType, 8)
  array.writeInt32BE(values.length, 12)
  array.writeInt32BE(1, 16) // the first index
  let at = headerBytes
  for (const value of values) {
    const length =
      typeof value === 'string'
        ? array.write(value, at + lengthBytes, 'utf8')
        : copyTo(array, value, at + lengthBytes)
    array.writeInt32BE(length, at)
    at += lengthBytes + length
  }
  return array
}

/** The size of a value as bytea, in bytes. */
export function sizeOf(value: string | Uint8Array): number {
  return typeof value === 'string' ? Buffer.byteLength(value) : value.byteLength
}

function copyTo(array: Buffer, value: Uint8Array, at: number): number {
  array.set(value, at)
  return value.byteLength
}

/** An array of UUIDs, as text. */
export function uuidArray(ids: readonly string[]): string {
  return `{${ids.join(',')}}`
}
