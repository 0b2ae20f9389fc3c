import { invalid } from '../base/errors.js'
import { checkRequest, tooLarge } from '../base/input.js'
import { limits } from '../base/limits.js'
import type { BlobRef } from '../cas/blob.js'
import { StagedContent } from '../cas/staging.js'
import type { Core } from './core.js'
import { eventTypes, type Redo } from './events.js'
import { planDelete, type DeleteRequest } from './files.js'
import type { LiveSession } from './live.js'
import type { Plan } from './plan.js'
import { applyLive, commitEvent, eventTime, mutate, withRollback } from './transaction.js'
import { planWrite, type WriteRequest } from './writes.js'

/** Exactly one of the two. */
export type BatchOperation = { readonly write: WriteRequest } | { readonly delete: DeleteRequest }

const pathsInDetails = 100

/**
 * Carries out all operations in order, later ones seeing earlier ones, as one atomic step: readers, a crash
 * and an error of any of them leave all or nothing.
 */
export function applyBatch(core: Core, live: LiveSession, steps: readonly BatchStep[]): Promise<void> {
  return mutate(core, live, () =>
    withRollback(live, () => {
      const at = eventTime(core, live)
      const redo: Redo[] = []
      const blobs: BlobRef[] = []
      for (const step of steps) {
        const plan = step.plan(live)
        for (const effect of plan?.redo ?? []) {
          applyLive(core, live, effect, at)
          redo.push(effect)
        }
        for (const blob of plan?.blobs ?? []) blobs.push(blob)
      }
      if (redo.length === 0) return Promise.resolve()
      const details = {
        operationCount: steps.length,
        paths: steps.slice(0, pathsInDetails).map(({ path }) => path),
      }
      return commitEvent(core, live, { type: eventTypes.applyBatch, details, redo, blobs }, at)
    }),
  )
}

/** An operation that was checked, with its content copied. */
export interface BatchStep {
  readonly path: string
  plan(live: LiveSession): Plan
}

export function parseBatch(core: Core, operations: readonly BatchOperation[]): BatchStep[] {
  if (!Array.isArray(operations)) throw invalid('operations', 'must be an array')
  if (operations.length > limits.batchOperations)
    throw tooLarge('operations', 'operations', limits.batchOperations)
  return operations.map((operation: BatchOperation, index) => {
    const keys = typeof operation === 'object' && operation !== null ? Object.keys(operation) : []
    if (keys.length === 1 && 'write' in operation) {
      const write = { ...operation.write }
      checkRequest(operation.write, `operations[${index}].write`)
      const staged = new StagedContent(write.content, core)
      return { path: write.path, plan: (live) => planWrite(core, live, write, staged) }
    }
    if (keys.length === 1 && 'delete' in operation) {
      const request = { ...operation.delete }
      checkRequest(operation.delete, `operations[${index}].delete`)
      return { path: request.path, plan: (live) => planDelete(core, live, request) }
    }
    throw invalid(`operations[${index}]`, 'must have exactly one of the keys write, delete')
  })
}
