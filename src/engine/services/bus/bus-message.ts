import { Buffer } from 'node:buffer'
import { formatTime } from '../../base/environment.js'
import { limits } from '../../base/limits.js'
import { decodeSeq, encodeSeq } from '../../storage/keys.js'
import type { BusMessage, Publication } from './bus-requests.js'
import { busMessageKind, type MessageRecord } from '../../records/bus-message.js'

/** A kept message, shared by all subscribers. */
export interface KeptMessage extends Publication {
  /** Starts at 1, and has no gaps. */
  readonly seq: number
  readonly messageId: string
  readonly senderId: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

export function newMessage(
  { topic, payload }: Publication,
  { seq, senderId, at }: { readonly seq: number; readonly senderId: string; readonly at: number },
): KeptMessage {
  return { seq, messageId: encodeSeq(seq), topic, payload, senderId, at }
}

export function toRecord({ messageId, topic, payload, senderId, at }: KeptMessage): MessageRecord {
  const { buffer, byteOffset, byteLength } = payload
  const base64 = Buffer.from(buffer, byteOffset, byteLength).toString('base64')
  return { messageId, topic, payload: base64, senderId, at }
}

export function fromRecord(json: string, key: string): KeptMessage {
  const { messageId, topic, payload, senderId, at } = busMessageKind.parse(json, key)
  const bytes = new Uint8Array(Buffer.from(payload, 'base64'))
  return { seq: decodeSeq(messageId), messageId, topic, payload: bytes, senderId, at }
}

/**
 * A subscriber's own copy of a message, which it may change. A large payload is copied when it is first read.
 * If many subscribers wait for one message, only those that read the payload have a copy of it.
 */
export function show(message: KeptMessage, sessionId: string): BusMessage {
  const { messageId, topic, payload, senderId, at } = message
  const large = payload.byteLength > limits.busCopiedBytes
  const shown = {
    messageId,
    sessionId,
    topic,
    payload: large ? payload : new Uint8Array(payload),
    senderId,
    publishedAt: formatTime(at),
  }
  if (!large) return shown
  const own = (value: Uint8Array): Uint8Array => {
    // If the subscriber froze the message, this does nothing, and each read returns a new copy.
    Reflect.defineProperty(shown, 'payload', { value, writable: true, enumerable: true, configurable: true })
    return value
  }
  return Object.defineProperty(shown, 'payload', {
    get: () => own(new Uint8Array(payload)),
    set: own,
    enumerable: true,
    configurable: true,
  })
}
