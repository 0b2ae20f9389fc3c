import { projectPaths, shuffled } from './project-files.js'

const linesPerFile = 8
const matchingFiles = 50
const changedFiles = 10
const blamedLines = 200

/** The text that the search finds, in about 50 files of each tree. */
export const needle = 'needle'

/** Path and text of each file. */
export type Files = ReadonlyMap<string, string>

/** The files of the versions that forkspace and git get alike. Paths are absolute. */
export class VersionFiles {
  readonly base: Files
  /** 10 files, changed near their beginning. */
  readonly theirs: Files
  /** 10 other files. */
  readonly others: Files
  /** The files of `theirs`, changed near their end: a merge needs the lines of both sides. */
  readonly same: Files
  /** A file, and its successive texts. */
  readonly blamed: { readonly path: string; readonly texts: readonly string[] }

  constructor(size: number, versions: number) {
    const paths = projectPaths(size)
    const step = Math.max(1, Math.floor(size / matchingFiles))
    this.base = new Map(paths.map((path, index) => [path, fileText(index, index % step === 0)]))
    const chosen = shuffled(paths).slice(0, 2 * changedFiles)
    const changed = (from: number, line: number): Files =>
      new Map(
        chosen
          .slice(from, from + changedFiles)
          .map((path) => [path, withLine(this.base.get(path) ?? '', line, `changed line ${line}`)]),
      )
    this.theirs = changed(0, 1)
    this.others = changed(changedFiles, linesPerFile - 2)
    this.same = changed(0, linesPerFile - 2)
    const path = paths[size >> 1] ?? '/project/blamed.ts'
    this.blamed = { path, texts: blamedTexts(versions) }
  }
}

function fileText(number: number, matches: boolean): string {
  const lines = Array.from({ length: linesPerFile }, (_, line) => `export const part${line} = ${number}`)
  if (matches) lines[4] = `// ${needle} of file ${number}`
  return `${lines.join('\n')}\n`
}

/** Each text changes five lines of the one before it. */
function blamedTexts(versions: number): string[] {
  let text = `${Array.from({ length: blamedLines }, (_, line) => `line ${line}`).join('\n')}\n`
  return Array.from({ length: versions }, (_, version) => {
    for (let change = 0; change < 5; change++)
      text = withLine(
        text,
        (version * 37 + change * 41) % blamedLines,
        `version ${version}, change ${change}`,
      )
    return text
  })
}

function withLine(text: string, index: number, line: string): string {
  const lines = text.split('\n')
  lines[index] = line
  return lines.join('\n')
}
