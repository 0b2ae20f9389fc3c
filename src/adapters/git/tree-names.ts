/**
 * Whether a name must not be written anywhere: it is no name of one path part, or some file system takes it
 * for `.git`. HFS+ ignores some code points; NTFS ignores case, dots and spaces at the end, and has short
 * names and streams. The rules are those of git's `core.protectHFS` and `core.protectNTFS`.
 */
export function isUnsafeName(name: string): boolean {
  if (name === '' || name === '.' || name === '..') return true
  if (name.includes('/') || name.includes('\0')) return true
  // Most names are decided by their first letters.
  return /^[.g\u200c-\u206f\ufeff]/i.test(name) && ntfsDotGit.test(name.replace(hfsIgnored, ''))
}

const hfsIgnored = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g
const ntfsDotGit = /^(\.git|git~1)[. ]*([:\\].*)?$/is
