/**
 * The message of a schema's issue, in the words of the engine's own errors. The schemas say
 * `Invalid input: expected string, received number` for a value of another type.
 */
export function issueText(message: string): string {
  const found = /^Invalid input: expected (\w+), received (\w+)$/.exec(message)
  if (found === null) return message
  const [, expected = '', received = ''] = found
  return `must be ${withArticle(expected)}; it is ${withArticle(received)}`
}

function withArticle(type: string): string {
  if (['undefined', 'null', 'NaN', 'Infinity'].includes(type)) return type
  return `${/^[aeio]/.test(type) ? 'an' : 'a'} ${type}`
}
