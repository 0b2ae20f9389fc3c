/** The branch that has the state of a session, for git clients. */
export const servedBranch = 'main'

/** Whether `git check-ref-format --branch` accepts the name. */
export function isBranchName(name: string): boolean {
  return name !== 'HEAD' && !name.startsWith('-') && isRefName(`refs/heads/${name}`)
}

/** The rules of `git check-ref-format` for a name with at least one slash, or HEAD. */
export function isRefName(name: string): boolean {
  if (name === 'HEAD') return true
  if (!name.includes('/') || !name.isWellFormed() || name.endsWith('.')) return false
  if (name.includes('..') || name.includes('@{')) return false
  if (/[\0-\x20\x7f~^:?*[\\]/.test(name)) return false
  return name.split('/').every((part) => part !== '' && !part.startsWith('.') && !part.endsWith('.lock'))
}
