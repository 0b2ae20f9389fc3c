import { itemAt } from './present.js'
/**
 * Whether a name must not leave a session. Git imports, commits, archives and checkouts all use this rule.
 *
 * It rejects a text that is not the name of one path part, and every name that some file system treats as
 * `.git`. For example, a program that writes `/.git/config` chooses the commands of the next `git status`.
 * HFS+ ignores some code points. NTFS ignores case, ignores dots and spaces at the end, and has short names
 * and streams. The rules are those of git's `core.protectHFS` and `core.protectNTFS`.
 */
export function isUnsafeName(name: string): boolean {
  if (name === '' || name === '.' || name === '..') return true
  if (name.includes('/') || name.includes('\0')) return true
  return maySpellGit.test(name) && ntfsDotGit.test(name.replace(hfsIgnored, ''))
}

/** Whether a symlink must not have this name. Git itself reads `.gitmodules`, and never through a symlink. */
export function isUnsafeSymlinkName(name: string): boolean {
  return (
    isUnsafeName(name) || (maySpellGit.test(name) && ntfsDotGitmodules.test(name.replace(hfsIgnored, '')))
  )
}

/**
 * The first part of an absolute path that is unsafe by {@link isUnsafeName}, or as the name of a symlink;
 * undefined when there is none.
 */
export function unsafePart(path: string, isSymlink: boolean): string | undefined {
  // For nearly every path, the first letters of its names decide.
  if (!partMaySpellGit.test(path)) return undefined
  const parts = path.split('/').slice(1)
  const last = itemAt(parts, -1)
  return parts.find(isUnsafeName) ?? (isSymlink && isUnsafeSymlinkName(last) ? last : undefined)
}

const maySpellGit = /^[.g~\u200c-\u206f\ufeff]/i
const partMaySpellGit = /\/[.g~\u200c-\u206f\ufeff]/i
const hfsIgnored = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g
const ntfsDotGit = /^(\.git|git~1)[. ]*([:\\].*)?$/is
/** The last of these are the short names that NTFS makes if `gitmod~1` to `gitmod~4` are taken. */
const ntfsDotGitmodules =
  /^(\.gitmodules|gitmod~[1-4]|gi7eba~[1-9]|gi7eb~[1-9]\d|gi7e~[1-9]\d{2}|gi7~[1-9]\d{3}|gi~[1-9]\d{4}|g~[1-9]\d{5}|~[1-9]\d{6})[. ]*(:.*)?$/is
