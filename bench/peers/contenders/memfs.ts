import type { Contender, Workspace } from '../contender.js'
import { promiseWorkspace, syncWorkspace, type SyncCalls } from './fs-calls.js'

type VolumeCalls = SyncCalls & { cpSync(from: string, to: string, options: { recursive: true }): unknown }

const inMemory = { family: 'memfs', guarantee: 'memory' } as const

/** memfs, one volume per workspace. */
export const memfs: readonly Contender[] = [
  {
    ...inMemory,
    name: 'memfs',
    settings: 'The promises of one volume per workspace.',
    async open() {
      const { memfs } = await import('memfs')
      const create = () => promiseWorkspace(memfs().fs.promises)
      return { create, close: () => {} }
    },
  },
  {
    ...inMemory,
    name: 'memfs, sync',
    settings: 'The synchronous calls of one volume per workspace. A copy is cpSync to another directory.',
    async open() {
      const { memfs } = await import('memfs')
      return { create: () => inVolume(memfs().fs, '/root'), close: () => {} }
    },
  },
]

function inVolume(fs: VolumeCalls, root: string): Workspace {
  fs.mkdirSync(root, { recursive: true })
  return {
    ...syncWorkspace(fs, root),
    copy() {
      const to = `${root}+`
      fs.cpSync(root, to, { recursive: true })
      return inVolume(fs, to)
    },
  }
}
