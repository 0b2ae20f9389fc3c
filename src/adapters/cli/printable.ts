/** Makes untrusted names and messages safe to show on a terminal. */

/** Control and format characters (including text direction), lone surrogates and line separators. */
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u
const everyUnsafe = new RegExp(unsafe, 'gu')

/**
 * A name on one line. A name with control characters, or with a quote at its start, is shown as a JSON string. Any
 * other name is unchanged.
 */
export function printableName(name: string): string {
  return unsafe.test(name) || name.startsWith('"') ? asJson(name) : name
}

/** A message on one line. */
export function printableText(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, '; ').replaceAll(everyUnsafe, escaped)
}

/** A line of a file. Tabs are kept. */
export function printableLine(line: string): string {
  return line.replaceAll(everyUnsafe, (characters) =>
    characters === '\t' ? characters : escaped(characters),
  )
}

/** JSON on one line, with control characters escaped. */
export function asJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(everyUnsafe, escaped)
}

function escaped(characters: string): string {
  let text = ''
  for (let at = 0; at < characters.length; at++)
    text += `\\u${characters.charCodeAt(at).toString(16).padStart(4, '0')}`
  return text
}
