import { given, invalid } from '../../engine/ports.js'

/**
 * An absolute path of the session. A relative path begins at the root, as the tools of Mastra write it. `..` is refused:
 * an approval that compares the text of a path could not see where it leads.
 *
 * @throws {EngineError} INVALID_ARGUMENT when it is no path, or has a part `..`.
 */
export function pathOf(path: unknown, field = 'path'): string {
  if (typeof path !== 'string') throw invalid(field, `must be a path, such as src/a.ts; it is ${given(path)}`)
  const parts = path.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..'))
    throw invalid(
      field,
      `must have no part "..": begin it at the root of the workspace; it is ${given(path)}`,
    )
  return `/${parts.join('/')}`
}
