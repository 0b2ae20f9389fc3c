/** The subset of node:test that Node's fs tests use: tests run in sequence, and a failure ends nothing. */
type Body = (context: object, done?: (value?: unknown) => void) => unknown

type Test = ((...given: unknown[]) => Promise<void>) & Record<string, unknown>

export function testModule(fail: (error: unknown) => void): Test {
  let tail: Promise<void> = Promise.resolve()

  const test = ((...given: unknown[]): Promise<void> => {
    const body = given.find((one) => typeof one === 'function') as Body | undefined
    tail = tail.then(() => run(body)).catch(fail)
    return tail
  }) as Test

  async function run(body: Body | undefined): Promise<void> {
    const after: Body[] = []
    const context = {
      after: (hook: Body) => after.push(hook),
      test: async (...given: unknown[]) => run(given.find((one) => typeof one === 'function') as Body),
      mock,
      diagnostic: () => undefined,
    }
    try {
      // A test with a second parameter ends when that is called.
      if (body !== undefined && body.length > 1) await new Promise((resolve) => void body(context, resolve))
      else await body?.(context)
    } finally {
      for (const hook of after) await hook(context)
    }
  }

  const describe = (...given: unknown[]): void => {
    ;(given.find((one) => typeof one === 'function') as Body | undefined)?.({})
  }
  return Object.assign(test, { test, it: test, describe, suite: describe, mock })
}

/** Replaces a method, counts its calls, and restores it. */
const mock = {
  getter: (object: object, name: string, get: () => unknown): void => {
    Object.defineProperty(object, name, { configurable: true, get })
  },
  fn: (replaced: (...given: unknown[]) => unknown = () => undefined): unknown =>
    mock.method({ fn: replaced }, 'fn'),
  method: (
    object: Record<string, unknown>,
    name: string,
    replaced?: (...given: unknown[]) => unknown,
  ): unknown => {
    const original = object[name] as (...given: unknown[]) => unknown
    const calls: { arguments: unknown[] }[] = []
    const once = new Map<number, typeof original>()
    const method = function (this: unknown, ...given: unknown[]): unknown {
      const implementation = once.get(calls.length) ?? replaced ?? original
      calls.push({ arguments: given })
      return implementation.apply(this, given)
    }
    object[name] = Object.assign(method, {
      mock: {
        calls,
        callCount: () => calls.length,
        mockImplementationOnce: (run: typeof original, at = calls.length) => once.set(at, run),
        restore: () => (object[name] = original),
      },
    })
    return object[name]
  },
}
