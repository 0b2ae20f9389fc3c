/** Paths as keys of a database: `<workspace><path>`. Names in a directory come from a range of keys. */

/** The range of all keys below a directory of a workspace, or of the whole workspace. */
export function rangeOf(workspace: string, directory = ''): { readonly from: string; readonly to: string } {
  const start = workspace + (directory === '/' ? '' : directory)
  // '0' is the character after '/'.
  return { from: `${start}/`, to: `${start}0` }
}

/** The names directly below a directory. */
export function namesIn(keys: Iterable<string>, from: string): string[] {
  const names = new Set<string>()
  for (const key of keys) {
    const end = key.indexOf('/', from.length)
    names.add(key.slice(from.length, end < 0 ? undefined : end))
  }
  return [...names]
}

/** Names of workspaces that no other process gives. */
export function workspaceNames(): () => string {
  let last = 0
  return () => `w${process.pid}-${++last}`
}
