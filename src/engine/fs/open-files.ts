import { EngineError } from '../base/errors.js'
import { splitPath } from '../base/path.js'
import {
  currentFile,
  addFileReference,
  removeFileReference,
  type FileReference,
} from '../session/file-references.js'
import type { LiveSession } from '../session/table/live.js'
import type { Location } from '../session/reads/resolve.js'
import { Dir, FileNode } from '../tree/node.js'
import { systemError } from './errors.js'
import type { Flags } from './flags.js'

/** The first descriptor. It is far from the descriptors of the process. */
const firstNumber = 10_000

/**
 * An open file or directory. It follows a file through renames. After the file is removed, it keeps the
 * file's last state, and later writes are visible only here.
 */
export class OpenFile {
  readonly number: number
  readonly flags: Flags
  /** The start of the next read or write that passes no position. */
  position = 0
  readonly #reference: FileReference
  /** The directory in its last known state. */
  #dir: Dir | undefined
  #pin: Disposable | undefined

  constructor(number: number, flags: Flags, live: LiveSession, path: string, node: FileNode | Dir) {
    this.number = number
    this.flags = flags
    this.#reference = addFileReference(live, path, node)
    if (node instanceof Dir) this.#see(live, node)
  }

  #see(live: LiveSession, dir: Dir): void {
    this.#pin?.[Symbol.dispose]()
    this.#pin = live.tree.loader.pins?.pin({ roots: [dir], owner: this })
    this.#dir = dir
  }

  node(live: LiveSession): FileNode | Dir {
    if (this.#dir === undefined) return currentFile(live, this.#reference)
    const node = this.#reference.gone ? undefined : live.tree.find(splitPath(this.#reference.path))
    if (node instanceof Dir && node.ino === this.#reference.ino && node !== this.#dir) {
      this.#see(live, node)
    }
    return this.#dir
  }

  /** Returns the file. Throws EISDIR for a directory. */
  file(live: LiveSession): FileNode {
    const node = this.node(live)
    if (node instanceof FileNode) return node
    throw new EngineError('IS_A_DIRECTORY', 'a directory does not have content')
  }

  /** Returns the target of planned changes, or undefined for a removed directory. */
  target(live: LiveSession): FileReference | { readonly path: string } | undefined {
    if (this.#dir === undefined) return this.#reference
    const node = this.#reference.gone ? undefined : live.tree.find(splitPath(this.#reference.path))
    return node?.ino === this.#reference.ino ? { path: this.#reference.path } : undefined
  }

  /** The target of writes. */
  get reference(): FileReference {
    return this.#reference
  }

  release(): void {
    removeFileReference(this.#reference)
    this.#pin?.[Symbol.dispose]()
  }
}

/** The open files of one `session.fs`, by number. */
export class OpenFiles {
  readonly #byNumber = new Map<number, OpenFile>()
  #next = firstNumber

  open(live: LiveSession, { path, node }: Location, flags: Flags): OpenFile {
    const file = new OpenFile(this.#next, flags, live, path, node as FileNode | Dir)
    this.#byNumber.set(this.#next++, file)
    return file
  }

  get(number: number, syscall: string): OpenFile {
    const file = this.#byNumber.get(number)
    if (file === undefined) throw systemError('EBADF', { syscall })
    return file
  }

  close(number: number): void {
    this.get(number, 'close').release()
    this.#byNumber.delete(number)
  }
}
