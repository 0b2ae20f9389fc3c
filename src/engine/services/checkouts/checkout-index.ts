import { limits } from '../../base/limits.js'
import type { Core } from '../../session/core.js'
import { keys } from '../../storage/keys.js'
import {
  furtherSeenFilesKind,
  seenFilesKind,
  type SeenFileLine,
  type SeenFiles,
} from '../../records/checkout.js'

/** A file of the host when it was last read or written. As long as it has this stamp, it has this content. */
export interface SeenFile {
  readonly stamp: string
  /** The {@link contentKey} of the file. */
  readonly content: string
}

interface SeenDirectory {
  readonly files: Map<string, SeenFile>
  /** The number of stored records of the directory. */
  texts: number
  changed: boolean
}

/**
 * The stored index of the files in a directory of the host. A line describes only a file and its content, not
 * a session. It never becomes wrong. Once the file has changed, it only becomes useless.
 */
export class CheckoutIndex {
  readonly #core: Core
  readonly #place: string
  /** Directories by path, the most recently loaded ones last. */
  readonly #directories = new Map<string, SeenDirectory>()
  #lines = 0

  constructor(core: Core, place: string) {
    this.#core = core
    this.#place = place
  }

  async get(path: string): Promise<SeenFile | undefined> {
    const { parent, name } = splitParent(path)
    return (await this.#load(parent)).files.get(name)
  }

  async set(path: string, file: SeenFile | undefined): Promise<void> {
    const { parent, name } = splitParent(path)
    const directory = await this.#load(parent)
    const known = directory.files.get(name)
    if (known?.stamp === file?.stamp && known?.content === file?.content) return
    if (file === undefined) directory.files.delete(name)
    else directory.files.set(name, file)
    this.#lines++
    directory.changed = true
  }

  /** Removes the files of a deleted directory. */
  async forget(path: string): Promise<void> {
    const directory = await this.#load(path)
    directory.changed ||= directory.files.size > 0 || directory.texts > 0
    directory.files.clear()
  }

  /** Stores the changes. */
  async flush(): Promise<void> {
    const directories = [...this.#directories]
    this.#directories.clear()
    this.#lines = 0
    let put: [string, string][] = []
    let del: string[] = []
    let size = 0
    for (const [path, directory] of directories) {
      if (!directory.changed) continue
      const texts = textsOf(directory)
      for (const [number, text] of texts.entries()) {
        put.push([this.#key(path, number), text])
        size += text.length
      }
      for (let number = texts.length; number < directory.texts; number++) del.push(this.#key(path, number))
      if (size < limits.importCommitBytes && del.length < limits.recordsPerCommit) continue
      await this.#core.store.commit({ put, del })
      put = []
      del = []
      size = 0
    }
    if (put.length > 0 || del.length > 0) await this.#core.store.commit({ put, del })
  }

  /** Limits the number of lines in memory. Call this while no line is in use. */
  async rest(): Promise<void> {
    if (this.#lines > limits.checkoutLines) await this.flush()
  }

  async #load(path: string): Promise<SeenDirectory> {
    const known = this.#directories.get(path)
    if (known !== undefined) return known
    const lines: SeenFileLine[] = []
    let texts = 0
    const text = await this.#core.store.get(this.#key(path, 0))
    if (text !== undefined) {
      const first = seenFilesKind.parse(text)
      texts = first.texts
      lines.push(...first.files)
      for (let number = 1; number < texts; number++) {
        const further = await this.#core.store.get(this.#key(path, number))
        if (further !== undefined) lines.push(...furtherSeenFilesKind.parse(further))
      }
    }
    // Another call may have loaded the directory meanwhile.
    const loaded = this.#directories.get(path)
    if (loaded !== undefined) return loaded
    const files = new Map(lines.map(([name, stamp, content]) => [name, { stamp, content }]))
    const directory = { files, texts, changed: false }
    this.#lines += files.size + 1
    this.#directories.set(path, directory)
    return directory
  }

  #key(path: string, number: number): string {
    const text = number === 0 ? path : `${path}//${number}`
    return keys.hostEntries(this.#core.tenantKey, this.#place, text)
  }
}

/** The JSON of the directory's records. A directory without files has none. */
function textsOf({ files }: SeenDirectory): string[] {
  const lines = [...files].map(([name, { stamp, content }]): SeenFileLine => [name, stamp, content])
  const parts: SeenFileLine[][] = []
  for (let start = 0; start < lines.length; start += limits.checkoutLinesPerText)
    parts.push(lines.slice(start, start + limits.checkoutLinesPerText))
  return parts.map((part, number) =>
    JSON.stringify(number === 0 ? ({ texts: parts.length, files: part } satisfies SeenFiles) : part),
  )
}

export function splitParent(path: string): { parent: string; name: string } {
  const cut = path.lastIndexOf('/')
  return { parent: path.slice(0, cut) || '/', name: path.slice(cut + 1) }
}
