import { invalid } from './errors.js'
import { given, type StringMap } from './input.js'

/** A filter on tags or labels. */
export interface TagFilter {
  /** Whether the tags match. */
  matches(map: StringMap): boolean
  /** Whether a record with this text may match. Searching a text takes a tenth of the time of parsing it. */
  mayMatch(json: string): boolean
}

/** Parses `key=value`. Undefined: no filter. */
export function parseFilter(filter: string | undefined): TagFilter | undefined {
  if (filter === undefined || filter === '') return undefined
  const cut = typeof filter === 'string' ? filter.indexOf('=') : -1
  if (cut < 1) throw invalid('filter', `must have the form key=value; it is ${given(filter)}`)
  const key = filter.slice(0, cut)
  const value = filter.slice(cut + 1)
  // Records are written by JSON.stringify, so each tag has one form.
  const written = `${JSON.stringify(key)}:${JSON.stringify(value)}`
  return {
    matches: (map) => Object.hasOwn(map, key) && map[key] === value,
    mayMatch: (json) => json.includes(written),
  }
}
