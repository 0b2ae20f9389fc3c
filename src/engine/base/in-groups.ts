/**
 * Runs `work` for each item, for up to `size` items at once, so that their waits overlap. If one fails, the
 * others of its group finish first, and then this rejects.
 */
export async function inGroups<T>(
  items: Iterable<T> | AsyncIterable<T>,
  size: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  let group: T[] = []
  const workAll = async (): Promise<void> => {
    const settled = await Promise.allSettled(group.map(work))
    group = []
    for (const result of settled) if (result.status === 'rejected') throw result.reason
  }
  for await (const item of items) if (group.push(item) === size) await workAll()
  await workAll()
}
