/** What survives after an operation is acknowledged. `host` means plain files of the operating system. */
export type Guarantee = 'memory' | 'host' | 'survives kill -9' | 'survives power loss'

/** A synchronous form returns values, an asynchronous form returns promises. */
export type Pending<T> = T | PromiseLike<T>

export type Files = readonly (readonly [path: string, content: Uint8Array])[]

/** A library, database or program in one configuration and one form of calls. */
export interface Contender {
  readonly name: string
  /** Contenders of one family are not peers of each other, such as the two forms of one library. */
  readonly family: string
  readonly guarantee: Guarantee
  /** A limit does only what its guarantee needs: one copy, one `pwrite`, or one `pwrite` and `fdatasync`. */
  readonly limit?: true
  /** The settings that differ from the defaults, and how missing calls are emulated. */
  readonly settings: string
  /** Its files are on a disk or in the memory of native code, so the heap does not show their cost. */
  readonly outsideHeap?: true
  /** The only scenarios for it; all by default. */
  readonly only?: readonly string[]
  /** Opens a store in a directory. The directory is empty, or holds the store from an earlier process. */
  open(directory: string): Promise<Store>
}

export interface Store {
  /** Creates an empty workspace, isolated from the others. */
  create(): Pending<Workspace>
  /** Opens a workspace of an earlier process. Stores in memory have no such call. */
  resume?(id: string): Pending<Workspace>
  close(): Pending<unknown>
}

/** A tree of files. A contender has only the calls that it supports. Paths are absolute within the workspace. */
export interface Workspace {
  /** The name for `Store.resume`. */
  readonly id?: string
  mkdir?(path: string): Pending<unknown>
  write?(path: string, content: Uint8Array): Pending<unknown>
  read?(path: string): Pending<Uint8Array>
  /** Returns the size in bytes. */
  stat?(path: string): Pending<number>
  /** Returns the names in a directory. */
  list?(path: string): Pending<readonly string[]>
  /** Returns the paths of all files, with or without directories, relative to the root or absolute. */
  walk?(): Pending<readonly string[]>
  append?(path: string, content: Uint8Array): Pending<unknown>
  /** Opens a file for patches. The file has `bytes` zeros or any other content. */
  openLarge?(path: string, bytes: number): Pending<LargeFile>
  remove?(path: string): Pending<unknown>
  /** Writes all files in one atomic step. */
  batch?(files: Files): Pending<unknown>
  /** Writes many files in the fastest way. Only preparations use it. */
  fill?(files: Files): Pending<unknown>
  /** Returns a workspace with the same files. It shares unchanged files with this one. */
  fork?(): Pending<Workspace>
  /** Returns a workspace with copies of all files. */
  copy?(): Pending<Workspace>
  checkpoint?(): Pending<unknown>
  restore?(checkpoint: unknown): Pending<unknown>
  /** Removes the workspace and its files. */
  dispose?(): Pending<unknown>
}

/** A file that stays open until its process ends. ZenFS takes minutes to close one after many scattered writes. */
export interface LargeFile {
  patch(offset: number, content: Uint8Array): Pending<unknown>
  read(offset: number, bytes: number): Pending<Uint8Array>
}

/** What a contender can do, apart from preparations. */
export type Capability = Exclude<keyof Workspace, 'id'> | 'resume'

export async function capabilitiesOf(store: Store): Promise<Capability[]> {
  const workspace = await store.create()
  const calls = Object.entries(workspace).filter(([, value]) => typeof value === 'function')
  await workspace.dispose?.()
  return [...calls.map(([name]) => name as Capability), ...(store.resume ? (['resume'] as const) : [])]
}

export function isPending<T>(value: Pending<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | undefined)?.then === 'function'
}
