import { some, type Steps } from '../../base/cooperative.js'
import { parseGlob, type Glob } from '../../base/glob.js'
import { invalid } from '../../base/errors.js'
import { given, parseFlag, parseText, readList } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { Shape } from '../../base/shape.js'

/** How a diff finds renamed files. */
export type RenameDetection = 'exact' | 'none' | SimilarFiles

/** Files with mostly equal lines are renames too. */
export interface SimilarFiles {
  /** The least share of equal lines, in percent: 1 to 100. */
  readonly similarity: number
}

/** The files of a diff, and how it finds renamed ones. */
export interface DiffStatsOptions {
  /**
   * Globs for paths, such as `/src/**` or `*.md`. A file counts if one of them matches its path, or its
   * earlier path. All files by default. `*` and `**` do not match names that begin with a dot.
   */
  readonly globs?: readonly string[]
  /**
   * `'exact'`, the default: a removed and an added file with the same content are a rename. `'none'`: they
   * are not. `{ similarity: 50 }`: also files of which at least 50 percent is equal lines.
   */
  readonly renames?: RenameDetection
}

export interface DiffPatchOptions extends DiffStatsOptions {
  /** Unchanged lines around each change: 3 by default, at most 1,000. */
  readonly context?: number
}

export interface DiffFilesOptions extends DiffPatchOptions {
  /** true: each file has its hunks. false, the default: only the numbers of lines. */
  readonly hunks?: boolean
}

const statsFields = { globs: true, renames: true } as const
const patchFields = { ...statsFields, context: true } as const
const statsShape = new Shape<DiffStatsOptions>(statsFields)
const patchShape = new Shape<DiffPatchOptions>(patchFields)
const filesShape = new Shape<DiffFilesOptions>({ ...patchFields, hunks: true })
const similarityShape = new Shape<SimilarFiles>({ similarity: true })

/** Whether a path is wanted. Long globs take time. */
export type PathFilter = (path: string) => Steps<boolean, undefined>

/** Checked options. */
export interface DiffRules {
  /** Absent: every path. */
  readonly isWanted: PathFilter | undefined
  /** The least similarity of a rename in percent: 100 is the same content. Undefined: no renames. */
  readonly similarity: number | undefined
  readonly context: number
  readonly hunks: boolean
}

export function parseDiffStats(options: DiffStatsOptions = {}): DiffRules {
  return parseRules(statsShape.read(options, 'options'))
}

export function parseDiffPatch(options: DiffPatchOptions = {}): DiffRules {
  return parseRules(patchShape.read(options, 'options'))
}

export function parseDiffFiles(options: DiffFilesOptions = {}): DiffRules {
  return parseRules(filesShape.read(options, 'options'))
}

function parseRules({ globs, renames, context, hunks }: DiffFilesOptions): DiffRules {
  return {
    isWanted: parseGlobs(globs),
    similarity: parseRenames(renames),
    context: parseContext(context),
    hunks: parseFlag('hunks', hunks, false),
  }
}

function parseGlobs(value: readonly string[] | undefined): PathFilter | undefined {
  if (value === undefined) return undefined
  const globs: Glob[] = readList('globs', value, limits.diffGlobs, 'globs').map((glob, index) => {
    const field = `globs[${index}]`
    const text = parseText(field, glob, limits.globBytes)
    // Without a slash, a glob is for the name of a file, in any directory.
    return parseGlob(text.startsWith('/') ? text : text.includes('/') ? `/${text}` : `/**/${text}`, field)
  })
  return (path) => some(globs, (glob) => glob.matches(path))
}

function parseRenames(value: RenameDetection | undefined): number | undefined {
  if (value === undefined || value === 'exact') return 100
  if (value === 'none') return undefined
  if (typeof value !== 'object')
    throw invalid('renames', `must be 'exact', 'none' or { similarity: 1 to 100 }; it is ${given(value)}`)
  const { similarity } = similarityShape.readPart(value, 'renames')
  if (!Number.isInteger(similarity) || similarity < 1 || similarity > 100)
    throw invalid('renames.similarity', `must be a whole number from 1 to 100; it is ${given(similarity)}`)
  return similarity
}

function parseContext(value: number | undefined): number {
  if (value === undefined) return limits.diffContextDefault
  if (!Number.isInteger(value) || value < 0 || value > limits.diffContextMax)
    throw invalid(
      'context',
      `must be a whole number from 0 to ${limits.diffContextMax}; it is ${given(value)}`,
    )
  return value
}
