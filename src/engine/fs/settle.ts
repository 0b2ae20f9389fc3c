/**
 * Runs one of two functions when a promise is settled, each in a turn of its own: what it throws is an uncaught
 * exception, as for callbacks and listeners of Node, and not a rejection that nobody handles.
 */
export function settle<T>(
  promise: Promise<T>,
  onResult: (result: T) => void,
  onError: (error: unknown) => void,
): void {
  promise.then(
    (result) => queueMicrotask(() => onResult(result)),
    (error: unknown) => queueMicrotask(() => onError(error)),
  )
}
