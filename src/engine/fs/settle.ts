/**
 * Runs one of two functions when a promise is settled, each in a turn of its own: its errors are uncaught
 * exceptions, as for callbacks and listeners of Node, and not unhandled rejections.
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
