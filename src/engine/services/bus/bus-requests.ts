import { invalid } from '../../base/errors.js'
import { parseTextGlob, type TextGlob } from '../../base/glob.js'
import { parseSize, parseText, tooLarge, readList, given } from '../../base/input.js'
import { checkSignal } from '../../base/abort.js'
import { Shape } from '../../base/shape.js'
import { limits } from '../../base/limits.js'
import { copyBytes } from '../../cas/blob.js'
import { toBytes } from '../../cas/staging.js'
import { decodeSeq, seqWidth } from '../../storage/keys.js'

/** The values of a subscription's scope. */
export const BusScope = {
  /** Messages of one session. There is no other scope. */
  SESSION_ONLY: 'SESSION_ONLY',
} as const
/** One of the values of {@link BusScope}. */
export type BusScope = (typeof BusScope)[keyof typeof BusScope]

/** The request of `session.bus.publish`. */
export interface BusPublishRequest {
  /** The topic, 1 to 1,024 bytes. It has no structure: `tests:done` is one name. */
  readonly topic: string
  /** The content of the message, at most 1 MiB. A string is sent as UTF-8. Bytes are copied at the call. */
  readonly payload: Uint8Array | string
}

/** A message as a subscriber receives it. Each subscriber gets its own copy, including the payload. */
export interface BusMessage {
  /** The id of the message. The ids of a session sort in the order of the messages. */
  readonly messageId: string
  /** The id of the session. */
  readonly sessionId: string
  /** The topic of the message. */
  readonly topic: string
  /** The content of the message. A string arrives as its UTF-8 bytes. */
  readonly payload: Uint8Array
  /** The principal that published the message. */
  readonly senderId: string
  /** RFC 3339 time in UTC; never before the time of an earlier message. */
  readonly publishedAt: string
}

/**
 * Selects the messages of a subscription. If there are neither topics nor patterns, it gets every message. If
 * there are both, it gets each message that matches one of them, once.
 */
export interface BusSubscribeRequest {
  /** Exact topics, at most 256; none by default. */
  readonly topics?: readonly string[]
  /**
   * Globs, at most 256; none by default. `*` matches any characters, including none, `:`, `/` and `.`, because a topic
   * has no parts. `?` matches one code point. `[...]`, `{a,b}`, `{1..3}`, `@(a|b)`, `?( )`, `*( )` and `+( )` are
   * alternatives. A backslash escapes the next character. Case counts.
   */
  readonly topicPatterns?: readonly string[]
  /** The only scope, which is also the default. */
  readonly scope?: BusScope
  /**
   * Replays at most this many of the stored messages that match, the newest ones. 0, the default without
   * `replayAfterMessageId`, replays none.
   */
  readonly replayLimit?: number
  /**
   * Replays the stored messages that match and come after this one; `replayLimit` keeps the newest of them. An id that
   * the session does not have counts by its position in the order of ids.
   */
  readonly replayAfterMessageId?: string
  /** Ends the subscription with the signal's reason. */
  readonly signal?: AbortSignal
}

const publishShape = new Shape<BusPublishRequest>({ topic: true, payload: true })

const subscribeShape = new Shape<BusSubscribeRequest>({
  topics: true,
  topicPatterns: true,
  scope: true,
  replayLimit: true,
  replayAfterMessageId: true,
  signal: true,
})

export interface Publication {
  readonly topic: string
  /** Not shared with the caller. It may be a view of a larger buffer. */
  readonly payload: Uint8Array
}

/** The topics and patterns of a subscription. */
export interface BusQuery {
  readonly topics: ReadonlySet<string>
  readonly patterns: readonly TextGlob[]
  /** undefined if nothing is replayed. */
  readonly replay: { readonly after: number; readonly limit: number } | undefined
}

export function parsePublication(request: BusPublishRequest): Publication {
  const { topic, payload } = publishShape.read(request)
  const limit = limits.busPayloadBytes
  if (typeof payload === 'string') parseText('payload', payload, limit)
  const bytes = toBytes(payload, 'payload')
  if (bytes.byteLength > limit) throw tooLarge('payload', 'bytes', limit)
  return { topic: parseTopic('topic', topic), payload: copyBytes(bytes) }
}

export function parseQuery(request: BusSubscribeRequest): {
  readonly query: BusQuery
  readonly signal: AbortSignal | undefined
} {
  const { topics, topicPatterns, scope, replayLimit, replayAfterMessageId, signal } =
    subscribeShape.read(request)
  if (scope !== undefined && scope !== BusScope.SESSION_ONLY)
    throw invalid('scope', `must be ${Object.values(BusScope).join()}; it is ${given(scope)}`)
  checkSignal(signal)
  const after = replayAfterMessageId === undefined ? undefined : parseMessageId(replayAfterMessageId)
  const limit = replayLimit === undefined ? undefined : parseSize('replayLimit', replayLimit)
  const replayed = (limit === undefined && after !== undefined) || (limit ?? 0) > 0
  const query: BusQuery = {
    topics: parseTopics('topics', topics),
    patterns: parsePatterns(topicPatterns),
    replay: replayed ? { after: after ?? 0, limit: limit ?? Number.POSITIVE_INFINITY } : undefined,
  }
  return { query, signal }
}

function parsePatterns(patterns: readonly string[] | undefined): readonly TextGlob[] {
  let size = 0
  return Array.from(parseTopics('topicPatterns', patterns), (pattern) => {
    const glob = parseTextGlob(pattern, 'topicPatterns')
    size += glob.size
    if (size > limits.busPatternSize) throw tooLarge('topicPatterns', 'signs', limits.busPatternSize)
    return glob
  })
}

function parseTopics(field: string, topics: readonly string[] | undefined): ReadonlySet<string> {
  if (topics === undefined) return new Set()
  const given = readList(field, topics, limits.busTopics, 'entries')
  return new Set(given.map((one, index) => parseTopic(`${field}[${index}]`, one)))
}

function parseTopic(field: string, topic: unknown): string {
  const text = parseText(field, topic, limits.busTopicBytes)
  if (text === '') throw invalid(field, 'must not be empty')
  return text
}

function parseMessageId(messageId: unknown): number {
  if (typeof messageId !== 'string' || messageId.length !== seqWidth || !/^[0-9a-z]+$/.test(messageId))
    throw invalid('replayAfterMessageId', `must be the messageId of a message; it is ${given(messageId)}`)
  return decodeSeq(messageId)
}
