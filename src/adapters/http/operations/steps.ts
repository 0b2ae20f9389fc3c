/** Work that may pause where it says so. */
export type Steps<T> = Generator<void, T, void>

/** Milliseconds after which the event loop gets a turn. */
const sliceMs = 8

/** Does all of it at once. */
export function runAtOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** Does it in slices, between which others have their turn. */
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
