import { kill, pid } from 'node:process'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import type { Disk } from '../../src/adapters/level/directory/disk.js'
import { diskChanges, hookedDisk } from './hooked-disk.js'
import type { KillAt } from './protocol.js'

/** The disk of the host, for a process that kills itself at one of its calls. */
export function killingDisk({ operation, call, moment, part }: KillAt): Disk {
  let left = call
  const act = (): Promise<never> => {
    kill(pid, 'SIGKILL')
    return new Promise(() => {})
  }
  return hookedDisk(nodeDisk, (at) => {
    if (operation === 'change' ? !diskChanges.includes(at.operation) : at.operation !== operation)
      return undefined
    return left-- === 0 ? { moment, part, act } : undefined
  })
}
