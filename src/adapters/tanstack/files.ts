import { Buffer } from 'node:buffer'
import { posix } from 'node:path'
import type { SandboxFs } from '@tanstack/ai-sandbox'
import type { Session } from '../../engine/index.js'
import { EngineError, invalid, isBytes, given } from '../../engine/ports.js'
import { limits } from './limits.js'
import { asCalled, inSession } from './paths.js'
import type { SandboxState } from './sandbox-state.js'

type Entries = Awaited<ReturnType<SandboxFs['list']>>

/** The files of a sandbox. Each change is an event of the session. */
export function filesOf(state: SandboxState): SandboxFs {
  const readBytes = async (path: string): Promise<Uint8Array> =>
    state.session.files.read({ path: inSession(path) })
  return {
    read: async (path) => Buffer.from(await readBytes(path)).toString(),
    readBytes,
    write: async (path, data) => {
      const at = inSession(path)
      if (typeof data !== 'string' && !isBytes(data))
        throw invalid('data', `must be a string or bytes; it is ${given(data)}`)
      await state.change((session) => session.files.write({ path: at, content: data }))
    },
    list: async (path) => list(state.session, path),
    mkdir: async (path) => {
      const at = inSession(path)
      if (at === '/') return
      await state.change((session) => session.files.createDirectory({ path: at, recursive: true }))
    },
    remove: async (path) => {
      const at = inSession(path)
      if (at === '/') throw invalid('path', 'must be below the root of the workspace, which itself stays')
      await state.change((session) => remove(session, at))
    },
    rename: async (from, to) => {
      const [sourcePath, destinationPath] = [inSession(from, 'from'), inSession(to, 'to')]
      await state.change((session) => session.files.rename({ sourcePath, destinationPath }))
    },
    exists: async (path) => {
      const at = inSession(path)
      return (await kindOf(state.session, at)) !== undefined
    },
    watch: async (path, onEvent) => watch(state.session, path, onEvent),
  }
}

async function list(session: Session, called: string): Promise<Entries> {
  const directory = inSession(called)
  const entries: Entries = []
  let pageToken = ''
  do {
    const page = await session.files.list({ path: directory, pageSize: limits.entriesPerPage, pageToken })
    for (const { name, kind } of page.entries) {
      const path = posix.join(directory, name)
      const target = kind === 'symlink' ? await kindOf(session, path) : kind
      entries.push({
        name,
        path: asCalled(path, directory, called),
        type: target === 'directory' ? 'dir' : 'file',
      })
    }
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return entries
}

/** Removes a file, or a directory with everything in it. A missing path is no error, as in `rm -rf`. */
async function remove(session: Session, path: string): Promise<void> {
  try {
    const { kind } = await session.files.stat({ path, followSymlinks: false })
    if (kind === 'directory') await session.files.removeDirectory({ path, recursive: true })
    else await session.files.delete({ path })
  } catch (error) {
    if (!isAbsent(error)) throw error
  }
}

async function kindOf(session: Session, path: string): Promise<'file' | 'directory' | 'symlink' | undefined> {
  try {
    return (await session.files.stat({ path })).kind
  } catch (error) {
    if (isAbsent(error) || (error instanceof EngineError && error.reason === 'SYMLINK_LOOP')) return undefined
    throw error
  }
}

function isAbsent(error: unknown): boolean {
  return error instanceof EngineError && ['PATH_NOT_FOUND', 'NOT_A_DIRECTORY'].includes(error.reason)
}

/** Reports changed files below a directory until it is stopped, or the session is deleted. */
async function watch(
  session: Session,
  called: string,
  onEvent: (event: { readonly type: string; readonly path: string }) => void,
): Promise<{ stop: () => Promise<void> }> {
  const directory = inSession(called)
  if (typeof onEvent !== 'function') throw invalid('onEvent', `must be a function; it is ${given(onEvent)}`)
  const stop = new AbortController()
  const changes = session.watch({ signal: stop.signal })
  const done = (async () => {
    for await (const batch of changes)
      for (const { path, change, kind } of batch.changes) {
        if (kind === 'directory' || !isBelow(path, directory)) continue
        const type = { added: 'create', modified: 'change', removed: 'delete' }[change]
        onEvent({ type, path: asCalled(path, directory, called) })
      }
  })()
  // The end of the watch is no failure: it was stopped, or the session is gone.
  const ended = done.catch(() => undefined)
  return {
    stop: async () => {
      stop.abort()
      await ended
    },
  }
}

function isBelow(path: string, directory: string): boolean {
  return directory === '/' || path === directory || path.startsWith(`${directory}/`)
}
