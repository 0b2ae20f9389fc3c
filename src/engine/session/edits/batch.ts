import { admitChange } from '../usage/session-bytes.js'
import { invalid } from '../../base/errors.js'
import { Fault, releaseAll, whenLoadedHolding } from '../../base/fault.js'
import { given, oneOf, readList, tooLarge } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { limits } from '../../base/limits.js'
import { TimeSlice } from '../../base/cooperative.js'
import type { BlobRef } from '../../cas/blob.js'
import { StagedContent, type StagedBlobs } from '../../cas/staging.js'
import { BorrowedBlobs } from './borrowed.js'
import { Compaction } from './compaction.js'
import type { Core } from '../core.js'
import { eventTypes, type Redo } from '../../records/event.js'
import { deleteShape, planDelete, type DeleteRequest } from './delete.js'
import type { LiveSession } from '../table/live.js'
import type { Plan, PlanState, PlanStep } from './plan.js'
import { areMany, PlannedSteps } from './planned-steps.js'
import {
  isConflict,
  planSegments,
  segmentWriteShape,
  StagedSegments,
  type SegmentWriteRequest,
} from './segments.js'
import { apply } from '../apply.js'
import {
  applyLive,
  commitEvent,
  eventTime,
  lookInOrder,
  mutate,
  record,
  withRollback,
  type NewEvent,
  unchanged,
} from '../mutation-queue.js'
import { planWrite, writeShape, type WriteOptions, type WriteRequest } from './writes.js'

/** One step of `session.files.batch`: pass exactly one of the three fields. */
export interface BatchOperation {
  /** Writes a whole file. */
  readonly write?: WriteRequest
  /** Deletes a file or symlink. */
  readonly delete?: DeleteRequest
  /** Changes ranges of a file. */
  readonly segmentWrite?: SegmentWriteRequest
}

/** The effect of an `expectedHash` that does not match, in `session.files.patchSegments`. */
export const SegmentConflictPolicy = {
  /** The call fails with HASH_MISMATCH and changes nothing. */
  ABORT_ON_CONFLICT: 'SEGMENT_CONFLICT_POLICY_ABORT_ON_CONFLICT',
  /** The call skips that file and lists it in `skippedPaths`. */
  SKIP_ON_CONFLICT: 'SEGMENT_CONFLICT_POLICY_SKIP_ON_CONFLICT',
} as const
/** One of the values of {@link SegmentConflictPolicy}. */
export type SegmentConflictPolicy = (typeof SegmentConflictPolicy)[keyof typeof SegmentConflictPolicy]

/** The request of `session.files.patchSegments`. */
export interface PatchSegmentsRequest {
  /** The changes by file, at most 10,000 files with 100,000 chunks together. Later ones see earlier ones. */
  readonly mutations: readonly SegmentWriteRequest[]
  /** The effect of an `expectedHash` that does not match: `ABORT_ON_CONFLICT` by default. */
  readonly conflictPolicy?: SegmentConflictPolicy
}

const stepOptions: WriteOptions = { parents: 'create', exclusive: false, isStep: true }

const operationShape = new Shape<BatchOperation>({ write: true, delete: true, segmentWrite: true })

const patchShape = new Shape<PatchSegmentsRequest>({ mutations: true, conflictPolicy: true })

/**
 * Carries out all steps in order, as one event. Later steps see the results of earlier ones. Readers see all
 * steps or none, and so does the store after a crash. If a step fails, nothing changes. `describe` is called
 * when all steps are planned. A function that returns the steps may throw a Fault. Many steps take several turns of the
 * event loop.
 */
export async function applyPlans(
  core: Core,
  live: LiveSession,
  given: readonly PlanStep[] | (() => readonly PlanStep[]),
  describe: () => Pick<NewEvent, 'type' | 'details'>,
): Promise<void> {
  let lookedAhead = false
  using planned = new PlannedSteps(core, live)
  await mutate(core, live, () => {
    const steps = typeof given === 'function' ? given() : given
    const effects = areMany(steps) ? planned.effectsOf(steps) : undefined
    if (effects !== undefined)
      return record(core, live, effects.redo.length === 0 ? undefined : { ...effects, ...describe() })
    try {
      return applyPlansNow(core, live, steps, describe)
    } catch (thrown) {
      if (!(thrown instanceof Fault) || lookedAhead) throw thrown
      lookedAhead = true
      const held: Fault[] = []
      throw new Fault(
        () => lookAhead(core, live, steps, { fault: thrown, held }),
        () => releaseAll(held),
      )
    }
  })
}

