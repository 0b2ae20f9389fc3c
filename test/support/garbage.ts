import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

export const collectGarbage = runInNewContext('gc') as () => void

/** Makes the garbage collector release unreachable objects. */
export async function letGo(): Promise<void> {
  // A weak reference keeps its object until the end of the turn in which it was created or read.
  await nextTurn()
  collectGarbage()
  await nextTurn()
}
