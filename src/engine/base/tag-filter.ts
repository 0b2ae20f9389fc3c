import { invalid } from './errors.js'
import { given, type StringMap } from './input.js'

/** Parses `key=value`, a filter on tags or labels. Undefined: no filter. */
export function parseFilter(filter: string | undefined): ((map: StringMap) => boolean) | undefined {
  if (filter === undefined || filter === '') return undefined
  const cut = typeof filter === 'string' ? filter.indexOf('=') : -1
  if (cut < 1) throw invalid('filter', `must have the form key=value; it is ${given(filter)}`)
  const key = filter.slice(0, cut)
  const value = filter.slice(cut + 1)
  return (map) => Object.hasOwn(map, key) && map[key] === value
}
