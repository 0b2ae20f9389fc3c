import { malformed, parseText, type Container, type JsonOutline } from './json-scan.js'
import type { LongStrings } from './long-strings.js'
import type { Steps } from './steps.js'

/** Parses JSON in parts, with marks for its long strings: what `JSON.parse` gives. INVALID_ARGUMENT. */
export function* parseJson({ root }: JsonOutline, strings: LongStrings): Steps<object> {
  return (yield* parseContainer(root, strings)) as object
}

/** Equal names of an object may be in several parts: the last one counts. */
function* parseContainer(
  { isList, start, end, cuts, large }: Container,
  strings: LongStrings,
): Steps<unknown> {
  const list: unknown[] = []
  const object: Record<string, unknown> = {}
  let from = start + 1
  let next = 0
  for (let index = 0; index <= cuts.length; index++) {
    const to = cuts[index] ?? end
    const inner = large[next]
    if (inner !== undefined && inner.start < to) {
      const before = strings.text(from, inner.start)
      const value = yield* parseContainer(inner, strings)
      next++
      // Without a comma between them.
      if (large[next] !== undefined && large[next]!.start < to) throw malformed()
      // Besides it there is a name, or nothing.
      const around = `${before}null${strings.text(inner.end + 1, to)}`
      const [name, ...others] = Object.keys(parseText(isList ? `[${around}]` : `{${around}}`))
      if (name === undefined || others.length > 0) throw malformed()
      if (isList) list.push(value)
      else setField(object, name, value)
    } else {
      const part = parseText(isList ? `[${strings.text(from, to)}]` : `{${strings.text(from, to)}}`)
      const entries = Object.entries(part)
      if (entries.length === 0 && cuts.length > 0) throw malformed()
      for (const [name, value] of entries) {
        if (isList) list.push(value)
        else setField(object, name, value)
      }
    }
    from = to + 1
    yield
  }
  return isList ? list : object
}

/** As a field, also where assigning it would do something else. */
function setField(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== '__proto__') object[name] = value
  else Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true })
}
