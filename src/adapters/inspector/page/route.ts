import { signal } from '@preact/signals'

/** The place that the page shows: a path and parameters, both in the fragment of the URL. */
export interface Place {
  readonly parts: readonly string[]
  readonly query: URLSearchParams
}

/** The current place. */
export const place = signal<Place>(read())

/** Follows the fragment. */
export function followPlace(): void {
  const update = (): void => {
    place.value = read()
  }
  addEventListener('hashchange', update)
  update()
}

function read(): Place {
  const [path = '', query = ''] = location.hash.replace(/^#/, '').split('?')
  return {
    parts: path
      .split('/')
      .filter((part) => part !== '')
      .map(decoded),
    query: new URLSearchParams(query),
  }
}

/** Decodes a part of a URL. Malformed text stays as it is. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The fragment of a place. */
export function linkTo(
  parts: readonly string[],
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const text = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') text.set(name, value)
  const path = parts.map(encodeURIComponent).join('/')
  return `#/${path}${text.size === 0 ? '' : `?${text}`}`
}

/** Changes parameters of the current place. The back button returns to before it, unless `replace` is set. */
export function change(changes: Readonly<Record<string, string | undefined>>, replace = false): void {
  const { parts, query } = place.value
  const next = { ...Object.fromEntries(query), ...changes }
  const link = linkTo(parts, next)
  if (link === location.hash) return
  if (replace) {
    history.replaceState(null, '', link)
    place.value = read()
  } else location.hash = link
}
