import { given, invalid } from '../../engine/ports.js'

/** The fields of tools that have globs, by the name of the tool. */
const globFields: Readonly<Record<string, readonly string[]>> = {
  search_files: ['pattern', 'excludePatterns'],
  directory_tree: ['excludePatterns'],
  glob: ['pattern'],
  grep: ['glob'],
}

/**
 * Refuses a glob with a set that does not end. Shells take its bracket as a character; a model has rather made a mistake.
 *
 * @throws {EngineError} INVALID_ARGUMENT
 */
export function checkGlobs(tool: string, input: unknown): void {
  if (typeof input !== 'object' || input === null) return
  const fields = new Map(Object.entries(input))
  for (const field of (Object.hasOwn(globFields, tool) ? globFields[tool] : undefined) ?? [])
    for (const glob of [fields.get(field)].flat())
      if (typeof glob === 'string' && hasOpenSet(glob))
        throw invalid(
          field,
          `must be a glob whose sets end, as in [a-z]; it is ${given(glob)}. Write \\[ for a bracket`,
        )
}

/** Whether a set of characters of a glob has no end. */
function hasOpenSet(glob: string): boolean {
  const lastClass = glob.lastIndexOf(':]')
  for (let at = 0; at < glob.length; at++) {
    if (glob[at] === '\\') at++
    else if (glob[at] === '[') {
      at = endOfSet(glob, at, lastClass)
      if (at === -1) return true
    }
  }
  return false
}

/** The place of the bracket that ends a set; -1 without one. A bracket that comes first in a set is one of its characters. */
function endOfSet(glob: string, start: number, lastClass: number): number {
  let at = start + 1
  if (glob[at] === '!' || glob[at] === '^') at++
  if (glob[at] === ']') at++
  for (; at < glob.length; at++) {
    if (glob[at] === ']') return at
    if (glob[at] === '\\') at++
    else if (glob.startsWith('[:', at) && at < lastClass) at = glob.indexOf(':]', at) + 1
  }
  return -1
}
