import * as fs from 'node:fs'
import { join } from 'node:path'
import type { Contender, Workspace } from '../contender.js'
import { numbered, promiseWorkspace, syncWorkspace } from './fs-calls.js'

const memoryDisk = '/dev/shm'

/** Plain files. A memory disk is missing on other systems than Linux. */
export const nodeFs: readonly Contender[] = [
  ...onDisk('disk', 'the temporary directory'),
  ...(fs.existsSync(memoryDisk) ? onDisk('memory disk', memoryDisk) : []),
]

function onDisk(disk: string, where: string): Contender[] {
  const host = { family: 'node:fs', guarantee: 'host' } as const
  return [
    {
      ...host,
      name: `node:fs on ${disk}`,
      settings: `The promises of node:fs below ${where}. A copy is cp.`,
      open: async (directory) => openStore(placeFor(disk, directory), promises),
    },
    {
      ...host,
      name: `node:fs on ${disk}, sync`,
      settings: `The synchronous calls of node:fs below ${where}. A copy is cpSync.`,
      open: async (directory) => openStore(placeFor(disk, directory), sync),
    },
  ]
}

interface Place {
  readonly root: string
  readonly temporary: boolean
}

function placeFor(disk: string, directory: string): Place {
  if (disk === 'disk') return { root: directory, temporary: false }
  const root = join(memoryDisk, directory.replaceAll('/', '-').slice(1))
  fs.mkdirSync(root, { recursive: true })
  return { root, temporary: true }
}

function openStore({ root, temporary }: Place, of: (root: string, next: () => string) => Workspace) {
  const next = numbered(root)
  return {
    create() {
      const path = next()
      fs.mkdirSync(path)
      return { ...of(path, next), id: path }
    },
    // A memory disk is emptied when the store closes.
    ...(!temporary && { resume: (id: string) => of(id, next) }),
    close() {
      if (temporary) fs.rmSync(root, { recursive: true, force: true })
    },
  }
}

function promises(root: string, next: () => string): Workspace {
  return {
    ...promiseWorkspace(fs.promises, root),
    async copy() {
      const to = next()
      await fs.promises.cp(root, to, { recursive: true })
      return promises(to, next)
    },
  }
}

function sync(root: string, next: () => string): Workspace {
  return {
    ...syncWorkspace(fs, root),
    copy() {
      const to = next()
      fs.cpSync(root, to, { recursive: true })
      return sync(to, next)
    },
  }
}
