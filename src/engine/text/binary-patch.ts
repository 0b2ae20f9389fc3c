/** The form of git for changes of binary files, which `git apply` accepts. */
import type { Buffer } from 'node:buffer'
import { deflate } from 'node:zlib'
import { base85Lines } from './base85.js'
import { gitBlobId } from './git-blob-id.js'

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
  return bytes === undefined ? noBlob : gitBlobId(bytes)
}

const noBytes = new Uint8Array()

async function literal(bytes: Uint8Array = noBytes): Promise<string> {
  const lines = base85Lines(await deflateBytes(bytes))
  return `literal ${bytes.length}\n${lines.map((line) => `${line}\n`).join('')}`
}

function deflateBytes(bytes: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    deflate(bytes, (error, packed) => {
      if (error === null) resolve(packed)
      else reject(error)
    })
  })
}
