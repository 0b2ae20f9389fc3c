import { Failure, UsageError } from './failure.js'
import { cliLimits } from './limits.js'
import { printableName } from './printable.js'

const idLength = 36

interface IdPage {
  readonly ids: readonly string[]
  readonly nextPageToken: string
}

/** Returns the only id that begins with a prefix. A complete id is returned without a lookup. */
export async function completeId(
  kind: 'session' | 'source' | 'checkpoint',
  prefix: string,
  list: (request: { readonly pageToken?: string }) => Promise<IdPage>,
): Promise<string> {
  // Otherwise an unset variable in a script would select the only session of a store.
  if (prefix === '') throw new UsageError(`the id of a ${kind} is empty. Pass the id, or the beginning of it`)
  if (prefix.length >= idLength) return prefix
  const found: string[] = []
  for (let pageToken: string | undefined; pageToken !== '';) {
    const page: IdPage = await list(pageToken === undefined ? {} : { pageToken })
    for (const id of page.ids) if (id.startsWith(prefix)) found.push(id)
    pageToken = page.nextPageToken
  }
  const [only] = found
  if (only !== undefined && found.length === 1) return only
  const shown = printableName(prefix)
  if (found.length === 0) {
    const lists = kind === 'checkpoint' ? 'session show' : `${kind} list`
    throw new Failure(`no ${kind} has an id that begins with ${shown}; "forkspace ${lists}" lists them`)
  }
  const more = found.length > cliLimits.shownIds ? ` and ${found.length - cliLimits.shownIds} more` : ''
  throw new Failure(
    `${shown} is the beginning of ${found.length} ${kind}s: ${found.slice(0, cliLimits.shownIds).join(' ')}${more}`,
  )
}
