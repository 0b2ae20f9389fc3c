import type { Contender, Store, Workspace } from '../contender.js'
import { loadPackage } from '../packages.js'
import { promiseWorkspace, syncWorkspace, type PromiseCalls, type SyncCalls } from './fs-calls.js'

interface Zenfs {
  readonly fs: SyncCalls & {
    readonly promises: PromiseCalls & {
      cp(from: string, to: string, options: { recursive: true }): Promise<unknown>
    }
    cpSync(from: string, to: string, options: { recursive: true }): unknown
  }
  readonly InMemory: object
  readonly CopyOnWrite: object
  configure(configuration: { readonly mounts: Record<string, object> }): Promise<void>
  resolveMountConfig(configuration: object): Promise<object>
  mount(path: string, fileSystem: object): void
  umount(path: string): void
}

type Form = 'promises' | 'sync'

const zenfsIn = (form: Form, name: string, backend: 'InMemory' | 'CopyOnWrite', settings: string) => ({
  name: form === 'sync' ? `${name}, sync` : name,
  family: 'ZenFS',
  guarantee: 'memory' as const,
  settings: `${settings} ${form === 'sync' ? 'The synchronous calls of fs.' : 'The calls of fs.promises.'}`,
  open: () => openStore(form, backend),
})

const inMemory = 'One InMemory backend per workspace, mounted in a directory. A copy is cp to another one.'
const copyOnWrite =
  'An empty InMemory backend below an InMemory backend for writes. A fork is a new CopyOnWrite layer over the parent.'

export const zenfs: readonly Contender[] = [
  zenfsIn('promises', 'ZenFS InMemory', 'InMemory', inMemory),
  zenfsIn('sync', 'ZenFS InMemory', 'InMemory', inMemory),
  zenfsIn('promises', 'ZenFS CopyOnWrite', 'CopyOnWrite', copyOnWrite),
  zenfsIn('sync', 'ZenFS CopyOnWrite', 'CopyOnWrite', copyOnWrite),
]

async function openStore(form: Form, backend: 'InMemory' | 'CopyOnWrite'): Promise<Store> {
  const zenfs = await loadPackage<Zenfs>('@zenfs/core')
  const { fs, InMemory, CopyOnWrite } = zenfs
  await zenfs.configure({ mounts: { '/': InMemory } })
  let last = 0
  const layerOver = (readable: object): Promise<object> =>
    zenfs.resolveMountConfig({ backend: CopyOnWrite, readable, writable: { backend: InMemory } })

  const mounted = (fileSystem: object): Workspace => {
    const root = `/workspace-${++last}`
    // cp looks for the directory of a mount in its parent.
    fs.mkdirSync(root, { recursive: true })
    zenfs.mount(root, fileSystem)
    const calls = form === 'sync' ? syncWorkspace(fs, root) : promiseWorkspace(fs.promises, root)
    const fork = async (): Promise<Workspace> => mounted(await layerOver(fileSystem))
    const copyInto = async (): Promise<Workspace> => {
      const copy = await createWith(InMemory)
      const to = `/workspace-${last}`
      if (form === 'sync') fs.cpSync(root, to, { recursive: true })
      else await fs.promises.cp(root, to, { recursive: true })
      return copy
    }
    return {
      ...calls,
      ...(backend === 'CopyOnWrite' ? { fork } : { copy: copyInto }),
      dispose: () => zenfs.umount(root),
    }
  }
  const createWith = async (backend: object): Promise<Workspace> =>
    mounted(await zenfs.resolveMountConfig({ backend }))
  return {
    create: async () =>
      backend === 'InMemory'
        ? createWith(InMemory)
        : mounted(await layerOver(await zenfs.resolveMountConfig({ backend: InMemory }))),
    close: () => {},
  }
}
