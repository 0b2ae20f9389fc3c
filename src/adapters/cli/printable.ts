/** Names and messages as a terminal may show them: they come from others. */

/** Control and format characters (of direction too), halves of characters, and separators of lines. */
const unsafe = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u
const everyUnsafe = new RegExp(unsafe, 'gu')

/**
 * A name on one line. One with characters that a terminal would act on, or that begins with a quote, is written as
 * a JSON string; any other stands as it is.
 */
export function printableName(name: string): string {
  return unsafe.test(name) || name.startsWith('"') ? asJson(name) : name
}

/** A message on one line. */
export function printableText(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, '; ').replaceAll(everyUnsafe, escaped)
}

/** A line of a file, with its tabs. */
export function printableLine(line: string): string {
  return line.replaceAll(everyUnsafe, (characters) =>
    characters === '\t' ? characters : escaped(characters),
  )
}

/** JSON on one line, with nothing in it that a terminal would act on. */
export function asJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(everyUnsafe, escaped)
}

function escaped(characters: string): string {
  let text = ''
  for (let at = 0; at < characters.length; at++)
    text += `\\u${characters.charCodeAt(at).toString(16).padStart(4, '0')}`
  return text
}
