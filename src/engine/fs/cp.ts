import { EngineError } from '../base/errors.js'
import { Fault, whenLoaded } from '../base/fault.js'
import { limits } from '../base/limits.js'
import { nextTurn, TimeSlice } from '../base/cooperative.js'
import { applyPlansNow } from '../session/edits/batch.js'
import { eventTypes } from '../records/event.js'
import type { LiveSession } from '../session/table/live.js'
import type { Plan } from '../session/edits/plan.js'
import { mutate } from '../session/mutation-queue.js'
import { findNode, findSymlink } from '../session/reads/lookup.js'
import { Dir, Symlink } from '../tree/node.js'
import { locate, type Call, type Context } from './calls.js'
import { mkdir, symlink, unlink, utimes } from './change-calls.js'
import { copyFile } from './copy-file.js'
import { toCopyOptions, type CopyOptions } from './copy-options.js'
import {
  CopyWalk,
  runWalk,
  runWalkNow,
  type CopyNode,
  type CopyQuestion,
  type CopyStep,
} from './copy-walk.js'
import { takeCallback, deliver, type FsFunction } from './drivers.js'
import { toSystemError, type SystemCall } from './errors.js'
import { listDirectory } from './listing.js'
import { givenPath, plainPath, slashed } from './resolve-path.js'

/** A copy with checked arguments. */
interface Copy {
  readonly src: string
  readonly dest: string
  readonly options: CopyOptions
  readonly names: SystemCall
}

function prepare(from: unknown, to: unknown, given: unknown): Copy {
  const options = toCopyOptions(given)
  const src = givenPath(from, 'src')
  const dest = givenPath(to, 'dest')
  return { src, dest, options, names: { syscall: 'cp', path: src, dest } }
}

/**
 * Walks the whole source before it copies anything. The copy is recorded as one event per 1,000 steps, with a turn of
 * the event loop after each. A copied file shares its content with its source.
 */
async function copyLater(context: Context, { src, dest, options, names }: Copy): Promise<void> {
  const { access, core } = context
  try {
    const live = await access.reading('fs.read')
    const slice = new TimeSlice(core.environment)
    const walk = new CopyWalk(options, { isSync: false }).run(src, dest)
    const steps = await runWalk(walk, async (question) => {
      if (slice.over) await slice.next()
      // As in Node, a filter that is a method is called on the options.
      if (question.ask === 'filter') return question.filter.call(options, question.src, question.dest)
      return whenLoaded(() => find(live, question))
    })
    for (const some of batches(steps)) {
      await access.run('fs.write', (now) => mutate(core, now, () => apply(context, now, some)))
      await nextTurn()
    }
  } catch (thrown) {
    throw toSystemError(thrown, names)
  }
}

function copyNow(context: Context, { src, dest, options, names }: Copy): void {
  const { access } = context
  try {
    const live = access.liveSync('fs.read')
    const walk = new CopyWalk(options, { isSync: true }).run(src, dest)
    const steps = runWalkNow(walk, (question) => {
      if (question.ask !== 'filter') return find(live, question)
      const answer = question.filter.call(options, question.src, question.dest)
      if (!(answer instanceof Promise)) return answer
      answer.catch(() => undefined)
      throw notABoolean(answer)
    })
    for (const some of batches(steps)) access.changeSync('fs.write', (now) => apply(context, now, some))
  } catch (thrown) {
    throw toSystemError(thrown instanceof Fault ? notLoaded() : thrown, names)
  }
}

type TreeQuestion = Exclude<CopyQuestion, { readonly ask: 'filter' }>

/** Answers from the session's tree. Throws a Fault if the node is not loaded. */
function find(live: LiveSession, question: TreeQuestion): CopyNode | string | readonly string[] {
  const { ask, path } = question
  if (ask === 'readlink') return findSymlink(live, plainPath(path)).target
  if (ask === 'readdir')
    return listDirectory(live, findNode(live, plainPath(path), true) as Dir, '', {}) as string[]
  const node = findNode(live, locate(live, path), question.syscall === 'stat' || slashed(path))
  const kind = node instanceof Dir ? 'directory' : node instanceof Symlink ? 'symlink' : 'file'
  return { kind, inode: node.ino, mode: node instanceof Symlink ? 0o777 : node.mode, mtimeMs: node.mtime }
}

export function cpForms(contexts: (form: Context['form']) => Context): Record<Context['form'], FsFunction> {
  const [later, now, calledBack] = [contexts('promise'), contexts('sync'), contexts('callback')]
  return {
    promise: async (src, dest, options) => copyLater(later, prepare(src, dest, options)),
    sync: (src, dest, options) => copyNow(now, prepare(src, dest, options)),
    callback: (...parameters) => {
      const callback = takeCallback(parameters)
      const [src, dest, options] = parameters
      deliver(copyLater(calledBack, prepare(src, dest, options)), callback)
    },
  }
}

function* batches(steps: readonly CopyStep[]): Generator<readonly CopyStep[]> {
  for (let start = 0; start < steps.length; start += limits.copyStepsPerEvent)
    yield steps.slice(start, start + limits.copyStepsPerEvent)
}

function apply(context: Context, live: LiveSession, steps: readonly CopyStep[]): Promise<void> {
  const plans = steps.map((step) => () => planStep(live, callOf(context, step)))
  return applyPlansNow(context.core, live, plans, () => ({
    type: eventTypes.applyBatch,
    details: {
      operationCount: steps.length,
      paths: steps.slice(0, limits.pathsInDetails).map(({ path }) => plainPath(path)),
    },
  }))
}

/** A failed step throws the error of its own call, such as `mkdir`, and not an error of `cp`. */
function planStep(live: LiveSession, call: Call<unknown>): Plan {
  try {
    return call.plan?.(live)
  } catch (thrown) {
    throw toSystemError(thrown, call.names)
  }
}

function callOf(context: Context, step: CopyStep): Call<unknown> {
  switch (step.op) {
    case 'mkdir':
      return mkdir(context, step.path, { recursive: step.recursive, mode: step.mode })
    case 'copyFile':
      return copyFile(context, step.src, step.path, step.mode)
    case 'symlink':
      return symlink(context, step.target, step.path)
    case 'unlink':
      return unlink(context, step.path)
    default:
      return utimes(context, step.path, step.time, step.time)
  }
}

function notLoaded(): EngineError {
  return new EngineError('WOULD_BLOCK', 'the tree is not in memory: use the promise form')
}

function notABoolean(answer: Promise<unknown>): TypeError {
  const message = `Expected boolean to be returned from the "filter" function but got an instance of ${answer.constructor.name}.`
  return Object.assign(new TypeError(message), { code: 'ERR_INVALID_RETURN_VALUE' })
}
