/** Creates one of Node's errors for an impossible copy. */
import { composedError } from './errors.js'
import { resolvePath } from './resolve-path.js'

export function copyError(
  nodeCode: string,
  text: string,
  what: { code: string; message: string; path: string; errno?: number },
): Error {
  return composedError(nodeCode, text, { ...what, syscall: 'cp' })
}

export function cannotCopy(message: string, path: string): Error {
  return copyError('ERR_FS_CP_EINVAL', 'Invalid src or dest', { code: 'EINVAL', message, path })
}

export function intoItself(src: string, dest: string, path = dest): Error {
  return cannotCopy(`cannot copy ${src} to a subdirectory of self ${dest}`, path)
}

/** Compares the texts of the paths only, without looking at the tree. */
export function isBelow(parent: string, path: string): boolean {
  const above = resolvePath('/', parent)
  const own = resolvePath('/', path)
  return above === '/' || own === above || own.startsWith(`${above}/`)
}
