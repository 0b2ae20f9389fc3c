import type { World } from './world.js'

/**
 * Resolves with the first signal of the list. The next one ends the process immediately, which is the default.
 */
export function nextSignal(
  world: World,
  signals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM'],
): Promise<NodeJS.Signals> {
  return new Promise((end) => {
    const onSignal = (signal: NodeJS.Signals): void => {
      for (const each of signals) world.removeListener(each, onSignal)
      end(signal)
    }
    for (const each of signals) world.on(each, onSignal)
  })
}

/** Ignores signals until the returned function is called. */
export function ignoreSignals(world: World, signals: readonly NodeJS.Signals[]): () => void {
  const ignore = (): void => undefined
  for (const each of signals) world.on(each, ignore)
  return () => {
    for (const each of signals) world.removeListener(each, ignore)
  }
}
