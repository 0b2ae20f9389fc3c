import { EngineError } from '../../base/errors.js'
import { unsafePart } from '../../base/unsafe-names.js'

/** Throws when a path must neither be written to a directory of the host nor be brought back from there. */
export type NameRule = (path: string, isSymlink: boolean) => void

export const anyName: NameRule = () => undefined

/** UNSAFE_PATH for the names that git imports and commits refuse too. */
export const refuseUnsafe: NameRule = (path, isSymlink) => {
  const name = unsafePart(path, isSymlink)
  if (name === undefined) return
  throw new EngineError(
    'UNSAFE_PATH',
    `${path}: git, or some file system, takes the name ${JSON.stringify(name)} for ".git" or ".gitmodules". Remove or rename it, or open the engine with allowGitNames: true.`,
    { path },
  )
}
