import { Buffer } from 'node:buffer'
import { EngineError } from '../base/errors.js'
import { sha256 } from '../base/hash.js'
import { keys } from '../storage/keys.js'
import type { Core } from '../session/core.js'
import type { GitObject, GitObjects } from './git-ports.js'

interface GitObjectRecord {
  readonly type: GitObject['type']
  readonly hash: string
  readonly size: number
}

/** Raw git objects in the store: a record by object id that names the blob. */
export function gitObjects(core: Core): GitObjects {
  return {
    async get(oid) {
      const json = await core.store.get(keys.gitObject(core.tenantKey, oid))
      if (json === undefined) return undefined
      const { type, hash, size } = JSON.parse(json) as GitObjectRecord
      const body = await core.store.blob(hash, { offset: 0, length: size })
      if (body?.byteLength !== size)
        throw new EngineError('DATA_LOSS', `git object ${oid} is missing or short`, { hash })
      return { oid, type, body }
    },
    async put(objects) {
      const put: [string, GitObjectRecord][] = []
      const blobs: { hash: string; bytes: Uint8Array }[] = []
      for (const { oid, type, body } of objects) {
        const bytes = Buffer.from(body)
        const hash = sha256(bytes)
        put.push([keys.gitObject(core.tenantKey, oid), { type, hash, size: bytes.length }])
        blobs.push({ hash, bytes })
      }
      await core.store.commit({ put, blobs })
    },
  }
}
