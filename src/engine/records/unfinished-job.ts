import { isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/**
 * Exists as long as an import job is queued or running. The value is the key of the job. On a shared store, a newline and
 * the id of the engine that runs the job follow.
 */
export const unfinishedJobKind = new RecordKind<string>({
  name: 'unfinished job',
  prefix: keyPrefixes.unfinishedJob,
  scope: 'tenant',
  isPlain: true,
  checks: isText,
  references: (value, _key, to) => to.record(runOf(value).jobKey),
})

/** The key of a job, and the id of the engine that runs it, if several may. */
export function runOf(value: string): { readonly jobKey: string; readonly engineId: string | undefined } {
  const [jobKey = '', engineId] = value.split('\n')
  return { jobKey, engineId }
}

export function encodeRun(jobKey: string, engineId: string | undefined): string {
  return engineId === undefined ? jobKey : `${jobKey}\n${engineId}`
}
