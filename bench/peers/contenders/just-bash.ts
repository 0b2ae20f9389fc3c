import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path/posix'
import type { Contender, Workspace } from '../contender.js'
import { loadPackage } from '../packages.js'
import { numbered } from './fs-calls.js'

interface FileSystem {
  mkdir(path: string, options: { recursive: true }): Promise<void>
  writeFile(path: string, content: Uint8Array): Promise<void>
  readFileBuffer(path: string): Promise<Uint8Array>
  stat(path: string): Promise<{ readonly size: number }>
  readdir(path: string): Promise<string[]>
  appendFile(path: string, content: Uint8Array): Promise<void>
  rm(path: string): Promise<void>
  cp(from: string, to: string, options: { recursive: true }): Promise<void>
  getAllPaths(): string[]
}

interface JustBash {
  readonly InMemoryFs: new () => FileSystem
  readonly OverlayFs: new (options: { root: string; mountPoint: string }) => FileSystem
}

export const justBash: readonly Contender[] = [
  {
    name: 'just-bash InMemoryFs',
    family: 'just-bash',
    guarantee: 'memory',
    settings: 'One InMemoryFs per workspace. A copy is cp to another directory. A walk is getAllPaths.',
    async open() {
      const { InMemoryFs } = await loadPackage<JustBash>('just-bash')
      return { create: () => inMemory(new InMemoryFs(), '/root', '/copy'), close: () => {} }
    },
  },
  {
    name: 'just-bash OverlayFs',
    family: 'just-bash',
    guarantee: 'memory',
    settings:
      'One OverlayFs per workspace. Preparations write to its real directory. A fork is another OverlayFs.',
    outsideHeap: true,
    async open(directory) {
      const { OverlayFs } = await loadPackage<JustBash>('just-bash')
      const nextRoot = numbered(directory)
      const overlay = (root: string): Workspace => ({
        ...workspace(new OverlayFs({ root, mountPoint: '/' })),
        async fill(files) {
          for (const [path, content] of files) {
            await mkdir(dirname(root + path), { recursive: true })
            await writeFile(root + path, content)
          }
        },
        fork: () => ({ ...overlay(root), dispose: () => {} }),
        dispose: () => rm(root, { recursive: true }),
      })
      return {
        async create() {
          const root = nextRoot()
          await mkdir(root)
          return overlay(root)
        },
        close: () => {},
      }
    },
  },
]

function inMemory(fs: FileSystem, root: string, nextRoot: string): Workspace {
  return {
    ...workspace(fs, root),
    async copy() {
      await fs.cp(root, nextRoot, { recursive: true })
      return inMemory(fs, nextRoot, `${nextRoot}+`)
    },
  }
}

function workspace(fs: FileSystem, root = '') {
  return {
    mkdir: (path) => fs.mkdir(root + path, { recursive: true }),
    write: (path, content) => fs.writeFile(root + path, content),
    read: (path) => fs.readFileBuffer(root + path),
    stat: async (path) => (await fs.stat(root + path)).size,
    list: (path) => fs.readdir(root + path),
    walk: () => fs.getAllPaths(),
    append: (path, content) => fs.appendFile(root + path, content),
    remove: (path) => fs.rm(root + path),
  } satisfies Workspace
}
