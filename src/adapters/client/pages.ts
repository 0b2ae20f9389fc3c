/** Yields all items of a listing. It requests one page after the other. */
export async function* pages<Item>(
  list: (page: {
    readonly pageToken?: string
  }) => Promise<readonly [items: readonly Item[], nextPageToken: string]>,
): AsyncGenerator<Item, void, undefined> {
  for (let pageToken: string | undefined; pageToken !== '';) {
    const [items, nextPageToken]: readonly [readonly Item[], string] = await list(
      pageToken === undefined ? {} : { pageToken },
    )
    yield* items
    pageToken = nextPageToken
  }
}
