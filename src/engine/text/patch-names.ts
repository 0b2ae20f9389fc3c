/** Names of files in unified patches, read as git reads them. */
import { isUtf8 } from 'node:buffer'
import { limits } from '../base/limits.js'
import { joinPath } from '../base/path.js'
import { bytesOf, decodeText, type ByteText } from './byte-text.js'
import { invalidPatch } from './patch-error.js'

/** The name after a keyword such as `--- ` or `rename from `; undefined for `/dev/null`. */
export function nameIn(text: ByteText, options: { readonly endsAtTab: boolean }): ByteText | undefined {
  if (/^\/dev\/null(?:[\t ]|$)/.test(text)) return undefined
  const quoted = unquote(text)
  if (quoted !== undefined) return quoted.name
  if (text.startsWith('"'))
    throw invalidPatch(
      `the name ${JSON.stringify(decodeText(text.slice(0, limits.shownLength)))} is quoted, but malformed`,
    )
  return options.endsAtTab ? text.replace(/\t.*$/, '') : text
}

/** The path of a name in the session, without its first `strip` parts. */
export function toPath(name: ByteText, strip: number): string {
  if (!isUtf8(bytesOf(name)))
    throw invalidPatch(`the name ${JSON.stringify(decodeText(name))} is not UTF-8, as all names must be`)
  const text = decodeText(name)
  const names = text
    .split(/\/+/)
    .slice(strip)
    .filter((part) => part !== '' && part !== '.')
  if (names.length === 0)
    throw invalidPatch(
      `the name ${JSON.stringify(text)} has no more than ${strip} parts; pass a smaller strip`,
      { file: text },
    )
  return joinPath(names)
}

/** Whether both names of a line `diff --git` have the prefixes `a/` and `b/`. */
export function hasGitPrefixes(names: ByteText): boolean {
  return /^"?a\/.*[\t ]"?b\//s.test(names)
}

/**
 * The name in a line `diff --git`, without its first `strip` parts. Both names of the line must be equal without them,
 * because only then it is clear where the first one ends.
 */
export function nameInGitLine(names: ByteText, strip: number): ByteText | undefined {
  const first = unquote(names)
  if (first !== undefined) {
    const rest = names.slice(first.end).trimStart()
    const second = unquote(rest)?.name ?? rest
    return sameName(first.name, second, strip)
  }
  const quote = names.indexOf('"')
  if (quote > 0) {
    const second = unquote(names.slice(quote))
    return second && sameName(names.slice(0, quote - 1), second.name, strip)
  }
  return doubledName(names, strip)
}

/** The name in a text `name name`, where any space may end the first name. */
function doubledName(names: ByteText, strip: number): ByteText | undefined {
  const first = withoutParts(names, strip)
  if (first === undefined) return undefined
  const start = names.length - first.length
  const slashes = [...names.matchAll(/\//g)].map(({ index }) => index)
  let next = 0
  for (const { index: end } of names.matchAll(/[\t ]/g)) {
    if (end < start) continue
    while ((slashes[next] ?? end + 1) <= end) next++
    const second = strip === 0 ? end + 1 : (slashes[next + strip - 1] ?? names.length) + 1
    // The first name gets longer and the second one shorter, so their lengths are equal at most once.
    if (end - start > names.length - second) return undefined
    if (end - start < names.length - second) continue
    const name = names.slice(start, end)
    return name !== '' && names.endsWith(name) ? name : undefined
  }
  return undefined
}

function sameName(first: ByteText, second: ByteText, strip: number): ByteText | undefined {
  const name = withoutParts(first, strip)
  return name !== undefined && name !== '' && name === withoutParts(second, strip) ? name : undefined
}

/** The name after the `strip`-th slash. */
function withoutParts(name: ByteText, strip: number): ByteText | undefined {
  let start = 0
  for (let count = 0; count < strip; count++) {
    const slash = name.indexOf('/', start)
    if (slash < 0) return undefined
    start = slash + 1
  }
  return name.slice(start)
}

/** A quoted name at the start of a text, and the offset of its end. */
function unquote(text: ByteText): { readonly name: ByteText; readonly end: number } | undefined {
  const quoted = /^"((?:[^"\\]|\\[abtnvfr"\\]|\\[0-3][0-7]{2})*)"/s.exec(text)
  if (quoted === null) return undefined
  const [whole, inner = ''] = quoted
  const name = inner.replaceAll(/\\([abtnvfr"\\]|[0-7]{3})/g, (_all, code: string) =>
    code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8)) : (escapes[code] ?? code),
  )
  return { name, end: whole.length }
}

const escapes: Readonly<Record<string, string>> = {
  a: '\u0007',
  b: '\b',
  t: '\t',
  n: '\n',
  v: '\v',
  f: '\f',
  r: '\r',
}
