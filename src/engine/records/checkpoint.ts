import { isCount, isNumber, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

export interface CheckpointRecord {
  readonly id: string
  readonly seq: number
  readonly label: string
  readonly createdAt: number
}

export const checkpointKind = new RecordKind<CheckpointRecord>({
  name: 'checkpoint',
  prefix: keyPrefixes.checkpoint,
  scope: 'session',
  bundle: { text: 'checkpoints' },
  checks: { id: isText, seq: isCount, label: isText, createdAt: isNumber },
})
