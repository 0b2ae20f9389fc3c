import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { getuid } from 'node:process'

/** Whether a program is installed. A missing one is an error when FORKSPACE_REQUIRE_ALL is 1. */
export function hasProgram(program: string, ...args: readonly string[]): boolean {
  const found = spawnSync(program, args).error === undefined
  if (!found && process.env['FORKSPACE_REQUIRE_ALL'] === '1') throw new Error(`${program} is missing`)
  return found
}

/** Whether davfs2 can mount here. Only root may mount, and only with the device. Neither can be installed. */
export function canMountDavfs(): boolean {
  return hasProgram('/usr/sbin/mount.davfs', '-V') && existsSync('/dev/fuse') && getuid?.() === 0
}
