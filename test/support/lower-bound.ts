import { expect, onTestFinished } from 'vitest'

/** Lowers a bound for the rest of a test, where reaching the real one takes too long for `npm test`. */
export function lowerBound<Name extends string>(
  bounds: Readonly<Record<Name, number>>,
  name: NoInfer<Name>,
  bound: number,
): void {
  const open: Record<Name, number> = bounds
  const before = open[name]
  expect(bound).toBeLessThan(before)
  open[name] = bound
  onTestFinished(() => {
    open[name] = before
  })
}
