/** The rejections that nothing handled while `work` ran. They would end a process. */
export async function unhandledDuring(work: () => Promise<unknown>): Promise<readonly unknown[]> {
  const unhandled: unknown[] = []
  const note = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', note)
  try {
    await work()
    // Node reports them after the turn.
    await new Promise((resolve) => setImmediate(resolve))
  } finally {
    process.off('unhandledRejection', note)
  }
  return unhandled
}
