import { EngineError } from '../../base/errors.js'
import { unsafePart } from '../../base/unsafe-names.js'
import { unsafeWindowsPart } from '../../base/windows-names.js'

/** Throws if a path must not be written to a directory of the host, or copied back from there. */
export type NameRule = (path: string, isSymlink: boolean) => void

export interface NameRuleOptions {
  /** The platform of the host, as in `process.platform`. */
  readonly platform: string
  readonly allowGitNames: boolean
}

/**
 * Rejects the names that git imports and commits also reject, unless `allowGitNames` is true. On Windows,
 * always rejects the names that lead to another place there.
 *
 * @throws {EngineError} UNSAFE_PATH when a name is rejected
 */
export function nameRule({ platform, allowGitNames }: NameRuleOptions): NameRule {
  return (path, isSymlink) => {
    if (!allowGitNames) refuseGitName(path, isSymlink)
    if (platform === 'win32') refuseWindowsName(path)
  }
}

function refuseGitName(path: string, isSymlink: boolean): void {
  const name = unsafePart(path, isSymlink)
  if (name === undefined) return
  throw new EngineError(
    'UNSAFE_PATH',
    `${path}: git or a file system treats the name ${JSON.stringify(name)} as ".git" or ".gitmodules". Remove or rename it, or open the engine with allowGitNames: true.`,
    { path },
  )
}

function refuseWindowsName(path: string): void {
  const name = unsafeWindowsPart(path)
  if (name === undefined) return
  throw new EngineError(
    'UNSAFE_PATH',
    `${path}: Windows cannot have a file of the name ${JSON.stringify(name)}. Rename it, or check the session out on another system.`,
    { path },
  )
}
