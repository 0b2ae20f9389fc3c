import { itemAt, onlyItem, present } from './present.js'
import { invalid } from './errors.js'
import { parseText, tooLarge } from './input.js'
import { limits } from './limits.js'

/** The elements of a pattern. */
export type Piece =
  | { readonly type: 'literal'; readonly code: number }
  | { readonly type: 'slash' | 'any' | 'star' | 'globstar' }
  | { readonly type: 'set'; readonly set: CharacterSet }
  | { readonly type: 'group'; readonly repeat: Repeat; readonly alternatives: readonly (readonly Piece[])[] }

/** The notation of a group of alternatives. The sign before its parentheses gives the allowed repetitions. */
export type Repeat = 'braces' | '@' | '?' | '*' | '+'

/** `[...]`: ranges of code points, and named classes. */
export interface CharacterSet {
  readonly negated: boolean
  readonly ranges: readonly (readonly [first: number, last: number])[]
  readonly classes: ReadonlySet<RegExp>
}

export function setHas({ negated, ranges, classes }: CharacterSet, code: number): boolean {
  for (const range of ranges) if (code >= range[0] && code <= range[1]) return !negated
  if (classes.size > 0) {
    const character = String.fromCodePoint(code)
    for (const one of classes) if (one.test(character)) return !negated
  }
  return negated
}

/**
 * Parses a glob. If `paths` is true, `/` and `**` have their special meaning. Limits bound the time and the
 * number of pieces of every pattern. As in a shell, a `[` or `{` without its end is literal, and so are
 * braces without a comma or range.
 */
export function parsePattern(pattern: string, paths: boolean, field: string): readonly Piece[] {
  const characters = Array.from(parseText(field, pattern, limits.globBytes))
  const { groups, sets } = pair(characters, paths, field)
  let alternatives = 0
  return sequence(0, characters.length, false)

  function sequence(from: number, to: number, inParentheses: boolean): Piece[] {
    const pieces: Piece[] = []
    for (let i = from; i < to; i++) {
      const character = itemAt(characters, i)
      const set = sets.get(i)
      const group = groups.get(character !== '{' && characters[i + 1] === '(' ? i + 1 : i)
      if (set !== undefined) {
        pieces.push(set.piece)
        i = set.end
      } else if (group !== undefined) {
        pieces.push(character === '{' ? braces(i, group, inParentheses) : parentheses(i, group))
        i = group.end
      } else if (character === '*') {
        const start = i
        while (characters[i + 1] === '*' && i + 1 < to && !isSign(i + 1)) i++
        const whole = paths && !inParentheses && i === start + 1 && characters[start - 1] !== ')'
        pieces.push({ type: whole ? 'globstar' : 'star' })
      } else if (character === '?') {
        pieces.push({ type: 'any' })
      } else if (paths && isDotPart(i)) {
        while (characters[i + 1] === '/' && i + 1 < to) i++
      } else {
        const piece = literal(character === '\\' ? itemAt(characters, ++i) : character)
        if (piece.type !== 'slash' || pieces.at(-1)?.type !== 'slash') pieces.push(piece)
      }
    }
    return pieces
  }

  /** Whether this is the sign of a group in parentheses. */
  function isSign(i: number): boolean {
    return characters[i + 1] === '(' && groups.has(i + 1)
  }

  /** Whether a part of the path is only `.`, which has no effect. */
  function isDotPart(i: number): boolean {
    if (characters[i] !== '.' || (i > 0 && characters[i - 1] !== '/')) return false
    return characters[i + 1] === '/' || (i > 0 && i + 1 === characters.length)
  }

  function literal(character: string): Piece {
    if (paths && character === '/') return { type: 'slash' }
    return { type: 'literal', code: present(character.codePointAt(0), 'a character') }
  }

  function braces(open: number, group: Group, inParentheses: boolean): Piece {
    if (group.range !== undefined) {
      const words = rangeWords(group.range, count)
      const spelled = words.map((word) => Array.from(word, literal))
      return { type: 'group', repeat: 'braces', alternatives: spelled }
    }
    return { type: 'group', repeat: 'braces', alternatives: split(open, group, inParentheses) }
  }

  function parentheses(sign: number, group: Group): Piece {
    const repeat = characters[sign] as Repeat
    return { type: 'group', repeat, alternatives: split(sign + 1, group, true) }
  }

  function split(open: number, { cuts, end }: Group, inParentheses: boolean): Piece[][] {
    count(cuts.length + 1)
    const ends = [...cuts, end]
    return ends.map((cut, i) => sequence((i === 0 ? open : itemAt(ends, i - 1)) + 1, cut, inParentheses))
  }

  function count(more: number): void {
    alternatives += more
    if (alternatives > limits.globAlternatives) throw tooLarge(field, 'alternatives', limits.globAlternatives)
  }
}

