/** Work that can pause at each `yield`. */
export type Steps<T> = Generator<void, T, void>

/** The milliseconds of work after which the event loop gets a turn. */
const sliceMs = 8

/** Runs all steps without a pause. */
export function runAtOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** Runs the steps in slices, and lets the event loop run between them. */
export async function runInSlices<T>(steps: Steps<T>): Promise<T> {
  let end = performance.now() + sliceMs
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
    if (performance.now() < end) continue
    await nextTurn()
    end = performance.now() + sliceMs
  }
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