/**
 * Loads everything that the steps need from the state before the first step. Otherwise each fault would run
 * all steps again.
 */
async function lookAhead(
  core: Core,
  live: LiveSession,
  steps: readonly PlanStep[],
  { fault, held }: { readonly fault: Fault; readonly held: Fault[] },
): Promise<void> {
  await whenLoadedHolding(() => undefined, held, fault)
  const slice = new TimeSlice(core.environment)
  for (const step of steps) {
    // Errors of a step appear later, when it is that step's turn.
    await whenLoadedHolding(() => step(live), held).catch(() => undefined)
    if (slice.over) await slice.next()
  }
}

/** Like {@link applyPlans}, inside a mutation. */
export function applyPlansNow(
  core: Core,
  live: LiveSession,
  steps: readonly PlanStep[],
  describe: () => Pick<NewEvent, 'type' | 'details'>,
): Promise<void> {
  return withRollback(live, () => {
    const at = eventTime(core, live)
    const redo: Redo[] = []
    const blobs = new Set<BlobRef>()
    for (const step of steps) {
      const plan = step(live)
      for (const effect of plan?.redo ?? []) {
        applyLive(core, live, effect, at)
        redo.push(effect)
      }
      for (const blob of plan?.blobs ?? []) blobs.add(blob)
    }
    if (redo.length === 0) return unchanged(core, live)
    const event = { redo, blobs: [...blobs], ...describe() }
    if (core.store.admit !== undefined) admitChange(core, live, event)
    return commitEvent(core, live, event, at)
  })
}

/** Plans all steps, like {@link applyPlans}, and changes nothing. */
export async function tryPlans(
  core: Core,
  live: LiveSession,
  given: () => readonly PlanStep[],
): Promise<void> {
  using planned = new PlannedSteps(core, live)
  await lookInOrder(live, () => {
    const steps = given()
    if (areMany(steps) && planned.effectsOf(steps) !== undefined) return
    const before = live.tree.freeze()
    try {
      const at = eventTime(core, live)
      for (const step of steps)
        for (const effect of step(live)?.redo ?? []) if (effect[0] !== 'R') apply(live.tree, effect, at, core)
    } finally {
      live.tree.reset(before)
    }
  })
}

/** Writes, deletions and segment writes, checked and with their contents copied. */
export class Batch {
  readonly #paths: string[] = []
  readonly #steps: PlanStep[] = []
  /** Whether it borrows content that the session or its base has already. */
  readonly borrows: boolean

  constructor(core: Core, operations: readonly BatchOperation[]) {
    const list = readList('operations', operations, limits.batchOperations, 'operations')
    const segments = new SegmentSteps(core)
    for (const [index, operation] of list.entries()) {
      const field = `operations[${index}]`
      const named = operationShape.readPart(operation as BatchOperation, field)
      const { write, delete: deletion, segmentWrite } = Object.keys(named).length === 1 ? named : {}
      if (write !== undefined) {
        const copy = writeShape.readPart(write, `${field}.write`)
        const staged = new StagedContent(copy.content, core, `${field}.write.content`)
        segments.staged.push(staged)
        copy.content = ''
        this.#add(copy.path, (state) => planWrite(core, state, copy, staged, stepOptions))
      } else if (deletion !== undefined) {
        const copy = deleteShape.readPart(deletion, `${field}.delete`)
        this.#add(copy.path, (state) => planDelete(core, state, copy))
      } else if (segmentWrite !== undefined) {
        const { path, step } = segments.step(segmentWrite, `${field}.segmentWrite`)
        this.#add(path, step)
      } else throw invalid(field, oneOf(named, 'write, delete, segmentWrite'))
    }
    this.borrows = segments.borrows
  }

