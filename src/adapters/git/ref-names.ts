import { invalid, isBranchName } from '../../engine/ports.js'
import { gitLimits } from './limits.js'

/** Throws INVALID_ARGUMENT (field `branchName`) unless `git check-ref-format --branch` takes the name. */
export function checkBranchName(branchName: string): void {
  if (!isBranchName(branchName) || Buffer.byteLength(branchName) > gitLimits.branchNameBytes)
    throw invalid('branchName', 'is not a valid name of a branch in git')
}
