import { some, type Steps } from '../../base/cooperative.js'
import { parseGlob, type Glob } from '../../base/glob.js'
import type { FileFilter } from './grep-request.js'
import { globFrom } from './search-input.js'

/** Decides which files of a tree are searched. Paths have no slash at the start. Long globs take time for each path. */
export class SearchedFiles {
  readonly #wanted: readonly NameOrPath[]
  readonly #excluded: readonly NameOrPath[]
  readonly #nameEnds: readonly string[]

  constructor({ globs, excludeGlobs, nameEnds }: FileFilter, directory: string) {
    this.#wanted = globs.map((pattern, index) => parse(directory, pattern, `globs[${index}]`))
    this.#excluded = excludeGlobs.map((pattern, index) => parse(directory, pattern, `excludeGlobs[${index}]`))
    this.#nameEnds = nameEnds
  }

  *hasFile(path: string, name: string): Steps<boolean, undefined> {
    const isMatch = (one: NameOrPath): boolean => one.matches(path, name, false)
    return (
      (this.#nameEnds.length === 0 || this.#nameEnds.some((end) => name.endsWith(end))) &&
      (this.#wanted.length === 0 || (yield* some(this.#wanted, isMatch))) &&
      !(yield* some(this.#excluded, isMatch))
    )
  }

  /** Whether the directory may have files that are searched. */
  *mayContain(path: string, name: string): Steps<boolean, undefined> {
    return (
      (this.#wanted.length === 0 || (yield* some(this.#wanted, (one) => one.mayContain(path)))) &&
      !(yield* some(this.#excluded, (one) => one.matches(path, name, true)))
    )
  }
}

interface NameOrPath {
  readonly matches: (path: string, name: string, isDirectory: boolean) => boolean
  readonly mayContain: (directory: string) => boolean
}

function parse(directory: string, pattern: string, field: string): NameOrPath {
  const isName = !pattern.slice(0, -1).includes('/')
  const glob: Glob = isName ? parseGlob(pattern, field) : globFrom(directory, pattern, field)
  if (isName)
    return {
      matches: (_path, name, isDirectory) => glob.matches(name, isDirectory),
      mayContain: () => true,
    }
  return {
    matches: (path, _name, isDirectory) => glob.matches(path, isDirectory),
    mayContain: (path) => glob.mayContain(path),
  }
}
