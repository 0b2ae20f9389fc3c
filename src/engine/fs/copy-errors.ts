/** Node's errors for copies that make no sense. */
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

/** By the texts of the paths alone. */
export function isBelow(parent: string, path: string): boolean {
  const above = resolvePath('/', parent)
  const own = resolvePath('/', path)
  return above === '/' || own === above || own.startsWith(`${above}/`)
}
