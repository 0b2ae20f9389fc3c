import { present } from './present.js'
import { parsePattern, setHas, type CharacterSet, type Piece, type Repeat } from './glob-pattern.js'

/**
 * A parsed glob for paths.
 *
 * `*`, `?` and `[...]` match within a part of a path, and never its leading dot. `**` as a whole part matches
 * any number of parts that do not begin with a dot. `{a,b}`, `{1..3}`, `@(a|b)`, `?( )`, `*( )` and `+( )`
 * are alternatives. A `?` matches one code point. A backslash makes the next character literal. Matching is
 * case-sensitive. A pattern that ends with `/` matches only directories.
 *
 * Paths have no `.`, `..` or empty parts, and no `/` at the end. They begin with `/` only if the pattern
 * does. The time of a match is at most proportional to the length of the path times the size of the pattern.
 * It takes no more memory than the pattern.
 */
export interface Glob {
  readonly pattern: string
  /** Everything that matches is at or below this path; '' if nothing is known. */
  readonly base: string
  /** Whether only {@link base} itself can match. */
  readonly literal: boolean
  /** `directory`: whether the path is a directory. Only then can a pattern that ends with `/` match it. */
  matches: (path: string, directory?: boolean) => boolean
  /** False if nothing below this directory can match. The empty path is the root of all paths. */
  mayContain: (directory: string) => boolean
}

/** A parsed glob for text. It is like {@link Glob}, but `/` and a leading dot are ordinary characters. */
export interface TextGlob {
  readonly pattern: string
  /** The largest number of pattern characters that a match compares with each character of the text. */
  readonly size: number
  matches: (text: string) => boolean
}

/**
 * Parses a glob.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the pattern is malformed or has `!( )`.
 * @throws {EngineError} TOO_LARGE when the pattern is over a limit.
 */
export function parseGlob(pattern: string, field = 'pattern'): Glob {
  const pieces = parsePattern(pattern, true, field)
  return new PathGlob(pattern, pieces)
}

/** Parses a glob for text. Throws the errors of {@link parseGlob}. */
export function parseTextGlob(pattern: string, field = 'pattern'): TextGlob {
  const pieces = parsePattern(pattern, false, field)
  return { pattern, size: sizeOf(pieces), matches: textMatcher(pieces) }
}

/** A match of a whole text with pieces of a pattern, in which `/` and a leading dot are ordinary characters. */
function textMatcher(pieces: readonly Piece[]): (text: string) => boolean {
  const machine = new Machine(pieces, false)
  return (text) => machine.accepts(machine.run(machine.start, text), text)
}

function sizeOf(pieces: readonly Piece[]): number {
  let size = 0
  for (const piece of pieces) {
    size++
    if (piece.type === 'set') size += piece.set.ranges.length + piece.set.classes.size
    else if (piece.type === 'group') for (const one of piece.alternatives) size += 1 + sizeOf(one)
  }
  return size
}

/** {@link parseTextGlob} for one match. */
export function matchText(pattern: string, text: string): boolean {
  return parseTextGlob(pattern).matches(text)
}

class PathGlob implements Glob {
  readonly pattern: string
  readonly base: string
  readonly literal: boolean
  readonly #machine: Machine
  /** The states after the last directory. Paths in one directory are often matched one after the other. */
  #directory = ''
  #states: readonly State[]

  constructor(pattern: string, pieces: readonly Piece[]) {
    this.pattern = pattern
    const plain = pieces.findIndex(({ type }) => type !== 'literal' && type !== 'slash')
    this.literal = plain < 0
    const text = pieces
      .slice(0, this.literal ? pieces.length : plain)
      .map((piece) => (piece.type === 'literal' ? String.fromCodePoint(piece.code) : '/'))
      .join('')
      .replaceAll(/\/{2,}/g, '/')
    const end = this.literal && !text.endsWith('/') ? text.length : text.lastIndexOf('/')
    this.base = end === 0 && text !== '' ? '/' : text.slice(0, Math.max(0, end))
    this.#machine = new Machine(pieces, true)
    this.#states = this.#machine.start
  }

