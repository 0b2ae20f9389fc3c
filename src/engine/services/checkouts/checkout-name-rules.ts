import { EngineError } from '../../base/errors.js'
import { unsafePart } from '../../base/unsafe-names.js'
import { unsafeWindowsPart } from '../../base/windows-names.js'

/** Throws when a path must neither be written to a directory of the host nor be brought back from there. */
export type NameRule = (path: string, isSymlink: boolean) => void

export interface NameRuleOptions {
  /** Of the host, as Node names it. */
  readonly platform: string
  readonly allowGitNames: boolean
}

/**
 * Refuses the names that git imports and commits refuse too, unless they are allowed, and on Windows always the names
 * that lead elsewhere there.
 *
 * @throws {EngineError} UNSAFE_PATH when a name is refused
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
