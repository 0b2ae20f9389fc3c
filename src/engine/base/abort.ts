/** Who is to be told of a signal's abort. */
const listeners = new WeakMap<AbortSignal, Set<() => void>>()

function tell({ currentTarget }: Event): void {
  const signal = currentTarget as AbortSignal
  const told = listeners.get(signal)
  listeners.delete(signal)
  for (const listener of told ?? []) listener()
}

/**
 * Calls back once when a signal that is not aborted yet aborts; the result ends that. A signal has one listener
 * of this kind, however many wait for it: Node warns of a leak where there are many.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  let waiting = listeners.get(signal)
  if (waiting === undefined) {
    listeners.set(signal, (waiting = new Set()))
    signal.addEventListener('abort', tell, { once: true })
  }
  waiting.add(listener)
  return () => {
    if (!waiting.delete(listener) || waiting.size > 0) return
    if (listeners.get(signal) !== waiting) return
    listeners.delete(signal)
    signal.removeEventListener('abort', tell)
  }
}