  matches(path: string, directory = false): boolean {
    const cut = path.lastIndexOf('/') + 1
    const above = this.#behind(path.slice(0, cut))
    const states = this.#machine.run(above, path.slice(cut), cut === 0 ? '' : '/')
    if (this.#machine.accepts(states, path.at(-1) ?? '')) return true
    if (!directory || path.length === cut) return false
    return this.#machine.accepts(this.#machine.run(states, '/', path.at(-1)), '/')
  }

  mayContain(directory: string): boolean {
    const text = directory === '' || directory.endsWith('/') ? directory : `${directory}/`
    return this.#behind(text).some(canGoOn)
  }

  /** The states after `text`, which is empty or ends with `/`. */
  #behind(text: string): readonly State[] {
    if (text !== this.#directory) {
      this.#states = this.#machine.run(this.#machine.start, text)
      this.#directory = text
    }
    return this.#states
  }
}

/**
 * A state of a nondeterministic automaton. All states that are possible at a character are tracked together,
 * so there is no backtracking.
 */
type State = {
  readonly code: number
  /** The step that saw this state last. */
  step: number
} & (
  | { readonly type: StepType; readonly set: undefined; readonly to: readonly [next: State] }
  | { readonly type: 'set'; readonly set: CharacterSet; readonly to: readonly [next: State] }
  | { readonly type: 'globstar'; readonly set: undefined; readonly to: readonly [star: State, parts: State] }
  /** What follows `parts` are the ends that a `**` can have, a slash or the end. Nothing follows `end`. */
  | { readonly type: 'split' | 'parts' | 'end'; readonly set: undefined; readonly to: State[] }
)

/** A state that one state follows. */
type StepType = 'filled' | 'literal' | 'slash' | 'any' | 'star'

const slash = 47
const dot = 46

class Machine {
  readonly start: readonly State[]
  readonly #paths: boolean
  #step = 0
  #next: State[] = []

  constructor(pieces: readonly Piece[], paths: boolean) {
    this.#paths = paths
    this.start = [compile(pieces, choice('end', []))]
  }

  /** The states after a text; `before` is the character that precedes it, if any. */
  run(states: readonly State[], text: string, before = ''): readonly State[] {
    let now = states
    let fresh = before === '' || before === '/'
    for (let i = 0; i < text.length && now.length > 0; i++) {
      const code = present(text.codePointAt(i), 'a character')
      this.#advance(now, code, fresh, before !== '' || i > 0)
      now = this.#next
      if (code > 0xffff) i++
      fresh = code === slash
    }
    return now
  }

  /** Whether the text may end here. */
  accepts(states: readonly State[], before: string): boolean {
    return this.#advance(states, -1, before === '' || before === '/', before !== '')
  }

