import { EngineError } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { isObjectId } from '../objects/object-id.js'
import { boundTalk, delimiterPacket, flushPacket, packet, PacketReader, packetText } from './pkt-line.js'
import { remoteError } from './remote-errors.js'
import type { RemoteRefs } from '../repository.js'
import type { Advertisement, SmartConnection } from './smart-connection.js'

type AdvertisementV1 = Extract<Advertisement, { version: 1 }>
type AdvertisementV2 = Extract<Advertisement, { version: 2 }>

/** Lists the refs whose names start with one of the prefixes, or all refs if there are no prefixes. */
export async function listRefs(
  connection: SmartConnection,
  prefixes: readonly string[],
  onBytes: (count: number) => void,
): Promise<RemoteRefs> {
  const { advertisement } = connection
  return advertisement.version === 2
    ? listRefsV2(connection, advertisement, prefixes, onBytes)
    : advertisedRefs(advertisement, prefixes)
}

export interface FetchRequest {
  readonly want: string
  /** Known commits in the object format of `want`, with their whole trees but without their history. */
  readonly haves: readonly string[]
  onBytes(count: number): void
}

/**
 * Fetches `want` at depth 1 as a pack, without the objects in the trees of `haves`. A remote without shallow
 * fetch sends the whole history. It receives no `haves`, because it would assume that their history is known
 * too.
 */
export async function* fetchPack(
  connection: SmartConnection,
  request: FetchRequest,
): AsyncGenerator<Buffer, void, undefined> {
  const { advertisement } = connection
  const { want, haves } = request
  yield* bounded(
    advertisement.version === 2
      ? fetchV2(connection, advertisement, want, depthOneOf(advertisement, haves))
      : fetchV1(connection, advertisement, want, haves),
    request,
  )
}

/**
 * Fetches a commit and those before it since a time as a pack, without trees and blobs. Undefined if the remote does not
 * support that.
 */
export function fetchHistory(
  connection: SmartConnection,
  request: Pick<FetchRequest, 'want' | 'onBytes'> & { readonly sinceSeconds: number },
): AsyncIterable<Buffer> | undefined {
  const { advertisement } = connection
  const { want, sinceSeconds } = request
  if (advertisement.version !== 2 || !['shallow', 'filter'].every((name) => canFetch(advertisement, name)))
    return undefined
  const lines = [packet(`deepen-since ${sinceSeconds}\n`), packet('filter tree:0\n')]
  return bounded(fetchV2(connection, advertisement, want, lines), request)
}

async function* bounded(
  pack: AsyncIterable<Buffer>,
  request: Pick<FetchRequest, 'onBytes'>,
): AsyncGenerator<Buffer, void, undefined> {
  let length = 0
  for await (const part of pack) {
    length += part.length
    if (length > gitLimits.packBytes) {
      throw new EngineError('GIT_TOO_LARGE', `the pack is over ${gitLimits.packBytes} bytes`, {
        limit: String(gitLimits.packBytes),
      })
    }
    request.onBytes(part.length)
    yield part
  }
}

async function listRefsV2(
  connection: SmartConnection,
  advertisement: AdvertisementV2,
  prefixes: readonly string[],
  onBytes: (count: number) => void,
): Promise<RemoteRefs> {
  const unborn = advertisement.capabilities.get('ls-refs')?.split(' ').includes('unborn') === true
  const reader = new PacketReader(
    await connection.post([
      packet('command=ls-refs\n'),
      ...commonArguments(advertisement),
      delimiterPacket,
      packet('peel\n'),
      packet('symrefs\n'),
      ...(unborn ? [packet('unborn\n')] : []),
      ...prefixes.map((prefix) => packet(`ref-prefix ${prefix}\n`)),
      flushPacket,
    ]),
  )
  const refs = new Map<string, string>()
  const symrefs = new Map<string, string>()
  const peeled = new Map<string, string>()
  const bound = boundTalk()
  for (;;) {
    const line = await reader.read()
    bound(line)
    if (line === undefined) throw cut()
    if (line === 'flush') break
    if (typeof line === 'string') continue
    onBytes(line.length)
    const text = packetText(line)
    if (text.startsWith('ERR ')) throw remoteError(text.slice(4))
    const [oid = '', name = '', ...attributes] = text.split(' ')
    if (oid !== 'unborn') refs.set(name, checkedId(oid))
    for (const attribute of attributes) {
      if (attribute.startsWith('symref-target:')) symrefs.set(name, attribute.slice(14))
      if (attribute.startsWith('peeled:')) peeled.set(name, checkedId(attribute.slice(7)))
    }
  }
  await reader.close()
  return { refs, symrefs, peeled }
}

