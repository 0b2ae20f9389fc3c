import type { Check } from '../base/checks.js'
import { isEncodedDir } from '../tree/encoded.js'

/** Whether a value can be the root of a tree. */
export const isRoot: Check = isEncodedDir
