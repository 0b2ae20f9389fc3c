import { limits } from '../../../engine/ports.js'
import { invalidField } from '../http-error.js'

export interface Target {
  readonly path: string
  /** Without the question mark. */
  readonly query: string
}

/**
 * Splits the target of a request line. If the target is a whole URL, which a proxy may send, the origin is
 * dropped.
 */
export function splitTarget(target: string): Target {
  const local = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]*/i, '')
  const mark = local.indexOf('?')
  return mark < 0 ? { path: local, query: '' } : { path: local.slice(0, mark), query: local.slice(mark + 1) }
}

/** Yields the parameters of a query, in order. A name may occur several times. */
export function* parseQuery(query: string): Generator<readonly [name: string, value: string], void> {
  if (query === '') return
  for (const part of query.split('&')) {
    if (part === '') continue
    const cut = part.indexOf('=')
    const name = decode(cut < 0 ? part : part.slice(0, cut), 'query')
    yield [name, cut < 0 ? '' : decode(part.slice(cut + 1), name)]
  }
}

function decode(text: string, field: string): string {
  return decodePart(text.includes('+') ? text.replaceAll('+', ' ') : text, field)
}

/**
 * Decodes the percent-encoding once.
 *
 * @throws HttpError `INVALID_ARGUMENT` if it is malformed or not UTF-8.
 */
function decodePart(text: string, field: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalidField(field.slice(0, limits.shownLength), 'the percent-encoding is malformed')
  }
}
