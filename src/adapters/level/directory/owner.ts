/**
 * Records which process has a store open, for the error message of others that find it locked. The file
 * decides nothing: only LevelDB's lock counts. It is removed when the store is closed, and stays when its
 * process is killed.
 */
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { errorCode } from '../errors.js'
import { levelLimits } from '../limits.js'

export const ownerName = 'owner.json'

/**
 * Records this process as the owner. Call this while holding LevelDB's lock. A failure affects only the error
 * message that others get.
 */
export function noteOwner(directory: string): void {
  const owner = { pid: process.pid, since: new Date().toISOString(), host: hostname() }
  const path = join(directory, ownerName)
  try {
    // A link or a pipe of this name is removed, and never written to.
    rmSync(`${path}.new`, { force: true })
    writeFileSync(`${path}.new`, `${JSON.stringify(owner)}\n`, { mode: 0o600, flag: 'wx' })
    renameSync(`${path}.new`, path)
  } catch {
    // The store works without this file.
  }
}

/**
 * Removes the record. Call this while holding LevelDB's lock, because later the file may belong to another
 * process.
 */
export function forgetOwner(directory: string): void {
  try {
    rmSync(join(directory, ownerName), { force: true })
  } catch {
    // The next owner replaces the file.
  }
}

/**
 * `pid`, `since` (RFC 3339) and `host` of the owner, as details of an error. Empty if the owner is unknown,
 * or a process of this host that has ended.
 */
export async function findOwner(directory: string): Promise<Readonly<Record<string, string>>> {
  try {
    const owner: unknown = JSON.parse(await readFile(join(directory, ownerName), 'utf8'))
    if (typeof owner !== 'object' || owner === null) return {}
    const { pid, since, host } = owner as { pid?: unknown; since?: unknown; host?: unknown }
    if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid < 1) return {}
    if (typeof since !== 'string' || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(since)) return {}
    if (typeof host !== 'string' || host.length > levelLimits.hostNameLength) return {}
    if (host === hostname() && !isRunning(pid)) return {}
    return { pid: String(pid), since, host }
  } catch {
    return {}
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errorCode(error) !== 'ESRCH'
  }
}
