import type { Check } from '../base/checks.js'

/** Whether a value can be the root of a tree; the codec reads the rest. */
export const isRoot: Check = (value) =>
  Array.isArray(value) && value[0] === 'd' && typeof value[6] === 'string'
