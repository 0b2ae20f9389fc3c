import { ClassicLevel } from 'classic-level'
import { EngineError } from '../../engine/ports.js'
import { openError } from './errors.js'

/** What the index uses of an abstract-level database: it keeps pages, and nothing that is not in the segments. */
export interface IndexDatabase {
  getSync(key: string, options: { readonly valueEncoding: 'view' }): Uint8Array | undefined
  batch(operations: IndexOperation[], options: { readonly sync: boolean }): Promise<void>
  /** Gives the space of what was replaced back to the file system. */
  compactRange?(start: string, end: string): Promise<void>
  close(): Promise<void>
}

export type IndexOperation =
  | { readonly type: 'put'; readonly key: string; readonly value: Uint8Array; readonly valueEncoding: 'view' }
  | { readonly type: 'del'; readonly key: string }

/** Opens the database in a directory, or makes an empty one there; `reset` empties one that exists. */
export type OpenIndex = (path: string, options: { readonly reset: boolean }) => Promise<IndexDatabase>

/** LevelDB. Its lock keeps out other processes, from before anything of the store is read until it is closed. */
export const openLevelIndex: OpenIndex = async (path, { reset }) => {
  if (reset) await destroyLevel(path)
  try {
    return await openLevel(path)
  } catch (error) {
    // What is damaged can be made again. Emptying takes the lock, so that nothing goes from under another opener.
    if (!(error instanceof EngineError) || error.reason !== 'DATA_LOSS') throw error
    await destroyLevel(path)
    return openLevel(path)
  }
}

async function openLevel(path: string): Promise<IndexDatabase> {
  // A damaged compressed value could make LevelDB allocate anything.
  const db = new ClassicLevel<string, string>(path, { compression: false })
  try {
    await db.open()
  } catch (error) {
    throw openError(error)
  }
  return db
}

async function destroyLevel(path: string): Promise<void> {
  const level = ClassicLevel as unknown as { destroy(location: string): Promise<void> }
  try {
    await level.destroy(path)
  } catch (error) {
    throw openError(error)
  }
}
