import { describe, expect, it } from 'vitest'
import { printableText } from '../../src/adapters/cli/printable.js'

describe('a message on a terminal', () => {
  it.each([
    ['one\n  two', 'one; two'],
    ['one \n\n\t two\n', 'one; two; '],
    ['\u001b[2J', '\\u001b[2J'],
    ['a\u202eb', 'a\\u202eb'],
  ])('%j is shown on one line, without control characters', (text, shown) => {
    expect(printableText(text)).toBe(shown)
  })

  it('may have a long run of spaces', () => {
    // A search that begins at each space would exceed the time limit of a test.
    const text = `${' '.repeat(2_000_000)}end`
    expect(printableText(text)).toBe(text)
  })
})
