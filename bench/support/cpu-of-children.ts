import { readFileSync } from 'node:fs'

const millisecondsPerTick = 10

/** Milliseconds of CPU time of all child processes that have ended. Only Linux has this file. */
export function cpuOfChildren(): number {
  let text: string
  try {
    text = readFileSync('/proc/self/stat', 'latin1')
  } catch {
    return 0
  }
  // The second field is a name in parentheses that can contain spaces. `cutime` and `cstime` are fields 16 and 17.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[13]) + Number(fields[14])) * millisecondsPerTick
}