interface Group {
  readonly end: number
  /** The positions of the separators between the alternatives. */
  readonly cuts: readonly number[]
  readonly range: RegExpExecArray | undefined
}

interface ParsedSet {
  readonly end: number
  readonly piece: Piece
}

/** Finds all groups and sets, by the positions where they open, in one pass from left to right. */
function pair(
  characters: readonly string[],
  paths: boolean,
  field: string,
): { readonly groups: ReadonlyMap<number, Group>; readonly sets: ReadonlyMap<number, ParsedSet> } {
  const groups = new Map<number, Group>()
  const sets = new Map<number, ParsedSet>()
  const open: { readonly at: number; readonly closer: '}' | ')'; readonly cuts: number[] }[] = []
  let sign: string | undefined
  /** A set that opens before this position has no end. */
  let endless = 0
  for (let i = 0; i < characters.length; i++) {
    const character = itemAt(characters, i)
    const top = open.at(-1)
    if (character === '\\') {
      if (++i === characters.length) throw invalid(field, 'ends with a single backslash')
    } else if (character === '[') {
      const set = i < endless ? endless : parseSet(characters, i, paths, field)
      if (typeof set === 'number') {
        endless = set
      } else {
        sets.set(i, set)
        i = set.end
      }
    } else if (character === '{') {
      open.push({ at: i, closer: '}', cuts: [] })
    } else if (character === '(' && sign === '!') {
      throw invalid(field, 'has a group !( ), which is not supported')
    } else if (character === '(' && sign !== undefined && '@?*+'.includes(sign)) {
      open.push({ at: i, closer: ')', cuts: [] })
    } else if (top !== undefined && character === (top.closer === '}' ? ',' : '|')) {
      top.cuts.push(i)
    } else if (character === '}' && top?.closer === '}') {
      open.pop()
      const range = top.cuts.length === 0 ? parseRange(characters.slice(top.at + 1, i)) : undefined
      if (top.cuts.length > 0 || range !== undefined) groups.set(top.at, { end: i, cuts: top.cuts, range })
    } else if (character === ')' && open.some(({ closer }) => closer === ')')) {
      while (open.at(-1)?.closer === '}') open.pop()
      const { at, cuts } = present(open.pop(), 'the start of a group')
      groups.set(at, { end: i, cuts, range: undefined })
    }
    if (open.length > limits.globNesting) throw tooLarge(field, 'levels of nesting', limits.globNesting)
    sign = character === '\\' || character === '[' ? undefined : character
  }
  if (open.some(({ closer }) => closer === ')')) throw invalid(field, 'has a group that is not closed by ")"')
  return { groups, sets }
}

/** `1..9`, `01..10..2` or `a..e`. Numbers have at most 15 digits. */
function parseRange(inside: readonly string[]): RegExpExecArray | undefined {
  if (inside.length > limits.globRangeLength) return undefined
  const text = inside.join('')
  return (
    /^(-?\d{1,15})\.\.(-?\d{1,15})(?:\.\.(-?\d{1,15}))?$/.exec(text) ??
    /^([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,15}))?$/.exec(text) ??
    undefined
  )
}