  apply(core: Core, live: LiveSession): Promise<void> {
    return applyPlans(core, live, this.#steps, () => ({
      type: eventTypes.applyBatch,
      details: { operationCount: this.#steps.length, paths: this.#paths.slice(0, limits.pathsInDetails) },
    }))
  }

  #add(path: string, step: PlanStep): void {
    this.#paths.push(path)
    this.#steps.push(step)
  }
}

/** Segment writes to several files, checked and with their data copied. */
export class SegmentPatch {
  readonly #steps: PlanStep[]
  readonly #paths: string[]
  /** The indexes of the mutations that were skipped. */
  readonly #skipped = new Set<number>()
  /** Like {@link Batch.borrows}. */
  readonly borrows: boolean

  constructor(core: Core, request: PatchSegmentsRequest) {
    const { mutations, conflictPolicy = SegmentConflictPolicy.ABORT_ON_CONFLICT } = patchShape.read(request)
    const list = readList('mutations', mutations, limits.batchOperations, 'mutations')
    if (!Object.values(SegmentConflictPolicy).includes(conflictPolicy))
      throw invalid(
        'conflictPolicy',
        `must be one of ${Object.values(SegmentConflictPolicy).join(', ')}; it is ${given(conflictPolicy)}`,
      )
    const segments = new SegmentSteps(core)
    this.#paths = []
    this.#steps = list.map((mutation, index) => {
      const { path, step } = segments.step(mutation as SegmentWriteRequest, `mutations[${index}]`)
      this.#paths.push(path)
      return conflictPolicy === SegmentConflictPolicy.SKIP_ON_CONFLICT ? this.#skipping(index, step) : step
    })
    this.borrows = segments.borrows
  }

  async apply(core: Core, live: LiveSession): Promise<{ skippedPaths: string[] }> {
    await applyPlans(core, live, this.#steps, () => ({
      type: eventTypes.patchSegments,
      details: {
        paths: this.#pathsOf((index) => !this.#skipped.has(index)).slice(0, limits.pathsInDetails),
        skippedPaths: this.#skippedPaths().slice(0, limits.pathsInDetails),
      },
    }))
    return { skippedPaths: this.#skippedPaths() }
  }

  #skippedPaths(): string[] {
    return this.#pathsOf((index) => this.#skipped.has(index))
  }

  #pathsOf(wanted: (index: number) => boolean): string[] {
    return [...new Set(this.#paths.filter((_, index) => wanted(index)))]
  }

  #skipping(index: number, step: PlanStep): PlanStep {
    const plan = (state: PlanState): Plan => {
      this.#skipped.delete(index)
      try {
        return step(state)
      } catch (thrown) {
        if (!isConflict(thrown)) throw thrown
        this.#skipped.add(index)
        return undefined
      }
    }
    return Object.assign(plan, { changes: step.changes })
  }
}

/** The segment writes of one request. They share one limit, and can borrow from each other. */
class SegmentSteps {
  readonly staged: StagedBlobs[] = []
  readonly #core: Core
  readonly #wanted: string[] = []
  #borrowed: BorrowedBlobs | undefined
  #chunks = 0

  constructor(core: Core) {
    this.#core = core
  }

  get borrows(): boolean {
    return this.#wanted.length > 0
  }

  step(request: SegmentWriteRequest, field: string): { readonly path: string; readonly step: PlanStep } {
    const copy = segmentWriteShape.readPart(request, field)
    const staged = new StagedSegments(copy, this.#core, field)
    this.#chunks += staged.requested
    if (this.#chunks > limits.segments) throw tooLarge(`${field}.segments`, 'chunks', limits.segments)
    this.staged.push(staged)
    for (const hash of staged.borrowed) this.#wanted.push(hash)
    copy.segments = []
    const compaction = new Compaction(this.#core, staged)
    const plan = (state: PlanState): Plan => {
      // All steps are known when the first one is planned.
      const borrowed = (this.#borrowed ??= new BorrowedBlobs(this.#wanted, this.staged))
      return planSegments(this.#core, state, copy, { staged, borrowed, compaction })
    }
    return { path: copy.path, step: Object.assign(plan, { changes: Math.max(1, staged.chunks.length) }) }
  }
}
