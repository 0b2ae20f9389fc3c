import { keys } from '../../storage/keys.js'
import { scanAll } from '../../storage/scan-all.js'
import type { Baseline } from '../../records/baseline.js'
import { lineageKind, type LineageRecord } from '../../records/lineage.js'
import type { Redo } from '../../records/event.js'
import type { Core } from '../core.js'
import type { LiveSession } from '../table/live.js'
import type { LineageStep } from './lineage-step.js'

/** The steps of a session, oldest first, even of a deleted one. */
export async function lineageOf(core: Core, sessionId: string): Promise<readonly LineageStep[]> {
  const live = core.table.live.get(sessionId)
  if (live?.lineage !== undefined) return live.lineage
  await live?.acknowledged.catch(() => undefined)
  const isStored = live?.pending === 0
  const { epoch, addedSteps } = live ?? {}
  const steps: LineageStep[] = []
  for await (const page of scanAll(core, keys.lineages(sessionId)))
    for (const [key, json] of page) steps.push(lineageKind.parse(json, key))
  // Another call may have loaded them first, or a change may have come meanwhile, perhaps from another engine.
  const isWhole = isStored && live.epoch === epoch && live.addedSteps === addedSteps
  if (isWhole && live.lineage === undefined) live.lineage = steps
  return live?.lineage ?? steps
}

/** The baseline that a session had after an event. */
export async function baselineAfter(core: Core, live: LiveSession, seq: number): Promise<Baseline> {
  // A rebase that comes during the read may be missing in the steps.
  const { baseline } = live.record
  const steps = await lineageOf(core, live.id)
  const rebase = steps.find((step) => step.seq > seq && step.before !== undefined)
  return rebase?.before ?? baseline
}

/** Adds a step to a session in memory. Returns its record for the commit of its event. */
export function addStep(live: LiveSession, step: LineageStep): [string, LineageRecord] {
  live.addedSteps++
  live.lineage?.push(step)
  const { tree: _, ...record } = step
  return [keys.lineage(live.id, step.seq), record]
}

/** The step of an event that restores an earlier state. */
export function restoreStep(seq: number, redo: readonly Redo[]): LineageStep | undefined {
  const first = redo[0]
  return first?.[0] === 'R' ? { seq, restored: first[1] } : undefined
}
