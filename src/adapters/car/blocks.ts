import { Buffer } from 'node:buffer'
import { hash as hashOf } from 'node:crypto'
import * as json from 'multiformats/codecs/json'
import * as raw from 'multiformats/codecs/raw'
import { CID } from 'multiformats/cid'
import { create } from 'multiformats/hashes/digest'
import { sha256 } from 'multiformats/hashes/sha2'
import { EngineError, type BundleBlock } from '../../engine/ports.js'

const codecs = { raw: raw.code, json: json.code } as const
const hashBytes = 32

export function cidOf(kind: BundleBlock['kind'], hash: string): CID {
  return CID.createV1(codecs[kind], create(sha256.code, Buffer.from(hash, 'hex')))
}

/**
 * Returns the kind and the hash of a block, given its CID. Throws INVALID_BUNDLE for a CID that `cidOf`
 * cannot produce.
 */
export function describeCid({ version, code, multihash }: CID): Omit<BundleBlock, 'bytes'> {
  if (version !== 1 || multihash.code !== sha256.code || multihash.digest.byteLength !== hashBytes)
    throw refused('a block does not have a SHA-256 hash')
  if (code !== codecs.raw && code !== codecs.json) throw refused('a block has a codec other than raw or json')
  return { kind: code === codecs.raw ? 'raw' : 'json', hash: Buffer.from(multihash.digest).toString('hex') }
}

export function checkHash(hash: string, bytes: Uint8Array): void {
  if (hashOf('sha256', bytes) !== hash) throw refused('the bytes of a block do not match its hash')
}

export function refused(message: string, options?: ErrorOptions): EngineError {
  return new EngineError(
    'INVALID_BUNDLE',
    `the content is not a bundle: ${message}. Pass the bytes that session.exportBundle() returned.`,
    {},
    options,
  )
}