/** Returns the refs from the advertisement of protocol 0 or 1. */
export function advertisedRefs(advertisement: AdvertisementV1, prefixes: readonly string[]): RemoteRefs {
  const refs = new Map<string, string>()
  const peeled = new Map<string, string>()
  for (const [name, oid] of advertisement.refs) {
    // A shallow remote, or one with alternates, also sends lines that are not refs.
    if (name !== 'HEAD' && !name.startsWith('refs/')) continue
    if (prefixes.length > 0 && !prefixes.some((prefix) => name.startsWith(prefix))) continue
    if (name.endsWith('^{}')) peeled.set(name.slice(0, -3), checkedId(oid))
    else refs.set(name, checkedId(oid))
  }
  return { refs, symrefs: advertisement.symrefs, peeled }
}

async function* fetchV2(
  connection: SmartConnection,
  advertisement: AdvertisementV2,
  want: string,
  lines: readonly Buffer[],
): AsyncGenerator<Buffer, void, undefined> {
  const reader = new PacketReader(
    await connection.post([
      packet('command=fetch\n'),
      ...commonArguments(advertisement),
      delimiterPacket,
      packet('no-progress\n'),
      packet('ofs-delta\n'),
      packet(`want ${want}\n`),
      ...lines,
      packet('done\n'),
      flushPacket,
    ]),
  )
  try {
    // A client that fetches depth 1 does not need the sections before the pack.
    const bound = boundTalk()
    for (;;) {
      const line = await reader.read()
      bound(line)
      if (line === undefined || line === 'flush') throw cut()
      if (typeof line === 'string') continue
      const text = packetText(line)
      if (text.startsWith('ERR ')) throw remoteError(text.slice(4))
      if (text === 'packfile') break
    }
    yield* sideBand(reader)
  } finally {
    await reader.close()
  }
}

async function* fetchV1(
  connection: SmartConnection,
  advertisement: AdvertisementV1,
  want: string,
  haves: readonly string[],
): AsyncGenerator<Buffer, void, undefined> {
  const { capabilities } = advertisement
  const shallow = capabilities.has('shallow')
  const wanted = ['side-band-64k', 'ofs-delta', 'no-progress', 'shallow', 'object-format=sha256']
  if (shallow && haves.length > 0) wanted.push('thin-pack')
  const asked = wanted.filter((name) => capabilities.has(name))
  const reader = new PacketReader(
    await connection.post([
      packet(`want ${want} ${asked.join(' ')}\n`),
      ...(shallow ? atDepthOne(haves) : []),
      flushPacket,
      ...(shallow ? haveLines(haves) : []),
      packet('done\n'),
    ]),
  )
  try {
    // The list of shallow commits ends with a flush. The pack starts after NAK, or after ACK for one of
    // `haves`.
    const bound = boundTalk()
    for (;;) {
      const line = await reader.read()
      bound(line)
      if (line === undefined) throw cut()
      if (typeof line === 'string') continue
      const text = packetText(line)
      if (text.startsWith('ERR ')) throw remoteError(text.slice(4))
      if (text === 'NAK' || text.startsWith('ACK ')) break
    }
    if (capabilities.has('side-band-64k')) yield* sideBand(reader)
    else yield* reader.rest()
  } finally {
    await reader.close()
  }
}

function depthOneOf(advertisement: AdvertisementV2, haves: readonly string[]): Buffer[] {
  if (!canFetch(advertisement, 'shallow')) return []
  return [...(haves.length > 0 ? [packet('thin-pack\n')] : []), ...atDepthOne(haves), ...haveLines(haves)]
}

function canFetch({ capabilities }: AdvertisementV2, feature: string): boolean {
  return capabilities.get('fetch')?.split(' ').includes(feature) === true
}

function atDepthOne(haves: readonly string[]): Buffer[] {
  return [...haves.map((oid) => packet(`shallow ${oid}\n`)), packet('deepen 1\n')]
}

function haveLines(haves: readonly string[]): Buffer[] {
  return haves.map((oid) => packet(`have ${oid}\n`))
}

/** Yields the data band up to the flush. Throws on a packet of the error band. */
async function* sideBand(reader: PacketReader): AsyncGenerator<Buffer, void, undefined> {
  const bound = boundTalk()
  for (;;) {
    const line = await reader.read()
    if (line === 'flush') return
    if (line === undefined) throw cut()
    if (typeof line !== 'string' && line[0] === 1 && line.length > 1) {
      yield line.subarray(1)
      continue
    }
    bound(line)
    if (typeof line !== 'string' && line[0] === 3) throw remoteError(line.toString('utf8', 1))
  }
}

function commonArguments(advertisement: AdvertisementV2): Buffer[] {
  const { capabilities, format } = advertisement
  return capabilities.has('object-format') ? [packet(`object-format=${format}\n`)] : []
}

function checkedId(oid: string): string {
  if (isObjectId(oid)) return oid
  throw new EngineError('GIT_CORRUPT', 'the remote listed a ref without an id')
}

function cut(): EngineError {
  return new EngineError('GIT_CORRUPT', 'the response of the remote is incomplete')
}