  /**
   * Processes one character, or −1 for the end, and stores the next states in `#next`. It visits each state
   * once. `fresh`: a part of the path begins here. `inside`: a character precedes this one. Returns true if
   * the text may end here.
   */
  #advance(states: readonly State[], code: number, fresh: boolean, inside: boolean): boolean {
    const step = ++this.#step
    const next: State[] = []
    const waiting = [...states]
    const atStart = this.#paths && fresh
    /** Whether a wildcard may match the character. */
    const open = code >= 0 && !(this.#paths && (code === slash || (atStart && code === dot)))
    let ended = false
    /**
     * States after a wildcard or group that matched nothing at the beginning of a part. The part cannot end
     * there.
     */
    const behindNothing: State[] = []
    let slashes = inside
    /** Whether such a wildcard or group precedes in this part. A `**` after it is then not the whole part. */
    let isBehindNothing = false
    for (;;) {
      let one = waiting.pop()
      if (one === undefined) {
        // At a slash or the end, the visited states already cover all other cases.
        if (code < 0 || code === slash) break
        one = behindNothing.pop()
        slashes = false
        isBehindNothing = true
      }
      if (one === undefined) break
      if (one.step === step) continue
      one.step = step
      switch (one.type) {
        case 'end':
          ended ||= code < 0
          break
        case 'split':
          waiting.push(...one.to)
          break
        case 'literal':
          if (one.code === code) next.push(one.to[0])
          break
        case 'slash':
          // Braces can produce a slash after a slash, which has no effect.
          if (atStart && slashes) waiting.push(one.to[0])
          else if (code === slash) next.push(one.to[0])
          break
        case 'any':
          if (open) next.push(one.to[0])
          break
        case 'set':
          if (open && setHas(one.set, code)) next.push(one.to[0])
          break
        case 'star':
          if (open) next.push(one)
          if (!atStart) waiting.push(one.to[0])
          else if (open) behindNothing.push(one.to[0])
          break
        case 'filled':
          if (atStart) behindNothing.push(one.to[0])
          else waiting.push(one.to[0])
          break
        case 'globstar':
          waiting.push(one.to[0])
          if (atStart && !isBehindNothing) waiting.push(one.to[1])
          break
        case 'parts':
          if (open || (code === slash && !atStart)) next.push(one)
          for (const end of one.to) waiting.push(atStart && end.type === 'slash' ? end.to[0] : end)
          break
      }
    }
    this.#next = next
    return ended
  }
}

// All states have the same properties in the same order, which makes reading them fast.

function state(type: StepType, next: State, code = 0): State {
  return { type, code, set: undefined, to: [next], step: 0 }
}

function setState(set: CharacterSet, next: State): State {
  return { type: 'set', code: 0, set, to: [next], step: 0 }
}

function globstar(star: State, parts: State): State {
  return { type: 'globstar', code: 0, set: undefined, to: [star, parts], step: 0 }
}

function choice(type: 'split' | 'parts' | 'end', to: State[]): State {
  return { type, code: 0, set: undefined, to, step: 0 }
}

/** The state before these pieces. `next` is the state after them. */
function compile(pieces: readonly Piece[], next: State): State {
  return pieces.reduceRight((behind, piece) => compilePiece(piece, behind), next)
}

function compilePiece(piece: Piece, next: State): State {
  switch (piece.type) {
    case 'literal':
      return state('literal', next, piece.code)
    case 'set':
      return setState(piece.set, next)
    case 'any':
    case 'slash':
      return state(piece.type, next)
    case 'star':
      return next.type === 'star' ? next : state('star', next)
    case 'globstar':
      return compileGlobstar(next)
    default:
      return compileGroup(piece.repeat, piece.alternatives, next)
  }
}

/** If a slash or the end follows a `**`, it can be a whole part. Before anything else, it is a `*`. */
function compileGlobstar(next: State): State {
  const star = state('star', next)
  const ends = reachable(next).filter(({ type }) => type === 'end' || type === 'slash')
  return ends.length === 0 ? star : globstar(star, choice('parts', ends))
}

function compileGroup(repeat: Repeat, alternatives: readonly (readonly Piece[])[], next: State): State {
  if (repeat === 'braces') {
    const ways = alternatives.map((one) => compile(one, next))
    return choice('split', ways)
  }
  const behind = state('filled', next)
  const again = repeat === '*' || repeat === '+' ? choice('split', [behind]) : behind
  const ways = alternatives.map((one) => compile(one, again))
  if (again.type === 'split') again.to.push(...ways)
  return repeat === '*' ? again : choice('split', repeat === '?' ? [...ways, behind] : ways)
}

/** The states that can be reached from a state without a character. */
function reachable(from: State): State[] {
  const seen = new Set([from])
  for (const one of seen) if (one.type === 'split') one.to.forEach((to) => seen.add(to))
  return [...seen].filter(({ type }) => type !== 'split')
}

/** Whether the pattern can match further characters. */
function canGoOn(from: State): boolean {
  return reachable(from).some(({ type }) => type !== 'end')
}
