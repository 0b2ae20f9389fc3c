import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { deflateSync } from 'node:zlib'

export type ObjectFormat = 'sha1' | 'sha256'

/** Writes a loose object, as `git hash-object -w --literally` does, and returns its id. */
export function writeLooseObject(
  objectsDirectory: string,
  format: ObjectFormat,
  type: 'blob' | 'tree' | 'commit',
  body: Uint8Array,
): string {
  const whole = Buffer.concat([Buffer.from(`${type} ${body.length}\0`), body])
  const oid = createHash(format).update(whole).digest('hex')
  const file = join(objectsDirectory, oid.slice(0, 2), oid.slice(2))
  if (existsSync(file)) return oid
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, deflateSync(whole, { level: 1 }), { mode: 0o444 })
  return oid
}
