import { join } from 'node:path/posix'
import type { LargeFile, Workspace } from '../contender.js'

/** The calls of `node:fs` that a file system in its shape has. */
export interface SyncCalls {
  mkdirSync(path: string, options: { recursive: true }): unknown
  writeFileSync(path: string, content: Uint8Array): unknown
  readFileSync(path: string): unknown
  statSync(path: string): { readonly size: unknown }
  readdirSync(path: string, options?: { recursive: true }): unknown
  appendFileSync(path: string, content: Uint8Array): unknown
  unlinkSync(path: string): unknown
  rmSync(path: string, options: { recursive: true; force: true }): unknown
  openSync(path: string, flags: string): number
  writeSync(fd: number, content: Uint8Array, offset: number, length: number, position: number): unknown
  readSync(fd: number, into: Uint8Array, offset: number, length: number, position: number): unknown
  ftruncateSync(fd: number, bytes: number): unknown
}

interface Handle {
  write(content: Uint8Array, offset: number, length: number, position: number): Promise<unknown>
  read(into: Uint8Array, offset: number, length: number, position: number): Promise<unknown>
  truncate(bytes: number): Promise<unknown>
}

/** The calls of `node:fs/promises`. */
export interface PromiseCalls {
  mkdir(path: string, options: { recursive: true }): Promise<unknown>
  writeFile(path: string, content: Uint8Array): Promise<unknown>
  readFile(path: string): Promise<unknown>
  stat(path: string): Promise<{ readonly size: unknown }>
  readdir(path: string, options?: { recursive: true }): Promise<unknown>
  appendFile(path: string, content: Uint8Array): Promise<unknown>
  unlink(path: string): Promise<unknown>
  rm(path: string, options: { recursive: true; force: true }): Promise<unknown>
  open(path: string, flags: string): Promise<Handle>
}

/** A workspace below a directory of a file system. The promises go to the caller unchanged. */
export function promiseWorkspace(fs: PromiseCalls, root = '') {
  return {
    mkdir: (path) => fs.mkdir(root + path, { recursive: true }),
    write: (path, content) => fs.writeFile(root + path, content),
    read: (path) => fs.readFile(root + path) as Promise<Uint8Array>,
    stat: async (path) => Number((await fs.stat(root + path)).size),
    list: (path) => fs.readdir(root + path) as Promise<string[]>,
    walk: () => fs.readdir(root || '/', { recursive: true }) as Promise<string[]>,
    append: (path, content) => fs.appendFile(root + path, content),
    remove: (path) => fs.unlink(root + path),
    async openLarge(path, bytes): Promise<LargeFile> {
      const handle = await fs.open(root + path, 'w+')
      await handle.truncate(bytes)
      return {
        patch: (offset, content) => handle.write(content, 0, content.length, offset),
        async read(offset, length) {
          const content = new Uint8Array(length)
          await handle.read(content, 0, length, offset)
          return content
        },
      }
    },
    dispose: () => removeTree(fs, root),
  } satisfies Workspace
}

export function syncWorkspace(fs: SyncCalls, root = '') {
  return {
    mkdir: (path) => fs.mkdirSync(root + path, { recursive: true }),
    write: (path, content) => fs.writeFileSync(root + path, content),
    read: (path) => fs.readFileSync(root + path) as Uint8Array,
    stat: (path) => Number(fs.statSync(root + path).size),
    list: (path) => fs.readdirSync(root + path) as string[],
    walk: () => fs.readdirSync(root || '/', { recursive: true }) as string[],
    append: (path, content) => fs.appendFileSync(root + path, content),
    remove: (path) => fs.unlinkSync(root + path),
    openLarge(path, bytes): LargeFile {
      const fd = fs.openSync(root + path, 'w+')
      fs.ftruncateSync(fd, bytes)
      return {
        patch: (offset, content) => fs.writeSync(fd, content, 0, content.length, offset),
        read(offset, length) {
          const content = new Uint8Array(length)
          fs.readSync(fd, content, 0, length, offset)
          return content
        },
      }
    },
    dispose: () => {
      if (root !== '') fs.rmSync(root, { recursive: true, force: true })
    },
  } satisfies Workspace
}

async function removeTree(fs: PromiseCalls, root: string): Promise<void> {
  // A workspace with its own file system ends with its last reference.
  if (root !== '') await fs.rm(root, { recursive: true, force: true })
}

/** Names the workspaces of a store by number. */
export function numbered(directory: string): () => string {
  let last = 0
  return () => join(directory, `workspace-${process.pid}-${++last}`)
}
