import { EngineError } from '../base/errors.js'
import { Fault } from '../base/fault.js'
import { limits } from '../base/limits.js'
import { TimeSlice } from '../base/slices.js'
import { applyPlansNow } from '../session/edits/batch.js'
import { eventTypes } from '../records/event.js'
import type { LiveSession } from '../session/table/live.js'
import type { Plan } from '../session/edits/plan.js'
import { mutate } from '../session/mutation-queue.js'
import type { Context } from './calls.js'
import { CopyWalk, type CopyStep } from './copy-walk.js'
import { toCopyOptions } from './copy-options.js'
import { givenPath } from './plain-path.js'
import { takeCallback, deliver, type FsFunction } from './drivers.js'
import { toSystemError } from './errors.js'

const pathsInDetails = 100

function prepare(context: Context, src: unknown, dest: unknown, options: unknown): CopyWalk {
  const settings = toCopyOptions(options)
  const from = givenPath(src, 'src')
  return new CopyWalk(context, { src: from, dest: givenPath(dest, 'dest') }, settings)
}

/**
 * The whole source is looked at before anything is copied; then everything is one event, or one for each
 * 10,000 steps. A copied file shares its content with its source.
 */
async function copyLater({ access, core }: Context, walk: CopyWalk): Promise<void> {
  try {
    const work = walk.run(await access.reading('fs.read'))
    const slice = new TimeSlice(core.environment)
    for (let answer: unknown; ;) {
      const { done, value } = work.next(answer)
      if (done === true) break
      answer = value.kind === 'pause' ? undefined : await value.result
      if (slice.over) await slice.next()
    }
    for (const steps of batches(walk.steps)) {
      await access.run('fs.write', (live) => mutate(core, live, () => apply(core, live, steps)))
    }
  } catch (thrown) {
    throw toSystemError(thrown, walk.names)
  }
}

function copyNow({ access, core }: Context, walk: CopyWalk): void {
  try {
    const work = walk.run(access.liveSync('fs.read'))
    for (let answer: unknown; ;) {
      const { done, value } = work.next(answer)
      if (done === true) break
      if (value.result instanceof Promise) {
        value.result.catch(() => undefined)
        throw value.kind === 'load' ? notLoaded() : notABoolean(value.result)
      }
      answer = value.result
    }
    for (const steps of batches(walk.steps)) access.changeSync('fs.write', (live) => apply(core, live, steps))
  } catch (thrown) {
    throw toSystemError(thrown instanceof Fault ? notLoaded() : thrown, walk.names)
  }
}

export function cpForms(contexts: (form: Context['form']) => Context): Record<Context['form'], FsFunction> {
  const [later, now, calledBack] = [contexts('promise'), contexts('sync'), contexts('callback')]
  return {
    promise: async (src, dest, options) => copyLater(later, prepare(later, src, dest, options)),
    sync: (src, dest, options) => copyNow(now, prepare(now, src, dest, options)),
    callback: (...parameters) => {
      const callback = takeCallback(parameters)
      const [src, dest, options] = parameters
      deliver(copyLater(calledBack, prepare(calledBack, src, dest, options)), callback)
    },
  }
}

function* batches(steps: readonly CopyStep[]): Generator<readonly CopyStep[]> {
  for (let start = 0; start < steps.length; start += limits.batchOperations)
    yield steps.slice(start, start + limits.batchOperations)
}

function apply(core: Context['core'], live: LiveSession, steps: readonly CopyStep[]): Promise<void> {
  const plans = steps.map((step) => (now: LiveSession) => planStep(now, step))
  return applyPlansNow(core, live, plans, () => ({
    type: eventTypes.applyBatch,
    details: {
      operationCount: steps.length,
      paths: steps.slice(0, pathsInDetails).map(({ path }) => path),
    },
  }))
}

/** What fails only now is told as the call that it would have been. */
function planStep(live: LiveSession, { call }: CopyStep): Plan {
  try {
    return call.plan?.(live)
  } catch (thrown) {
    throw toSystemError(thrown, call.names)
  }
}

function notLoaded(): EngineError {
  return new EngineError('WOULD_BLOCK', 'the tree is not loaded: use the promise form')
}

function notABoolean(answer: Promise<unknown>): TypeError {
  const message = `Expected boolean to be returned from the "filter" function but got an instance of ${answer.constructor.name}.`
  return Object.assign(new TypeError(message), { code: 'ERR_INVALID_RETURN_VALUE' })
}
