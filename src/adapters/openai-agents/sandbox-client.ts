import {
  Manifest,
  normalizeSandboxClientCreateArgs,
  type SandboxClient,
  type SandboxClientCreateArgs,
  type SandboxSession,
} from '@openai/agents/sandbox'
import type { SessionApi } from '../../engine/index.js'
import { invalid, Shape } from '../../engine/ports.js'
import type { WorkspaceExec } from '../tools/index.js'
import { contentsOf, writeEntries } from './manifest-entries.js'
import { sandboxOn, type WorkspaceSandboxState } from './sandbox-session.js'

/** Options of {@link workspaceSandboxClient}. */
export interface WorkspaceSandboxClientOptions<Opened extends SessionApi = SessionApi> {
  /** Opens the session of a new sandbox, such as `() => base.fork()`. */
  readonly open: () => Opened | Promise<Opened>
  /** Finds the session of an earlier sandbox, such as `(id) => engine.sessions.open(id)`. Without it, no run resumes. */
  readonly find?: (sessionId: string) => Opened | Promise<Opened>
  /** Makes the function that runs the commands of a session. Without it, sandboxes run none. */
  readonly exec?: (session: Opened) => WorkspaceExec
}

const optionsShape = <Opened extends SessionApi>() =>
  new Shape<WorkspaceSandboxClientOptions<Opened>>({ open: true, find: true, exec: true })

/**
 * Sandboxes for `run(agent, input, { sandbox: { client } })` of the Agents SDK. Each agent of a run gets a session of
 * its own. It remains after the run: compare it, merge it into its parent, or delete it.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form.
 *
 * @example
 * import { workspaceShell } from 'forkspace/just-bash'
 * import { workspaceSandboxClient } from 'forkspace/openai-agents'
 *
 * const forks = []
 * const client = workspaceSandboxClient({
 *   open: async () => {
 *     const fork = await session.fork()
 *     forks.push(fork)
 *     return fork
 *   },
 *   find: (id) => engine.sessions.open(id),
 *   exec: (fork) => {
 *     const bash = workspaceShell(fork)
 *     return (command, options) => bash.exec(command, options)
 *   },
 * })
 * console.log(client.backendId) // forkspace
 */
export function workspaceSandboxClient<Opened extends SessionApi>(
  options: WorkspaceSandboxClientOptions<Opened>,
): SandboxClient<Record<string, unknown>, WorkspaceSandboxState> {
  const { open, find, exec } = optionsShape<Opened>().read(options, 'options')
  for (const [name, value] of Object.entries({ open, find, exec }))
    if (typeof value !== 'function' && (name === 'open' || value !== undefined))
      throw invalid(name, 'must be a function')
  const resumed = async (state: WorkspaceSandboxState): Promise<SandboxSession<WorkspaceSandboxState>> => {
    if (find === undefined)
      throw invalid(
        'find',
        'must be given to workspaceSandboxClient, so that a run can find its session again',
      )
    const session = checkedSession(await find(state.sessionId), 'find')
    return sandboxOn(session, exec?.(session), state)
  }
  return {
    backendId: 'forkspace',
    supportsDefaultOptions: true,
    create: async (
      first?: SandboxClientCreateArgs | Manifest,
      second?: Record<string, unknown>,
    ): Promise<SandboxSession<WorkspaceSandboxState>> => {
      const { manifest } = normalizeSandboxClientCreateArgs(first, second)
      // A manifest that is refused opens no session.
      contentsOf(manifest.entries)
      const session = checkedSession(await open(), 'open')
      await writeEntries(session, manifest.entries)
      return sandboxOn(session, exec?.(session), { manifest: atRoot(manifest) })
    },
    serializeSessionState: async ({ sessionId }) => ({ sessionId }),
    deserializeSessionState: async (state) => {
      const { sessionId, manifest } = state as { sessionId?: unknown; manifest?: unknown }
      if (typeof sessionId !== 'string') throw invalid('sessionId', 'must be the id of a session')
      const entries = manifest instanceof Manifest ? manifest : new Manifest(manifest as object)
      return { sessionId, manifest: atRoot(entries), workspaceReady: true }
    },
    resolveTrustedManifestForResume: (manifest) => atRoot(manifest),
    canReusePreservedOwnedSession: () => true,
    resume: resumed,
  }
}

function checkedSession<Opened extends SessionApi>(session: Opened, name: string): Opened {
  if (typeof session?.files !== 'object') throw invalid(name, 'must return a session of forkspace')
  return session
}

/** The same manifest with the root of a session. */
function atRoot({ entries, environment }: Manifest): Manifest {
  return new Manifest({ root: '/', entries, environment })
}
