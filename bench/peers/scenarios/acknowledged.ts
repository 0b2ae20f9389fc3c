import type { Files, Store } from '../contender.js'
import type { Acknowledged } from '../messages.js'
import { makeDirectories, repeat, sampleFiles, type Plan } from './scenario.js'

const most = 400
const seed = 11

/** Writes files until all are acknowledged or the time of a round is over. The process is killed after the answer. */
export async function keepWriting(store: Store, plan: Plan): Promise<Acknowledged> {
  const workspace = await store.create()
  const files = acknowledgedFiles(Math.min(most, plan.count))
  await makeDirectories(workspace, files)
  const done = await repeat(plan, files.length, (number) => workspace.write!(...files[number]!))
  return { workspace: workspace.id!, files: done }
}

/** The first files of the same list, whatever their number. */
export function acknowledgedFiles(count: number): Files {
  return sampleFiles(most, seed).slice(0, count)
}
