import { runLoading } from '../base/cooperative.js'
import { observed } from '../base/diagnostics.js'
import { EngineError } from '../base/errors.js'
import { Fault, whenLoaded } from '../base/fault.js'
import type { LiveSession } from '../session/table/live.js'
import { mutate, record } from '../session/mutation-queue.js'
import { typeError } from './argument-errors.js'
import type { Call, Context, Define, FsAction } from './calls.js'
import { toSystemError } from './errors.js'

/** A function in any of the three forms. */
export type FsFunction = (...parameters: unknown[]) => unknown

function actionOf({ plan, needs }: Call<unknown>): FsAction {
  if (needs !== undefined) return needs[0]
  return plan === undefined ? 'fs.read' : 'fs.write'
}

/** Checks the permissions for a call's actions other than its first one. */
function permitRest({ access }: Context, { needs }: Call<unknown>): void {
  if (needs === undefined) return
  for (const action of needs.slice(1)) access.permit(action)
}

export function runLater<T>(context: Context, call: Call<T>): Promise<T> {
  return observed()
    ? context.access.traced(actionOf(call), () => startLater(context, call))
    : startLater(context, call)
}

/** A read runs synchronously if everything is loaded, and then costs only one promise. */
function startLater<T>(context: Context, call: Call<T>): Promise<T> {
  if (call.plan !== undefined) return changeLater(context, call, call.plan)
  if (call.steps !== undefined) return lookInSteps(context, call, call.steps)
  try {
    permitRest(context, call)
    const live = context.access.reading(actionOf(call))
    if (live instanceof Promise) return lookLater(call, live)
    return Promise.resolve(call.look(live))
  } catch (thrown) {
    if (thrown instanceof Fault) return lookLater(call, context.access.reading(actionOf(call)))
    return call.without === undefined
      ? Promise.reject(toSystemError(thrown, call.names))
      : attempt(call.without)
  }
}

function attempt<T>(run: () => T): Promise<T> {
  return new Promise((resolve) => resolve(run()))
}

async function lookLater<T>(call: Call<T>, live: LiveSession | Promise<LiveSession>): Promise<T> {
  try {
    const loaded = await live
    return await whenLoaded(() => call.look(loaded))
  } catch (thrown) {
    if (call.without !== undefined) return call.without()
    throw toSystemError(thrown, call.names)
  }
}

async function lookInSteps<T>(
  { access, core }: Context,
  call: Call<T>,
  steps: NonNullable<Call<T>['steps']>,
): Promise<T> {
  try {
    const reading = access.reading(actionOf(call))
    const live = reading instanceof Promise ? await reading : reading
    const { work, pin } = await whenLoaded(() => {
      const root = live.tree.freeze()
      return { work: steps(live), pin: core.pins.pin({ roots: [root] }) }
    })
    using _ = pin
    return await runLoading(work, core.environment)
  } catch (thrown) {
    throw toSystemError(thrown, call.names)
  }
}

function changeLater<T>(context: Context, call: Call<T>, plan: NonNullable<Call<T>['plan']>): Promise<T> {
  const { access, core } = context
  let result: T
  const apply = (live: LiveSession): Promise<void> => {
    const committed = record(core, live, plan(live))
    result = call.look(live)
    return committed
  }
  try {
    return access
      .run(actionOf(call), (live) => {
        permitRest(context, call)
        return mutate(core, live, () => apply(live))
      })
      .then(
        () => result,
        (thrown: unknown) => {
          throw toSystemError(thrown, call.names)
        },
      )
  } catch (thrown) {
    return Promise.reject(toSystemError(thrown, call.names))
  }
}

/** Runs synchronously, or throws EAGAIN. */
export function runNow<T>(context: Context, call: Call<T>): T {
  return observed()
    ? context.access.tracedSync(actionOf(call), () => doNow(context, call))
    : doNow(context, call)
}

function doNow<T>(context: Context, call: Call<T>): T {
  const { access, core } = context
  const { plan } = call
  try {
    permitRest(context, call)
    if (plan === undefined) return call.look(access.readingSync(actionOf(call)))
    let result: T
    access.changeSync(actionOf(call), (live) => {
      const committed = record(core, live, plan(live))
      result = call.look(live)
      return committed
    })
    return result!
  } catch (thrown) {
    if (call.without !== undefined) return call.without()
    const reason = thrown instanceof Fault ? wouldBlock() : thrown
    throw toSystemError(reason, call.names)
  }
}

function wouldBlock(): EngineError {
  return new EngineError('WOULD_BLOCK', 'the data is not in memory: use the promise form')
}

export function promiseForm<T>(context: Context, define: Define<T>): FsFunction {
  return (a, b, c, d, e) => {
    try {
      return runLater(context, define(context, a, b, c, d, e))
    } catch (thrown) {
      return Promise.reject(thrown)
    }
  }
}

export function syncForm<T>(context: Context, define: Define<T>): FsFunction {
  return (a, b, c, d, e) => runNow(context, define(context, a, b, c, d, e))
}

/** Converts a result to the arguments of a callback, if it is more than one value. */
export type Spread<T> = (result: T) => readonly unknown[]

export type Callback = (error: unknown, ...results: unknown[]) => void

/** As in Node, invalid arguments throw synchronously. Every other error goes to the callback. */
export function callbackForm<T>(
  context: Context,
  define: Define<T>,
  { spread, callbackLast = false }: { spread?: Spread<T> | undefined; callbackLast?: boolean } = {},
): FsFunction {
  return (...parameters) => {
    // For some functions, Node checks the other arguments first.
    if (callbackLast && typeof parameters.at(-1) !== 'function') define(context, ...parameters)
    const callback = takeCallback(parameters)
    const [a, b, c, d, e] = parameters
    deliver(runLater(context, define(context, a, b, c, d, e)), callback, spread)
  }
}

/** Removes the callback, which is the last argument, and returns it. */
export function takeCallback(parameters: unknown[]): Callback {
  while (parameters.length > 0 && parameters.at(-1) === undefined) parameters.pop()
  const callback = parameters.pop()
  if (typeof callback !== 'function') throw typeError('cb', 'of type function', callback)
  return callback as Callback
}

export function deliver<T>(promise: Promise<T>, receiver: Callback, spread?: Spread<T>): void {
  promise.then(
    (result) => hand(receiver, null, ...(spread?.(result) ?? (result === undefined ? [] : [result]))),
    (error: unknown) => hand(receiver, error),
  )
}

/** An error that a callback throws becomes an uncaught exception, not an unhandled rejection. */
function hand(receiver: Callback, ...results: readonly unknown[]): void {
  queueMicrotask(() => receiver(...(results as [unknown])))
}
