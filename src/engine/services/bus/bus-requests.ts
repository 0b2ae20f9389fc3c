import { invalid } from '../../base/errors.js'
import { parseTextGlob, type TextGlob } from '../../base/glob.js'
import { parseSize, parseText, tooLarge, readList, given } from '../../base/input.js'
import { checkSignal } from '../../base/abort.js'
import { Shape } from '../../base/shape.js'
import { limits } from '../../base/limits.js'
import { copyBytes } from '../../cas/blob.js'
import { toBytes } from '../../cas/staging.js'
import { decodeSeq, seqWidth } from '../../storage/keys.js'

export const BusScope = { SESSION_ONLY: 'SESSION_ONLY' } as const
export type BusScope = (typeof BusScope)[keyof typeof BusScope]

export interface BusPublishRequest {
  /** Not empty; at most 1,024 bytes. */
  readonly topic: string
  /** At most 1 MiB; a string is sent as UTF-8. Copied at the call. */
  readonly payload: Uint8Array | string
}

/** A message as a subscriber gets it; it is the subscriber's own, payload included. */
export interface BusMessage {
  /** Sorts in the order of the session's messages. */
  readonly messageId: string
  readonly sessionId: string
  readonly topic: string
  readonly payload: Uint8Array
  /** The principal that published it. */
  readonly senderId: string
  /** RFC 3339; never before that of the message before it. */
  readonly publishedAt: string
}

/** Without topics and patterns: every message. With both: messages that either matches, once each. */
export interface BusSubscribeRequest {
  /** Exact; at most 256. */
  readonly topics?: readonly string[]
  /**
   * Globs, at most 256. `*` matches any run of characters, the empty one and one with `:`, `/` or `.` in it
   * included: a topic has no parts. `?` matches one code point; `[...]`, `{a,b}`, `{1..3}`, `@(a|b)`, `?( )`,
   * `*( )` and `+( )` are alternatives; a backslash escapes the next character, and case counts.
   */
  readonly topicPatterns?: readonly string[]
  /** There is no other, and it is the default. */
  readonly scope?: BusScope
  /** The newest so many of the kept messages that match come first; 0: none of them. */
  readonly replayLimit?: number
  /**
   * All kept messages that match and come after this one come first; with `replayLimit` the newest so many of
   * these. An id that the session does not have takes the place that its order gives it.
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
  /** Not shared with the caller; its memory may be part of a larger buffer. */
  readonly payload: Uint8Array
}

/** The topics and patterns of a subscription. */
export interface BusQuery {
  readonly topics: ReadonlySet<string>
  readonly patterns: readonly TextGlob[]
  /** Undefined where nothing is to be replayed. */
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
