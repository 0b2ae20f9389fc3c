import { isCount, isNumber, isObject, isOptional, isText } from '../base/checks.js'
import { reviveJsonObject, type JsonObject } from '../base/json-object.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

export interface CheckpointRecord {
  readonly id: string
  readonly seq: number
  readonly label: string
  readonly createdAt: number
  /** Absent if it has none. */
  readonly metadata?: JsonObject
}

export const checkpointKind = new RecordKind<CheckpointRecord>({
  name: 'checkpoint',
  prefix: keyPrefixes.checkpoint,
  scope: 'session',
  bundle: { text: 'checkpoints' },
  checks: { id: isText, seq: isCount, label: isText, createdAt: isNumber, metadata: isOptional(isObject) },
  revive: (record) =>
    record.metadata === undefined ? record : { ...record, metadata: reviveJsonObject(record.metadata) },
})
