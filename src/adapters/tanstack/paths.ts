import { posix } from 'node:path'
import { given, invalid } from '../../engine/ports.js'
import { limits } from './limits.js'

/** The directory that TanStack AI calls the workspace. It means the root of the session. */
export const virtualRoot = '/workspace'

/** The path in the session. `/workspace/a.ts`, `a.ts` and `/a.ts` are the same. */
export function inSession(path: unknown, field = 'path'): string {
  if (typeof path !== 'string' || path === '' || path.length > limits.pathLength || path.includes('\0'))
    throw invalid(field, `must be a path, such as ${virtualRoot}/src/a.ts; it is ${given(path)}`)
  const whole = posix.resolve(virtualRoot, path)
  if (whole === virtualRoot) return '/'
  return whole.startsWith(`${virtualRoot}/`) ? whole.slice(virtualRoot.length) : whole
}

/** A path of the session, written as a path below a directory that a caller named. */
export function asCalled(path: string, directory: string, called: string): string {
  const base = posix.resolve(virtualRoot, called)
  return posix.join(base, posix.relative(directory, path))
}
