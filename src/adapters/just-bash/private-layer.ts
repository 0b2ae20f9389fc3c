import { posix } from 'node:path'
import { InMemoryFs } from 'just-bash'

/** Directories that just-bash fills with commands and devices. A session never gets their files. */
const privateDirectories = ['/bin', '/dev', '/proc', '/usr/bin'] as const

/** The files that a shell needs and a session must not have: in memory, without versions. */
export class PrivateLayer {
  readonly memory = new InMemoryFs()
  readonly #roots: readonly string[]

  constructor({ privateTmp }: { readonly privateTmp: boolean }) {
    this.#roots = privateTmp ? [...privateDirectories, '/tmp'] : privateDirectories
    for (const root of this.#roots) this.memory.mkdirSync(root, { recursive: true })
  }

  /** Whether a normal path is one of the directories, or below one. */
  has(path: string): boolean {
    return this.#roots.some((root) => path === root || path.startsWith(`${root}/`))
  }

  /** Whether a normal path is one of the directories or above one, so that both layers have its entries. */
  isShared(path: string): boolean {
    const prefix = path === '/' ? path : `${path}/`
    return this.#roots.some((root) => root === path || root.startsWith(prefix))
  }
}

/** An absolute path without `.`, `..` and repeated slashes. */
export function normalPath(path: string): string {
  return posix.resolve('/', path)
}
