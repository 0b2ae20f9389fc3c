import { invalid } from '../../engine/ports.js'
import { gitLimits } from './limits.js'

/** Throws INVALID_ARGUMENT (field `branchName`) unless `git check-ref-format --branch` takes the name. */
export function checkBranchName(branchName: string): void {
  const legal =
    branchName !== 'HEAD' &&
    !branchName.startsWith('-') &&
    Buffer.byteLength(branchName) <= gitLimits.branchNameBytes &&
    isRefName(`refs/heads/${branchName}`)
  if (!legal) throw invalid('branchName', 'is no name that git takes for a branch')
}

/** The rules of `git check-ref-format` for a name with at least one slash, or HEAD. */
export function isRefName(name: string): boolean {
  if (name === 'HEAD') return true
  if (!name.includes('/') || !name.isWellFormed() || name.endsWith('.')) return false
  if (name.includes('..') || name.includes('@{')) return false
  if (/[\0-\x20\x7f~^:?*[\\]/.test(name)) return false
  return name.split('/').every((part) => part !== '' && !part.startsWith('.') && !part.endsWith('.lock'))
}
