/** The number of event loop turns during the work. */
export async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let working = true
  const turn = (): void => {
    turns++
    if (working) setImmediate(turn)
  }
  setImmediate(turn)
  try {
    await work()
  } finally {
    working = false
  }
  return turns
}