function rangeWords(
  [, first = '', last = '', by]: RegExpExecArray,
  count: (words: number) => void,
): string[] {
  const letters = /^[A-Za-z]$/.test(first)
  const from = letters ? first.charCodeAt(0) : Number(first)
  const to = letters ? last.charCodeAt(0) : Number(last)
  const step = Math.max(1, Math.abs(Number(by ?? 1)))
  const length = Math.floor(Math.abs(to - from) / step) + 1
  count(length)
  const padded = /^-?0\d/.test(first) || /^-?0\d/.test(last)
  const width = padded ? Math.max(first.length, last.length) : 0
  return Array.from({ length }, (_, i) => {
    const value = from + (to < from ? -i : i) * step
    if (letters) return String.fromCharCode(value)
    const digits = String(Math.abs(value))
    return value < 0 ? `-${digits.padStart(width - 1, '0')}` : digits.padStart(width, '0')
  })
}

/**
 * The set that opens here, or, if it has no end, the position where the search for its end stopped. In paths,
 * a `/` inside means that the set has no end. One plain character in brackets is the same as the character:
 * `[.]` matches a leading dot.
 */
function parseSet(
  characters: readonly string[],
  open: number,
  paths: boolean,
  field: string,
): ParsedSet | number {
  let i = open + 1
  const negated = characters[i] === '!' || characters[i] === '^'
  if (negated) i++
  const ranges: [first: number, last: number][] = []
  const classes = new Set<RegExp>()
  for (let empty = true; ; empty = false) {
    if (characters[i] === ']' && !empty) break
    if (characters[i] === '[' && characters[i + 1] === ':') {
      const [named, name] = /^\[:([a-z]{1,8}):\]/.exec(characters.slice(i, i + 12).join('')) ?? []
      if (named !== undefined && name !== undefined) {
        const one = namedClasses.get(name)
        if (one === undefined) throw invalid(field, `has an unknown class ${named}`)
        classes.add(one)
        i += named.length
        continue
      }
    }
    const first = next()
    if (first === undefined) return i
    let last: number | undefined = first
    if (characters[i] === '-' && characters[i + 1] !== ']' && i + 1 < characters.length) {
      i++
      last = next()
      if (last === undefined) return i
      if (last < first) throw invalid(field, 'has a range of characters in the wrong order')
    }
    ranges.push([first, last])
  }
  const only = negated || classes.size > 0 ? undefined : onlyItem(ranges)
  return {
    end: i,
    piece:
      only !== undefined && only[0] === only[1]
        ? { type: 'literal', code: only[0] }
        : { type: 'set', set: { negated, ranges, classes } },
  }

  function next(): number | undefined {
    if (characters[i] === '\\') i++
    const character = characters[i++]
    if (character === undefined || (paths && character === '/')) return undefined
    return character.codePointAt(0)
  }
}

/** Each is tested on one code point at a time. */
const namedClasses: ReadonlyMap<string, RegExp> = new Map([
  ['alnum', /[\p{L}\p{Nl}\p{Nd}]/u],
  ['alpha', /[\p{L}\p{Nl}]/u],
  ['ascii', /[\0-\x7f]/u],
  ['blank', /[\p{Zs}\t]/u],
  ['cntrl', /\p{Cc}/u],
  ['digit', /\p{Nd}/u],
  ['graph', /[^\p{Z}\p{C}]/u],
  ['lower', /\p{Ll}/u],
  ['print', /\P{C}/u],
  ['punct', /\p{P}/u],
  ['space', /[\p{Z}\t\r\n\v\f]/u],
  ['upper', /\p{Lu}/u],
  ['word', /[\p{L}\p{Nl}\p{Nd}\p{Pc}]/u],
  ['xdigit', /[A-Fa-f0-9]/u],
])
