import { Failure } from './failure.js'
import { printableName } from './printable.js'

const idLength = 36
const shownIds = 20

interface IdPage {
  readonly ids: readonly string[]
  readonly nextPageToken: string
}

/** The one id that begins with a prefix; whole ids are not looked up. */
export async function completeId(
  kind: 'session' | 'source' | 'checkpoint',
  prefix: string,
  list: (request: { readonly pageToken?: string }) => Promise<IdPage>,
): Promise<string> {
  if (prefix.length >= idLength) return prefix
  const found: string[] = []
  for (let pageToken: string | undefined; pageToken !== '';) {
    const page: IdPage = await list(pageToken === undefined ? {} : { pageToken })
    for (const id of page.ids) if (id.startsWith(prefix)) found.push(id)
    pageToken = page.nextPageToken
  }
  if (found.length === 1) return found[0]!
  const shown = printableName(prefix)
  if (found.length === 0) throw new Failure(`no ${kind} has an id that begins with ${shown}`)
  const more = found.length > shownIds ? ` and ${found.length - shownIds} more` : ''
  throw new Failure(
    `${shown} is the beginning of ${found.length} ${kind}s: ${found.slice(0, shownIds).join(' ')}${more}`,
  )
}
