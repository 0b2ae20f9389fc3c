import { invalid, TimeSlice, type Clock, type EngineError } from '../../engine/ports.js'
import { isObjectId, PacketReader, packetText, type ObjectFormat } from '../git/parts.js'
import { gitServerLimits } from './limits.js'
import { malformed } from './request.js'

/** The wishes of a client, in both versions of the protocol. */
export interface FetchRequest {
  readonly wants: ReadonlySet<string>
  /** Commits that the client has. */
  readonly haves: ReadonlySet<string>
  /** Commits that the client has without their parents. */
  readonly shallow: ReadonlySet<string>
  /** The number of commits from the newest one on; 0: all. */
  readonly depth: number
  /** Whether `depth` counts from the commits in `shallow`. */
  readonly isRelative: boolean
  /** Whether the client waits for a pack, and not for an answer about `haves`. */
  readonly isDone: boolean
  /** Whether the client waits for an answer about `haves`. Without it, it waits for the list of shallow commits. */
  readonly asksCommon: boolean
  readonly sideBand: boolean
  /**
   * Whether answers in version 0 name each common commit. Otherwise, a client that has more commits than fit into its
   * first request cannot find the end of an answer over HTTP.
   */
  readonly multiAck: boolean
}

export interface RefsRequest {
  /** Prefixes of the names of refs. Empty: all refs. */
  readonly prefixes: readonly string[]
  readonly symrefs: boolean
  readonly unborn: boolean
}

export type RequestV2 =
  | ({ readonly command: 'ls-refs' } & RefsRequest)
  | ({ readonly command: 'fetch' } & FetchRequest)
  /** The client has closed the conversation. */
  | { readonly command: 'none' }

class FetchArguments {
  readonly wants = new Set<string>()
  readonly haves = new Set<string>()
  readonly shallow = new Set<string>()
  depth = 0
  isRelative = false
  isDone = false
  asksCommon = true
  sideBand = true
  multiAck = false

  /** Reads one argument. @returns false for an unknown one */
  take(text: string): boolean {
    const [name = '', value = ''] = text.split(' ')
    if (name === 'want') this.#add(this.wants, value, gitServerLimits.wants)
    else if (name === 'have') this.#add(this.haves, value, gitServerLimits.haves)
    else if (name === 'shallow') this.#add(this.shallow, value, gitServerLimits.haves)
    else if (name === 'deepen') this.depth = depthOf(value)
    else if (text === 'deepen-relative') this.isRelative = true
    else if (text === 'done') this.isDone = true
    else return false
    return true
  }

  #add(ids: Set<string>, id: string, limit: number): void {
    if (!isObjectId(id)) throw malformed(`${shown(id)} is not the id of an object`)
    ids.add(id)
    if (ids.size > limit) throw malformed(`there are over ${limit} ids of one kind`)
  }
}

/** Reads a request of version 2. */
export async function readRequestV2(
  body: AsyncIterable<Uint8Array>,
  format: ObjectFormat,
  clock: Clock,
): Promise<RequestV2> {
  const reader = new PacketReader(body, malformed)
  const first = await reader.read()
  if (first === undefined || first === 'flush') return { command: 'none' }
  const command = typeof first === 'string' ? '' : packetText(first)
  if (command !== 'command=ls-refs' && command !== 'command=fetch')
    throw malformed(`${shown(command)} is not a command; there are ls-refs and fetch`)
  for (;;) {
    const line = await reader.read()
    if (line === undefined || line === 'end') throw malformed('the request is cut off')
    if (line === 'delimiter') break
    if (line === 'flush') return command === 'command=fetch' ? fetchOf(new FetchArguments()) : refsOf([])
    checkFormat(packetText(line), format)
  }
  const lines: string[] = []
  const fetch = new FetchArguments()
  // Many long requests that arrive together would stop the event loop.
  const slice = new TimeSlice(clock)
  for (;;) {
    if (slice.over) await slice.next()
    const line = await reader.read()
    if (line === undefined || line === 'end' || line === 'delimiter')
      throw malformed('the request is cut off')
    if (line === 'flush') break
    const text = packetText(line)
    if (command === 'command=ls-refs') {
      lines.push(text)
      if (lines.length > gitServerLimits.refPrefixes) throw malformed('there are too many prefixes of refs')
    } else if (!fetch.take(text) && !ignored.has(text)) throw unknownArgument(text)
  }
  await reader.close()
  return command === 'command=fetch' ? fetchOf(fetch) : refsOf(lines)
}

const ignored: ReadonlySet<string> = new Set(['thin-pack', 'no-progress', 'include-tag', 'ofs-delta'])

/** Reads a request of version 0. Undefined if the client wants nothing. */
export async function readRequestV0(
  body: AsyncIterable<Uint8Array>,
  format: ObjectFormat,
  clock: Clock,
): Promise<FetchRequest | undefined> {
  const reader = new PacketReader(body, malformed)
  const request = new FetchArguments()
  request.sideBand = false
  let flushes = 0
  const slice = new TimeSlice(clock)
  for (let isFirst = true; ;) {
    if (slice.over) await slice.next()
    const line = await reader.read()
    if (line === undefined) break
    if (line === 'flush') {
      if (isFirst) return undefined
      flushes++
      continue
    }
    if (typeof line === 'string') throw malformed()
    const text = packetText(line)
    const [, id, , named = ''] = /^want ([\da-f]+)( (.*))?$/.exec(text) ?? []
    if (id !== undefined && isFirst) {
      const asked = named.split(' ')
      request.sideBand = asked.includes('side-band-64k')
      request.multiAck = asked.includes('multi_ack_detailed')
      request.isRelative = asked.includes('deepen-relative')
      for (const name of asked) checkFormat(name, format)
    }
    if (!request.take(id === undefined ? text : `want ${id}`)) throw unknownArgument(text)
    isFirst = false
    if (request.isDone) break
    if (flushes > gitServerLimits.haves) throw malformed('there are too many packets')
  }
  await reader.close()
  if (request.wants.size === 0) throw malformed('the request wants no commit')
  request.asksCommon = flushes > 1
  return request
}

function fetchOf(request: FetchArguments): RequestV2 {
  const { wants, haves, shallow, depth, isRelative, isDone, asksCommon, sideBand, multiAck } = request
  if (wants.size === 0) throw malformed('the request wants no commit')
  return {
    command: 'fetch',
    wants,
    haves,
    shallow,
    depth,
    isRelative,
    isDone,
    asksCommon,
    sideBand,
    multiAck,
  }
}

function refsOf(lines: readonly string[]): RequestV2 {
  const prefixes = lines.filter((line) => line.startsWith('ref-prefix ')).map((line) => line.slice(11))
  return {
    command: 'ls-refs',
    prefixes,
    symrefs: lines.includes('symrefs'),
    unborn: lines.includes('unborn'),
  }
}

function checkFormat(capability: string, format: ObjectFormat): void {
  if (capability.startsWith('object-format=') && capability !== `object-format=${format}`)
    throw malformed(`the repository has ids of ${format}`)
}

function depthOf(text: string): number {
  const depth = Number(text)
  if (/^\d{1,10}$/.test(text) && depth > 0) return depth
  throw malformed(`${shown(text)} is not a depth`)
}

/** Clients send arguments that this server does not know, such as for `--shallow-since`. */
function unknownArgument(text: string): EngineError {
  const [name = ''] = text.split(' ')
  return invalid('body', `${shown(name)} is not supported by this server`)
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, gitServerLimits.shownLength))
}
