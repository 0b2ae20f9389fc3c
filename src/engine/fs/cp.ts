import { EngineError } from '../base/errors.js'
import { Fault } from '../base/fault.js'
import { limits } from '../base/limits.js'
import { applyPlansNow } from '../session/batch.js'
import { eventTypes } from '../session/events.js'
import type { LiveSession } from '../session/live.js'
import { mutate } from '../session/transaction.js'
import { typeError } from './argument-errors.js'
import type { Context } from './calls.js'
import { CopyWalk, type CopyStep } from './copy-walk.js'
import { toCopyOptions } from './copy-options.js'
import { givenPath } from './arguments.js'
import { takeCallback, deliver, type FsFunction } from './drivers.js'
import { toSystemError } from './errors.js'

const pathsInDetails = 100

function prepare(context: Context, src: unknown, dest: unknown, options: unknown): CopyWalk {
  const settings = toCopyOptions(options)
  const from = givenPath(src, 'src')
  return new CopyWalk(context.core, { src: from, dest: givenPath(dest, 'dest') }, settings)
}

/**
 * The whole source is looked at before anything is copied; then everything is one event, or one for each
 * 10,000 steps. A copied file shares its content with its source.
 */
async function copyLater(context: Context, walk: CopyWalk): Promise<void> {
  const { access, core } = context
  try {
    const work = walk.run(await access.reading())
    for (let answer: unknown; ;) {
      const { done, value } = work.next(answer)
      if (done === true) break
      answer = await value.result
    }
    for (const steps of batches(walk.steps)) {
      await access.run((live) => mutate(core, live, () => apply(core, live, steps)))
    }
  } catch (thrown) {
    throw toSystemError(thrown, { syscall: 'cp', path: walk.src, dest: walk.dest })
  }
}

function copyNow(context: Context, walk: CopyWalk): void {
  const { access, core } = context
  try {
    const work = walk.run(access.liveSync())
    for (let answer: unknown; ;) {
      const { done, value } = work.next(answer)
      if (done === true) break
      if (value.result instanceof Promise) {
        value.result.catch(() => undefined)
        if (value.kind === 'load') throw new EngineError('WOULD_BLOCK', 'the tree is not loaded')
        throw notABoolean()
      }
      answer = value.result
    }
    for (const steps of batches(walk.steps)) {
      access.changeSync((live) => apply(core, live, steps))
    }
  } catch (thrown) {
    const reason = thrown instanceof Fault ? new EngineError('WOULD_BLOCK', 'the tree is not loaded') : thrown
    throw toSystemError(reason, { syscall: 'cp', path: walk.src, dest: walk.dest })
  }
}

export function cpForms(context: (form: Context['form']) => Context): Record<Context['form'], FsFunction> {
  return {
    promise: async (src, dest, options) =>
      copyLater(context('promise'), prepare(context('promise'), src, dest, options)),
    sync: (src, dest, options) => copyNow(context('sync'), prepare(context('sync'), src, dest, options)),
    callback: (...parameters) => {
      const callback = takeCallback(parameters)
      const [src, dest, options] = parameters
      deliver(copyLater(context('callback'), prepare(context('callback'), src, dest, options)), callback)
    },
  }
}

function* batches(steps: readonly CopyStep[]): Generator<readonly CopyStep[]> {
  for (let start = 0; start < steps.length; start += limits.batchOperations)
    yield steps.slice(start, start + limits.batchOperations)
}

function apply(core: Context['core'], live: LiveSession, steps: readonly CopyStep[]): Promise<void> {
  const plans = steps.map(({ plan }) => plan)
  return applyPlansNow(core, live, plans, () => ({
    type: eventTypes.applyBatch,
    details: {
      operationCount: steps.length,
      paths: steps.slice(0, pathsInDetails).map(({ path }) => path),
    },
  }))
}

function notABoolean(): TypeError {
  const message = 'Expected boolean to be returned from the "filter" function but got an instance of Promise.'
  return Object.assign(typeError('filter', 'synchronous', undefined), {
    code: 'ERR_INVALID_RETURN_VALUE',
    message,
  })
}
