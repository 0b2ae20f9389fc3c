import {
  EngineError,
  isCount,
  isListOf,
  isText,
  isTupleOf,
  isWith,
  type Guard,
  type HostIndex,
} from '../../engine/ports.js'
import { hostLimits } from './limits.js'

/**
 * A name in the last scan, its kind (f: file, d: directory, l: symlink), and a stamp that changes with the
 * file.
 */
export type Seen = readonly [name: string, kind: 'f' | 'd' | 'l', stamp: string]

/** The first text of a directory. `texts` is the number of its texts, including this one. */
interface FirstText {
  readonly texts: number
  readonly seen: readonly Seen[]
}

const isSeen = isListOf(
  isTupleOf<Seen>(isText, (kind) => kind === 'f' || kind === 'd' || kind === 'l', isText),
)
const isFirstText = isWith<FirstText>({ texts: isCount, seen: isSeen })

/** The names of one directory in the last scan, stored in texts of limited size. */
export class DirectoryIndex {
  /** All entries of the last scan, by name. */
  readonly seen = new Map<string, Seen>()
  readonly #index: HostIndex
  readonly #path: string
  readonly #texts: string[] = []

  private constructor(index: HostIndex, path: string) {
    this.#index = index
    this.#path = path
  }

  /** Throws DATA_LOSS if the stored index is damaged. */
  static async load(index: HostIndex, path: string): Promise<DirectoryIndex> {
    const loaded = new DirectoryIndex(index, path)
    const text = await index.get(path)
    if (text === undefined) return loaded
    const { texts, seen } = parse(text, path, isFirstText)
    loaded.#add(text, seen)
    for (let number = 1; number < texts; number++) {
      const further = await index.get(keyOf(path, number))
      if (further !== undefined) loaded.#add(further, parse(further, path, isSeen))
    }
    return loaded
  }

  async save(seen: readonly Seen[]): Promise<void> {
    const texts = Math.max(1, Math.ceil(seen.length / hostLimits.namesPerText))
    for (let number = 0; number < texts; number++) {
      const part = seen.slice(number * hostLimits.namesPerText, (number + 1) * hostLimits.namesPerText)
      const text = JSON.stringify(number === 0 ? ({ texts, seen: part } satisfies FirstText) : part)
      if (text !== this.#texts[number]) await this.#index.set(keyOf(this.#path, number), text)
    }
    for (let number = texts; number < this.#texts.length; number++)
      await this.#index.delete(keyOf(this.#path, number))
  }

  /** Deletes the index of a directory and of all directories below it. */
  static async forget(index: HostIndex, path: string): Promise<void> {
    const pending = [path]
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      const directory = await DirectoryIndex.load(index, next)
      for (const [name, kind] of directory.seen.values())
        if (kind === 'd' && name !== '.') pending.push(`${next}/${name}`)
      for (const number of directory.#texts.keys()) await index.delete(keyOf(next, number))
    }
  }

  #add(text: string, seen: readonly Seen[]): void {
    this.#texts.push(text)
    for (const one of seen) this.seen.set(one[0], one)
  }
}

function parse<T>(text: string, path: string, is: Guard<T>): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined
  }
  if (is(value)) return value
  throw new EngineError('DATA_LOSS', `the stored index of the directory ${path} is damaged`, { path })
}

function keyOf(path: string, number: number): string {
  return number === 0 ? path : `${path}//${number}`
}
