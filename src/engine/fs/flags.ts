import { present } from '../base/present.js'
import { valueError } from './argument-errors.js'
import { checkInteger } from './values.js'
import { constants } from './constants.js'

/** The parsed flags of open(2). */
export interface Flags {
  readonly read: boolean
  readonly write: boolean
  /** Writes go to the end of the file and ignore their position. */
  readonly append: boolean
  readonly create: boolean
  readonly exclusive: boolean
  readonly truncate: boolean
  readonly directory: boolean
  readonly noFollow: boolean
}

const { O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW } = constants
const bits: readonly (readonly [names: readonly string[], bits: number])[] = [
  [['r', 'rs', 'sr'], O_RDONLY],
  [['r+', 'rs+', 'sr+'], O_RDWR],
  [['w'], O_TRUNC | O_CREAT | O_WRONLY],
  [['wx', 'xw'], O_TRUNC | O_CREAT | O_WRONLY | O_EXCL],
  [['w+'], O_TRUNC | O_CREAT | O_RDWR],
  [['wx+', 'xw+'], O_TRUNC | O_CREAT | O_RDWR | O_EXCL],
  [['a', 'as', 'sa'], O_APPEND | O_CREAT | O_WRONLY],
  [['ax', 'xa'], O_APPEND | O_CREAT | O_WRONLY | O_EXCL],
  [['a+', 'as+', 'sa+'], O_APPEND | O_CREAT | O_RDWR],
  [['ax+', 'xa+'], O_APPEND | O_CREAT | O_RDWR | O_EXCL],
]

const byName = new Map<unknown, Flags>(
  bits.flatMap(([names, flags]) => names.map((name) => [name, fromBits(flags)] as const)),
)

/**
 * Parses flags: one of Node's names such as `w+`, or bits of {@link constants}. Absent flags open for
 * reading.
 */
export function toFlags(flags: unknown, name = 'flags'): Flags {
  const known = byName.get(flags)
  if (known !== undefined) return known
  if (flags === undefined || flags === null) return present(byName.get('r'), 'r')
  if (typeof flags !== 'number') throw valueError(name, 'is invalid', flags)
  return fromBits(checkInteger(name, flags, -(2 ** 31), 2 ** 31 - 1))
}

function fromBits(flags: number): Flags {
  const access = flags & 3
  return {
    read: access === O_RDONLY || access === O_RDWR,
    write: access === O_WRONLY || access === O_RDWR,
    append: (flags & O_APPEND) !== 0,
    create: (flags & O_CREAT) !== 0,
    exclusive: (flags & O_CREAT) !== 0 && (flags & O_EXCL) !== 0,
    truncate: (flags & O_TRUNC) !== 0,
    directory: (flags & O_DIRECTORY) !== 0,
    noFollow: (flags & O_NOFOLLOW) !== 0,
  }
}
