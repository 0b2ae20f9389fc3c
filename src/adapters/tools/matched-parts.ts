import { compileRegularExpression, loadRegularExpressions, type GrepLine } from '../../engine/index.js'
import { limits } from './limits.js'

/**
 * The matching parts of matching lines, each as a line of its own, up to a bound. Parts without characters are left
 * out.
 */
export async function matchedParts(
  lines: readonly GrepLine[],
  { pattern, ignoreCase }: { readonly pattern: string; readonly ignoreCase: boolean },
): Promise<GrepLine[]> {
  await loadRegularExpressions()
  const expression = compileRegularExpression(pattern, { ignoreCase, atLines: false, dotAll: false })
  const parts: GrepLine[] = []
  for (const line of lines)
    for (let from = 0; from <= line.text.length && parts.length < limits.grepMostResults;) {
      const found = expression.find(line.text, from)
      if (found === undefined) break
      const { start, end } = found
      if (end > start) parts.push({ ...line, column: start + 1, text: line.text.slice(start, end) })
      from = Math.max(end, start + 1)
    }
  return parts
}
