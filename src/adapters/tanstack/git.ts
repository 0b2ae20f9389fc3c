import { posix } from 'node:path'
import type { SandboxGit } from '@tanstack/ai-sandbox'
import type { ChangedFile, Session } from '../../engine/index.js'
import { EngineError, given, invalid } from '../../engine/ports.js'
import { lastCommit, ofCommit } from './commits.js'
import { limits } from './limits.js'
import { inSession } from './paths.js'
import type { SandboxSessions } from './sandbox-sessions.js'
import type { SandboxState } from './sandbox-state.js'

type CloneInput = Parameters<SandboxGit['clone']>[0]

/** What git needs beyond the session: imports, and the branch of commits. */
export interface GitSetup {
  /** The branch to which commits go; without it, they stay in the engine. */
  readonly branch: string | undefined
  readonly sessions: SandboxSessions
}

/** The parts of git that a session has. The others are refused. */
export function gitOf(state: SandboxState, { branch, sessions }: GitSetup): SandboxGit {
  return {
    clone: async (input) => {
      const request = checkedClone(input)
      await sessions.oneByOne(state.id, () => clone(state, sessions, request))
    },
    status: async (dir) => {
      requireRoot(dir)
      return (await changesOf(state.session)).map(statusLine).join('')
    },
    add: async (paths, dir) => {
      requireRoot(dir)
      const given = checkedPaths(paths)
      const left = (await changesOf(state.session)).find(
        ({ path }) => !given.some((one) => covers(one, path)),
      )
      if (left !== undefined)
        throw invalid(
          'paths',
          `must have all changes, because a commit has them: ${left.path} is missing. Add "."`,
        )
    },
    commit: async (message, dir) => {
      requireRoot(dir)
      if (typeof message !== 'string') throw invalid('message', `must be a string; it is ${given(message)}`)
      await sessions.oneByOne(state.id, () => commit(state.session, { message, branch }))
    },
    push: async (dir) => {
      requireRoot(dir)
      if (branch === undefined)
        throw refused(
          'push',
          'pass the option branch to workspaceSandboxProvider. Each commit is then pushed to it',
        )
    },
    pull: async () => {
      throw refused('pull', 'refresh the source of the session, and call session.rebase()')
    },
    branch: async (dir) => {
      requireRoot(dir)
      return branch ?? (await state.session.get()).tags['sandbox-ref'] ?? 'HEAD'
    },
  }
}

/** Replaces the empty session by one on a repository. Files that were written meanwhile stay, and the clone fails. */
async function clone(
  state: SandboxState,
  sessions: SandboxSessions,
  { url, ref }: { readonly url: string; readonly ref: string },
): Promise<void> {
  const before = state.session
  await requireEmpty(before)
  const cloned = await sessions.import(state.id, { kind: 'git', place: url, ref })
  try {
    await sessions.changes.alone(state.id, async () => {
      await requireEmpty(before)
      await before.delete()
      sessions.replace(before, cloned)
    })
  } catch (error) {
    await sessions.discard(cloned)
    throw error
  }
}

function refused(operation: string, advice: string): EngineError {
  return new EngineError('NO_ADAPTER', `this sandbox has no git ${operation}: ${advice}`)
}

function requireRoot(dir: unknown): void {
  if (dir !== undefined && inSession(dir, 'dir') !== '/')
    throw invalid('dir', `must be the workspace, which is the only repository; it is ${given(dir)}`)
}

function checkedClone(input: CloneInput): { readonly url: string; readonly ref: string } {
  if (typeof input !== 'object' || input === null) throw invalid('input', 'must be an object with a url')
  const { url, dir, ref = '', auth, depth = 1 } = input
  if (typeof url !== 'string' || url === '' || url.length > limits.urlLength)
    throw invalid('url', `must be an http or https URL, or the path of a repository; it is ${given(url)}`)
  if (typeof ref !== 'string')
    throw invalid('ref', `must be a branch, a tag or a commit; it is ${given(ref)}`)
  requireRoot(dir)
  if (auth !== undefined)
    throw invalid('auth', 'cannot be passed: the option git.credentials of the engine has the credentials')
  if (depth !== 1)
    throw invalid('depth', `must be 1, because a workspace has one commit; it is ${given(depth)}`)
  return { url, ref }
}

async function requireEmpty(session: Session): Promise<void> {
  const { entries } = await session.files.list({ path: '/', pageSize: 1 })
  if (entries.length > 0)
    throw new EngineError(
      'DIRECTORY_NOT_EMPTY',
      'the workspace has files already: clone into a new sandbox',
      {
        path: '/',
      },
    )
}

function checkedPaths(paths: unknown): string[] {
  if (!Array.isArray(paths)) throw invalid('paths', `must be an array of paths; it is ${given(paths)}`)
  return paths.map((path: unknown) => (path === '-A' || path === '--all' ? '/' : inSession(path, 'paths')))
}

function covers(parent: string, path: string): boolean {
  return parent === '/' || path === parent || path.startsWith(`${parent}/`)
}

/** The files that differ from the last commit, or from the import. */
async function changesOf(session: Session): Promise<ChangedFile[]> {
  const checkpointId = await lastCommit(session)
  const diff = session.diff(checkpointId === undefined ? 'base' : { checkpointId })
  const changes: ChangedFile[] = []
  for await (const file of diff.files({ renames: 'none' })) {
    if (changes.length >= limits.statusPaths) break
    changes.push(file)
  }
  return changes
}

function statusLine({ path, change }: ChangedFile): string {
  const letters = { added: '??', renamed: '??', modified: ' M', removed: ' D' }[change]
  const name = posix.relative('/', path)
  const quoted = /[\p{Cc}"\\ ]/u.test(name) ? JSON.stringify(name) : name
  return `${letters} ${quoted}\n`
}

/** Commits the session. A checkpoint before it has the state with which later ones are compared. */
async function commit(
  session: Session,
  { message, branch }: { readonly message: string; readonly branch: string | undefined },
): Promise<void> {
  const earlier = await lastCommit(session)
  const { id: checkpointId } = await session.checkpoint({ metadata: ofCommit })
  try {
    await session.commit({ message, ...(branch !== undefined && { gitBranch: { branchName: branch } }) })
  } catch (error) {
    await session.deleteCheckpoint({ checkpointId })
    throw error
  }
  if (earlier !== undefined) await forget(session, earlier)
}

/** Deletes a checkpoint. Another commit may have deleted it already. */
async function forget(session: Session, checkpointId: string): Promise<void> {
  try {
    await session.deleteCheckpoint({ checkpointId })
  } catch (error) {
    if (!(error instanceof EngineError) || error.reason !== 'CHECKPOINT_NOT_FOUND') throw error
  }
}
