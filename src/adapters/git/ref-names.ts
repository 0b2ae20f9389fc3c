import { invalid, isBranchName } from '../../engine/ports.js'
import { gitLimits } from './limits.js'

/**
 * Throws INVALID_ARGUMENT (field `branchName`) if `git check-ref-format --branch` would reject the name, or
 * if it is over `gitLimits.branchNameBytes`.
 */
export function checkBranchName(branchName: string): void {
  if (!isBranchName(branchName) || Buffer.byteLength(branchName) > gitLimits.branchNameBytes)
    throw invalid('branchName', 'is not a valid git branch name')
}
