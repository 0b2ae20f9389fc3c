import { Buffer } from 'node:buffer'
import { unsafePart, type ContentIn, type EntryAttributes, type TreeSink } from '../../engine/ports.js'
import { parseEntryName } from './entry-name.js'
import { invalidArchive, limitExceeded, unsafePath } from './errors.js'
import { archiveLimits } from './limits.js'

export interface ArchiveOptions {
  /** Allows entries with names that git or a file system treats as `.git`. Default false. */
  readonly allowGitNames?: boolean
}

interface KnownSymlink {
  readonly target: string
  readonly mtimeMs: number
}

/**
 * Checks that the entries of an archive form a tree, and passes them to a sink. Only a directory may occur
 * twice at the same path. All parents of an entry must be directories, so no entry is written through the
 * symlink of another.
 */
export class EntryGate {
  readonly #sink: TreeSink
  readonly #allowGitNames: boolean
  readonly #onFile: (filesGiven: number) => void
  readonly #known = new Map<string, 'directory' | 'file' | KnownSymlink>()
  /** The parent directory of the last entry. It and all directories above it are known. */
  #parent = ''
  #entries = 0
  #xattrs = 0
  #pathBytes = 0
  #filesGiven = 0

  constructor(
    sink: TreeSink,
    { allowGitNames }: Required<ArchiveOptions>,
    onFile: (filesGiven: number) => void,
  ) {
    this.#sink = sink
    this.#allowGitNames = allowGitNames
    this.#onFile = onFile
  }

  /**
   * Adds a directory. The caller must await a returned promise before the next call. This applies to all
   * methods.
   */
  directory(name: string, attributes: EntryAttributes): void | Promise<void> {
    const { path } = parseEntryName(name)
    if (path !== '/') this.#claim(path, 'directory', name)
    this.#countXattrs(attributes)
    return this.#sink.directory(path, attributes)
  }

  file(name: string, content: ContentIn, attributes: EntryAttributes): void | Promise<void> {
    const path = this.#claimName(name, 'file')
    this.#countXattrs(attributes)
    return this.#given(this.#sink.file(path, content, attributes))
  }

  symlink(name: string, target: string, { mtimeMs }: { readonly mtimeMs: number }): void | Promise<void> {
    const path = this.#claimName(name, { target, mtimeMs })
    return this.#given(this.#sink.symlink(path, target, { mtimeMs }))
  }

  /** Adds another name for an earlier file or symlink. */
  hardLink(name: string, existingName: string): void | Promise<void> {
    const existing = parseEntryName(existingName).path
    const known = this.#known.get(existing)
    if (known === undefined || known === 'directory')
      throw invalidArchive('a hard link refers to a file that does not precede it in the archive', name)
    // A symlink never changes, so a copy can replace a hard link to it.
    if (known !== 'file') return this.symlink(name, known.target, known)
    const path = this.#claimName(name, 'file')
    return this.#given(this.#sink.hardLink(existing, path))
  }

  /** Counts an entry. Call this for each one. */
  count(): void {
    if (++this.#entries > archiveLimits.entries)
      throw limitExceeded('the archive has too many entries', archiveLimits.entries)
  }

  #countXattrs({ xattrs }: EntryAttributes): void {
    this.#xattrs += xattrs?.size ?? 0
    if (this.#xattrs > archiveLimits.xattrs)
      throw limitExceeded('the archive has too many extended attributes', archiveLimits.xattrs)
  }

  #given(taken: void | Promise<void>): void | Promise<void> {
    if (taken !== undefined) return taken.then(() => this.#onFile(++this.#filesGiven))
    this.#onFile(++this.#filesGiven)
  }

  #claimName(name: string, kind: 'file' | KnownSymlink): string {
    const { path, isDirectory } = parseEntryName(name)
    if (isDirectory) throw unsafePath('the name ends with "/", but the entry is not a directory', name)
    this.#claim(path, kind, name)
    return path
  }

  #claim(path: string, kind: 'directory' | 'file' | KnownSymlink, name: string): void {
    const before = this.#known.get(path)
    if (before !== undefined) {
      if (before === 'directory' && kind === 'directory') return
      throw unsafePath('the archive has this path twice', name)
    }
    if (!this.#allowGitNames && unsafePart(path, typeof kind === 'object') !== undefined)
      throw unsafePath(
        'git or a file system treats this name as ".git" or ".gitmodules"; open the engine with allowGitNames: true to accept it',
        name,
      )
    this.#claimParents(path, name)
    this.#add(path, kind)
  }

  #claimParents(path: string, name: string): void {
    let end = path.lastIndexOf('/')
    // Most entries have the same parent as the previous entry.
    if (end === this.#parent.length && path.startsWith(this.#parent)) return
    this.#parent = path.slice(0, end)
    for (; end > 0; end = path.lastIndexOf('/', end - 1)) {
      const parent = path.slice(0, end)
      const known = this.#known.get(parent)
      if (known === 'directory') return
      if (known !== undefined)
        throw unsafePath('the path goes through an entry that is not a directory', name)
      this.count()
      this.#add(parent, 'directory')
    }
  }

  #add(path: string, kind: 'directory' | 'file' | KnownSymlink): void {
    this.#pathBytes += Buffer.byteLength(path)
    if (typeof kind === 'object') this.#pathBytes += Buffer.byteLength(kind.target)
    if (this.#pathBytes > archiveLimits.pathBytes)
      throw limitExceeded('the paths of the archive have too many bytes', archiveLimits.pathBytes)
    this.#known.set(path, kind)
  }
}
