import { argumentError, typeError } from './argument-errors.js'
import { checkBoolean, checkInteger, toObject } from './values.js'

/** The caller's filter. Its answer may be a promise. */
export type CopyFilter = (src: string, dest: string) => unknown

export interface CopyOptions {
  readonly dereference: boolean
  readonly errorOnExist: boolean
  readonly filter: CopyFilter | undefined
  readonly force: boolean
  /** The same as the `mode` of copyFile. */
  readonly mode: number
  readonly preserveTimestamps: boolean
  readonly recursive: boolean
  readonly verbatimSymlinks: boolean
}

const defaults: CopyOptions = {
  dereference: false,
  errorOnExist: false,
  filter: undefined,
  force: true,
  mode: 0,
  preserveTimestamps: false,
  recursive: false,
  verbatimSymlinks: false,
}

const switches = [
  'dereference',
  'errorOnExist',
  'force',
  'preserveTimestamps',
  'recursive',
  'verbatimSymlinks',
] as const

export function toCopyOptions(given: unknown): CopyOptions {
  if (typeof given === 'function') throw typeError('options', 'of type object', given)
  const some: Partial<CopyOptions> = toObject(given)
  const options = { ...defaults, ...some }
  for (const name of switches) checkBoolean(`options.${name}`, options[name])
  const mode = options.mode ?? 0
  checkInteger('mode', mode, 0, 7)
  if (options.dereference && options.verbatimSymlinks) {
    const message = 'Option "dereference" cannot be used in combination with option "verbatimSymlinks"'
    throw argumentError('ERR_INCOMPATIBLE_OPTION_PAIR', message)
  }
  if (options.filter !== undefined && typeof options.filter !== 'function')
    throw typeError('options.filter', 'of type function', options.filter)
  return { ...options, mode }
}
