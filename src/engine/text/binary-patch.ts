/** The form of git for changes of binary files, which `git apply` accepts. */
import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { deflate } from 'node:zlib'

/** Of one side; the other side of a new or deleted file is undefined. */
export interface BinarySides {
  readonly before: Uint8Array | undefined
  readonly after: Uint8Array | undefined
}

/** The lines of a patch after its head: the ids of both contents, then both contents. */
export async function binaryPatch({ before, after }: BinarySides): Promise<string> {
  const ids = `index ${blobId(before)}..${blobId(after)}\n`
  return `${ids}GIT binary patch\n${await literal(after)}\n${await literal(before)}\n`
}

const noBlob = '0'.repeat(40)

function blobId(bytes: Uint8Array | undefined): string {
  if (bytes === undefined) return noBlob
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')
}

const bytesPerLine = 52
const noBytes = new Uint8Array()

async function literal(bytes: Uint8Array = noBytes): Promise<string> {
  const packed = await deflateBytes(bytes)
  const lines = [`literal ${bytes.length}\n`]
  for (let at = 0; at < packed.length; at += bytesPerLine) {
    const part = packed.subarray(at, at + bytesPerLine)
    lines.push(lengthLetter(part.length), base85(part), '\n')
  }
  return lines.join('')
}

/** `A` to `Z` for 1 to 26 bytes, then `a` to `z`. */
function lengthLetter(length: number): string {
  return String.fromCharCode(length <= 26 ? 64 + length : 70 + length)
}

function deflateBytes(bytes: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    deflate(bytes, (error, packed) => {
      if (error === null) resolve(packed)
      else reject(error)
    })
  })
}

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~'

/** Five digits for each four bytes. Zeros fill up the last four. */
function base85(part: Uint8Array): string {
  const padded = Buffer.alloc(Math.ceil(part.length / 4) * 4)
  padded.set(part)
  const text: string[] = []
  for (let at = 0; at < padded.length; at += 4) {
    let value = padded.readUInt32BE(at)
    let group = ''
    for (let i = 0; i < 5; i++) {
      group = digits.charAt(value % digits.length) + group
      value = Math.floor(value / digits.length)
    }
    text.push(group)
  }
  return text.join('')
}
