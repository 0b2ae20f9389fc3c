/** Makes untrusted names and messages safe to show on a terminal. */

/** Control and format characters (including text direction), lone surrogates and line separators. */
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u
const everyUnsafe = new RegExp(unsafe, 'gu')

/**
 * Returns a name on one line. A name with control characters, or with a leading quote, is shown as a JSON
 * string. Any other name is unchanged.
 */
export function printableName(name: string): string {
  return unsafe.test(name) || name.startsWith('"') ? asJson(name) : name
}

/** Returns a message on one line, with control characters escaped. */
export function printableText(text: string): string {
  // The search begins only where white space begins. Otherwise its time is quadratic.
  return text.replaceAll(/(?<!\s)\s*\n\s*/g, '; ').replaceAll(everyUnsafe, escaped)
}

/** Returns a line of a file with control characters escaped, except tabs. */
export function printableLine(line: string): string {
  return line.replaceAll(everyUnsafe, (characters) =>
    characters === '\t' ? characters : escaped(characters),
  )
}

/** Returns JSON on one line, with control characters escaped. */
export function asJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(everyUnsafe, escaped)
}

function escaped(characters: string): string {
  let text = ''
  for (let at = 0; at < characters.length; at++)
    text += `\\u${characters.charCodeAt(at).toString(16).padStart(4, '0')}`
  return text
}
