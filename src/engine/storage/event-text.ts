import { nextTurn } from '../base/cooperative.js'
import { limits } from '../base/limits.js'

/**
 * Parses the stored text of an event. The text of a large one is parsed in parts, with a turn of the event loop after
 * each.
 *
 * @throws {SyntaxError} when the text is not JSON.
 */
export async function parseEventText(text: string): Promise<unknown> {
  if (text.length <= limits.parsedPerTurn) return JSON.parse(text)
  return (await parseParts(text)) ?? JSON.parse(text)
}

/**
 * Parses the stored text of an event. That of a large one is parsed up to its effects, which the result then lacks.
 *
 * @throws {SyntaxError} when the text is not JSON.
 */
export function parseEventHead(text: string): unknown {
  const head = text.length <= limits.parsedPerTurn ? undefined : headOf(text)
  return head === undefined ? JSON.parse(text) : head.list
}

/** The parts of an event before its effects, and where they end. */
function headOf(text: string): { readonly end: number; readonly list: readonly unknown[] } | undefined {
  const head = cutAt(text, 0, { mark: ',[["', parse: (end) => `${text.slice(0, end)}]` })
  return head !== undefined && text.endsWith(']]') ? head : undefined
}

/**
 * The event, if its text ends with a list of effects, as every large one does. Each cut is tried where an effect seems
 * to end. A cut inside a string or a deeper list leaves a text that is not JSON, so a part that can be parsed is right.
 */
async function parseParts(text: string): Promise<unknown> {
  const head = headOf(text)
  if (head === undefined) return undefined
  const effects: unknown[] = []
  for (let from = head.end + ',['.length; ;) {
    const [start, least] = [from, from + limits.parsedPerTurn]
    const part = cutAt(text, least, { mark: '],["', parse: (end) => `[${text.slice(start, end)}]]` })
    await nextTurn()
    if (part === undefined) {
      const last = parsedList(`[${text.slice(start, -1)}`)
      return last && [...head.list, effects.concat(last)]
    }
    for (const effect of part.list) effects.push(effect)
    from = part.end + '],'.length
  }
}

/** The first place of the mark from which the text before it can be parsed. */
function cutAt(
  text: string,
  from: number,
  { mark, parse }: { readonly mark: string; readonly parse: (end: number) => string },
): { readonly end: number; readonly list: unknown[] } | undefined {
  let end = from
  for (let tries = 0; tries < limits.eventCuts; tries++) {
    end = text.indexOf(mark, end)
    if (end < 0) return undefined
    const list = parsedList(parse(end))
    if (list !== undefined) return { end, list }
    end++
  }
  return undefined
}

function parsedList(text: string): unknown[] | undefined {
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list) ? list : undefined
  } catch {
    return undefined
  }
}
