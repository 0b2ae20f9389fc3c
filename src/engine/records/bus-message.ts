import { isNumber, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** A message as stored, as JSON. */
export interface MessageRecord {
  readonly messageId: string
  readonly topic: string
  /** In base64. */
  readonly payload: string
  readonly senderId: string
  readonly at: number
}

export const busMessageKind = new RecordKind<MessageRecord>({
  name: 'bus message',
  prefix: keyPrefixes.busMessage,
  scope: 'session',
  bundle: { absent: 'messages are not part of the history' },
  checks: { messageId: isText, topic: isText, payload: isText, senderId: isText, at: isNumber },
})
