/**
 * Runs one of two functions after a promise settles, in a separate microtask. So an error that the function
 * throws is an uncaught exception, as for Node's callbacks and listeners, and not an unhandled rejection.
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
