import { signal } from '@preact/signals'
import { call, messageOf, ofSession, pages } from './api.js'
import { pageLimits } from './limits.js'
import type { Change, DirectoryEntry, NodeKind, Stat, StateName } from './wire.js'

/** A row of the tree. */
export interface TreeRow {
  readonly path: string
  readonly name: string
  readonly kind: NodeKind
  readonly level: number
  readonly isOpen: boolean
}

/** The tree of one state. Directories are read when they are opened. */
export class FileTree {
  /** Grows with each change of the rows or of the sizes. */
  readonly rows = signal<readonly TreeRow[]>([])
  readonly sizes = signal<ReadonlyMap<string, number>>(new Map())
  readonly error = signal<string | undefined>(undefined)
  readonly isLoading = signal(true)
  readonly #id: string
  readonly #at: StateName
  readonly #signal: AbortSignal
  readonly #children = new Map<string, readonly DirectoryEntry[]>()
  readonly #asked = new Set<string>()
  readonly #open: Set<string>

  /** `open` has the paths of the open directories. It is kept from one tree to the next. */
  constructor(id: string, at: StateName, open: Set<string>, signal: AbortSignal) {
    this.#id = id
    this.#at = at
    this.#signal = signal
    this.#open = open
  }

  /** Reads the root and all open directories. */
  async read(): Promise<void> {
    await Promise.all(['/', ...this.#open].map((path) => this.#list(path)))
    this.isLoading.value = false
    this.#build()
  }

  async toggle(path: string, isOpen = !this.#open.has(path)): Promise<void> {
    if (isOpen) this.#open.add(path)
    else this.#open.delete(path)
    if (isOpen && !this.#children.has(path)) await this.#list(path)
    this.#build()
  }

  /** Reads the sizes of files that came into view. */
  async measure(rows: readonly TreeRow[]): Promise<void> {
    const wanted = rows.filter(({ kind, path }) => kind === 'file' && !this.#asked.has(path))
    for (const { path } of wanted) this.#asked.add(path)
    const found = await Promise.all(wanted.map(({ path }) => this.#sizeOf(path)))
    if (this.#signal.aborted || wanted.length === 0) return
    const sizes = new Map(this.sizes.value)
    for (const [index, { path }] of wanted.entries()) {
      const size = found[index]
      if (size !== undefined) sizes.set(path, size)
    }
    this.sizes.value = sizes
  }

  async #sizeOf(path: string): Promise<number | undefined> {
    try {
      const stat = await call<Stat>(ofSession(this.#id, ':statAt'), {
        method: 'POST',
        body: { path, at: this.#at, followSymlinks: false },
        signal: this.#signal,
      })
      return Number(stat.sizeBytes)
    } catch {
      this.#asked.delete(path)
      return undefined
    }
  }

  async #list(path: string): Promise<void> {
    const entries: DirectoryEntry[] = []
    try {
      for await (const page of pages<{ entries: DirectoryEntry[]; nextPageToken: string }>(
        ofSession(this.#id, ':listDirectoryAt'),
        {
          method: 'POST',
          body: { path, at: this.#at, pageSize: pageLimits.directoryEntries },
          signal: this.#signal,
        },
      ))
        entries.push(...page.entries)
      this.#children.set(path, sorted(entries))
      this.error.value = undefined
    } catch (error) {
      if (this.#signal.aborted) return
      // A directory of the state before may be gone.
      if (path === '/') this.error.value = messageOf(error)
      else this.#open.delete(path)
    }
  }

  #build(): void {
    if (this.#signal.aborted) return
    const rows: TreeRow[] = []
    const add = (directory: string, level: number): void => {
      for (const { name, kind } of this.#children.get(directory) ?? []) {
        const path = directory === '/' ? `/${name}` : `${directory}/${name}`
        const isOpen = kind === 'directory' && this.#open.has(path)
        rows.push({ path, name, kind, level, isOpen })
        if (isOpen) add(path, level + 1)
      }
    }
    add('/', 1)
    this.rows.value = rows
  }
}

/** Directories come first. */
function sorted(entries: readonly DirectoryEntry[]): DirectoryEntry[] {
  const isDirectory = ({ kind }: DirectoryEntry): boolean => kind === 'directory'
  return [...entries.filter(isDirectory), ...entries.filter((entry) => !isDirectory(entry))]
}

/** The changed paths since the base, and the directories above them. */
export async function marksOf(
  id: string,
  to: StateName,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const marks = new Map<string, string>()
  for await (const page of pages<{ changes: Change[]; nextPageToken: string }>(ofSession(id, ':diff'), {
    method: 'POST',
    body: { from: { base: true }, to, pageSize: pageLimits.directoryEntries },
    signal,
  })) {
    for (const { path, change } of page.changes) {
      marks.set(path, change)
      for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
        const above = path.slice(0, end)
        if (marks.has(above)) break
        marks.set(above, 'inside')
      }
    }
    if (marks.size > pageLimits.marks) break
  }
  return marks
}
