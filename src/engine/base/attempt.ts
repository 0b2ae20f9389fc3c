/**
 * Takes a step in code of a third party, such as a log, whose errors must not reach anything. A promise that the step returns
 * may reject too: Node would end the process. `failed` gets the error, and must not throw.
 */
export function attempt(step: () => unknown, failed: (error: unknown) => void = () => undefined): void {
  new Promise((resolve) => resolve(step())).catch(failed)
}
