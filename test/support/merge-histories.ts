import type { MergeResult, Session } from '../../src/index.js'
import { repetitive, type FileTree } from './git-merge-tree.js'

type Random = () => number

const directories = ['', '', '/d', '/e', '/d/e', '/d/f']
const names = ['a', 'b', 'd', `r${repetitive}`, `s${repetitive}`, 'f']

/** Makes random changes of a tree. A name is drawn from few, so that the changes of two sides meet. */
export class TreeEditor {
  readonly #random: Random
  #made = 0

  constructor(random: Random) {
    this.#random = random
  }

  tree(): Map<string, string> {
    const files = new Map<string, string>()
    for (let n = 3 + this.#below(8); n > 0; n--) this.#add(files)
    return files
  }

  /**
   * A changed copy. Renamed and copied files keep their content, and different files share no lines: git then finds
   * no renames of changed files.
   */
  change(before: FileTree, count: number): Map<string, string> {
    const files = new Map(before)
    const fixed = new Set<string>()
    for (; count > 0; count--) this.#changeOne(before, files, fixed)
    return files
  }

  #changeOne(before: FileTree, files: Map<string, string>, fixed: Set<string>): void {
    const path = this.#pick([...files.keys()])
    const kind = this.#below(16)
    if (path === undefined || kind < 2) {
      this.#add(files)
      return
    }
    const file = files.get(path) ?? ''
    if (kind < 4) files.delete(path)
    else if (kind < 7) {
      const to = this.#path()
      if (before.get(path)?.slice(7) !== file.slice(7) || isRepetitive(to) !== isRepetitive(path)) return
      files.delete(path)
      this.#put(files, to, file)
      fixed.add(to)
    } else if (kind === 7 && file.startsWith('100'))
      files.set(
        path,
        file.replace(/^\d+/, (mode) => (mode === '100644' ? '100755' : '100644')),
      )
    else if (kind === 8) {
      if (fixed.has(path)) return
      files.set(path, this.#newFile(path))
      fixed.add(path)
    } else if (!fixed.has(path)) files.set(path, this.#edited(path, file))
  }

  #put(files: Map<string, string>, path: string, file: string): void {
    for (const other of files.keys())
      if (other.startsWith(`${path}/`) || path.startsWith(`${other}/`)) files.delete(other)
    files.set(path, file)
  }

  #add(files: Map<string, string>): void {
    const path = this.#path()
    this.#put(files, path, this.#newFile(path))
  }

  #newFile(path: string): string {
    const id = this.#made++
    const kind = isRepetitive(path) ? 3 + this.#below(8) : this.#below(12)
    if (kind === 0) return `120000 target ${id}`
    if (kind === 1) return `100644 \0${id} ${this.#random()}`
    if (kind === 2) return '100644 '
    const lines = Array.from({ length: 4 + this.#below(16) }, () => this.#line(id, isRepetitive(path)))
    return `${kind === 3 ? '100755' : '100644'} ${lines.join('')}`
  }

  #line(id: number | string, repeats: boolean): string {
    return `${id} ${repeats ? 'xyz'[this.#below(3)] : `line ${this.#random()}`}\n`
  }

  #edited(path: string, file: string): string {
    if (file.startsWith('120000')) return `120000 target ${this.#made++}`
    const [mode, content] = [file.slice(0, 7), file.slice(7)]
    if (content.includes('\0')) return `${mode}${content}${this.#random()}`
    const lines = content.match(/.*\n|.+$/g) ?? []
    const id = lines[0]?.split(' ')[0] ?? String(this.#made++)
    for (let n = 1 + this.#below(2); n > 0; n--) {
      const added = Array.from({ length: this.#below(3) }, () => this.#line(id, isRepetitive(path)))
      lines.splice(this.#below(lines.length + 1), this.#below(3), ...added)
    }
    return mode + lines.join('')
  }

  #path(): string {
    return `${this.#pick(directories)}/${this.#pick(names)}`
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[this.#below(items.length)]
  }

  #below(count: number): number {
    return this.#random() % Math.max(count, 1)
  }
}

function isRepetitive(path: string): boolean {
  return path.endsWith(repetitive)
}

/** Gives a session these files. Directories without files are removed. */
export function writeTree({ fs }: Session, files: FileTree): void {
  const before = readTree({ fs })
  for (const [path, file] of before) if (kindOf(files.get(path)) !== kindOf(file)) fs.unlinkSync(path)
  removeEmpty(fs, '/')
  for (const [path, file] of files) {
    if (before.get(path) === file) continue
    fs.mkdirSync(path.slice(0, path.lastIndexOf('/')) || '/', { recursive: true })
    if (file.startsWith('120000')) {
      if (before.has(path) && kindOf(before.get(path)) === '12') fs.unlinkSync(path)
      fs.symlinkSync(file.slice(7), path)
      continue
    }
    fs.writeFileSync(path, Buffer.from(file.slice(7), 'latin1'))
    fs.chmodSync(path, Number.parseInt(file.slice(3, 6), 8))
  }
}

function kindOf(file: string | undefined): string | undefined {
  return file?.slice(0, 2)
}

function removeEmpty(fs: Session['fs'], directory: string): boolean {
  let isEmpty = true
  for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
    const path = `${directory === '/' ? '' : directory}/${entry.name}`
    if (!entry.isDirectory() || !removeEmpty(fs, path)) isEmpty = false
  }
  if (isEmpty && directory !== '/') fs.rmdirSync(directory)
  return isEmpty
}

/** The files and symlinks of a session. */
export function readTree({ fs }: Pick<Session, 'fs'>, above = ''): Map<string, string> {
  const files = new Map<string, string>()
  for (const entry of fs.readdirSync(above || '/', { withFileTypes: true })) {
    const path = `${above}/${entry.name}`
    if (entry.isDirectory()) for (const [below, file] of readTree({ fs }, path)) files.set(below, file)
    else if (entry.isSymbolicLink()) files.set(path, `120000 ${fs.readlinkSync(path)}`)
    else {
      const mode = (fs.statSync(path).mode & 0o100) === 0 ? '100644' : '100755'
      files.set(path, `${mode} ${fs.readFileSync(path).toString('latin1')}`)
    }
  }
  return files
}

const sorted = (files: FileTree): [string, string][] => [...files].sort(([a], [b]) => (a < b ? -1 : 1))

/** The paths of conflicts as git lists them: a file with two new names counts under all three names. */
export function conflictPaths({ conflicts }: MergeResult): string[] {
  const paths = conflicts.flatMap(({ path, kind, base, ours, theirs }) =>
    kind === 'rename/rename' ? [base, ours, theirs].flatMap((side) => side?.path ?? []) : [path],
  )
  return [...new Set(paths)].sort()
}

/** The files outside of conflicts. git moves files that are in the way of a directory: to `path~side`. */
export function mergedFiles(files: FileTree, conflicts: readonly string[]): [string, string][] {
  const isMerged = (path: string): boolean =>
    !conflicts.some((one) => path === one || path.startsWith(`${one}/`) || path.startsWith(`${one}~`))
  return sorted(files).filter(([path]) => isMerged(path))
}
