import { EngineError } from '../base/errors.js'
import type { Checkouts } from '../services/checkouts/checkouts.js'
import type { CheckoutSync } from '../services/checkouts/checkout-requests.js'
import { parseExec, type ExecRequest } from '../services/checkouts/exec-request.js'
import type { ProcessResult } from '../services/checkouts/process-ports.js'
import type { Processes } from '../services/checkouts/processes.js'
import type { SessionAccess } from '../session/access/session-access.js'

/** The result of `session.exec`. */
export interface ExecResult extends ProcessResult {
  /** The paths that the command changed in the session. Empty after a conflict. */
  readonly changes: CheckoutSync
  /**
   * Set if the session changed a path meanwhile that the command changed differently. The session then has none of
   * the command's changes.
   */
  readonly conflict?: ExecConflict
}

/** The changes of a command that the session did not take. */
export interface ExecConflict {
  /** A path that both sides changed. */
  readonly path: string
  /** The directory of the host with the files of the command. It is yours: no later command uses it. */
  readonly directory: string
}

interface ExecServices {
  readonly checkouts: Checkouts
  readonly processes: Processes
}

/** Checks the session out, runs a command there, and syncs its changes back. */
export function execute(
  access: SessionAccess,
  { checkouts, processes }: ExecServices,
  request: ExecRequest,
): Promise<ExecResult> {
  return access.traced('exec', async () => {
    const parsed = parseExec(request)
    for (const action of ['exec', 'checkout', 'getManifest', 'syncCheckout', 'applyBatch'] as const)
      access.permit(action)
    const { layout } = processes
    return processes.inTurn(access.sessionId, parsed.signal, async (signal) => {
      const directory = await written(access, { checkouts, processes }, signal)
      processes.setClean(directory, false)
      const result = await access.whileUsed(processes.run(directory, parsed, signal))
      try {
        const changes = await access.run('syncCheckout', (live) =>
          access.whileUsed(checkouts.sync(access.core, live, directory, { layout, signal })),
        )
        processes.setClean(directory, true)
        return { ...result, changes }
      } catch (error) {
        const path = modifiedPath(error)
        if (path === undefined) throw error
        await checkouts.release(access.core, directory)
        const changes = { added: [], modified: [], removed: [] }
        return { ...result, changes, conflict: { path, directory } }
      }
    })
  })
}

/** The real path of a directory with exactly the files of the session. */
async function written(
  access: SessionAccess,
  { checkouts, processes }: ExecServices,
  signal: AbortSignal,
): Promise<string> {
  const update = (directory: string): Promise<unknown> =>
    access.look('checkout', (live) => {
      const updated = checkouts.update(access.core, live, directory, { layout: processes.layout, signal })
      return access.whileUsed(updated)
    })
  for (const path of processes.directoriesOf(access.sessionId)) {
    const directory = await checkouts.claim(access.core, path)
    if (directory === undefined) continue
    if (processes.isClean(directory)) {
      try {
        await update(directory)
        return directory
      } catch (error) {
        // A program that outlived its command has changed the directory.
        if (modifiedPath(error) === undefined) throw error
      }
    }
    await checkouts.clear(access.core, directory)
    await update(directory)
    return directory
  }
  throw new EngineError('INTERNAL', 'a session has no directory for commands')
}

function modifiedPath(error: unknown): string | undefined {
  return error instanceof EngineError && error.reason === 'CHECKOUT_MODIFIED'
    ? (error.details['path'] ?? '/')
    : undefined
}
