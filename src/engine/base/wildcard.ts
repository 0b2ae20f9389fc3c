import { setHas, type CharacterSet, type Piece } from './glob-pattern.js'
import { itemAt } from './present.js'

/** Marks in a list of the codes of characters. */
const any = -1
const star = -2
const firstSet = -3

/**
 * A match of a whole text with characters, sets, `?` and `*`. The time is at most the product of both lengths, and
 * usually that of the text.
 */
export function wildcardMatcher(pieces: readonly Piece[]): (text: string) => boolean {
  const sets: CharacterSet[] = []
  const codes: number[] = []
  for (const piece of pieces) {
    if (piece.type === 'literal') codes.push(piece.code)
    else if (piece.type === 'set') codes.push(firstSet - (sets.push(piece.set) - 1))
    else if (piece.type === 'star') {
      if (codes.at(-1) !== star) codes.push(star)
    } else codes.push(any)
  }
  const least = codes.filter((code) => code !== star).length
  const isFixed = least === codes.length
  const fits = (at: number, character: number): boolean => {
    const code = itemAt(codes, at)
    if (code >= 0 || code === star) return code === character
    return code === any || setHas(itemAt(sets, firstSet - code), character)
  }
  return (text) => {
    if (text.length < least || (isFixed && text.length > least)) return false
    // The characters after the last star have one place.
    let end = text.length
    let last = codes.length
    for (; last > 0 && codes[last - 1] !== star; last--)
      if (!fits(last - 1, text.charCodeAt(--end))) return false
    if (last === 0) return true
    let at = 0
    let index = 0
    let starIndex = -1
    let starAt = 0
    while (at < end) {
      if (codes[index] === star) {
        if (index === last - 1) return true
        starIndex = index++
        starAt = at
      } else if (fits(index, text.charCodeAt(at))) {
        at++
        index++
      } else {
        // The last star takes one more character. Earlier stars need not.
        if (starIndex < 0) return false
        at = ++starAt
        index = starIndex + 1
      }
    }
    return index === last - 1 && codes[index] === star
  }
}
