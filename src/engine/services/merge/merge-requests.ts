import { invalid } from '../../base/errors.js'
import { parseGlob, type Glob } from '../../base/glob.js'
import { given, isBytes, oneOf, parseFlag, parseFunction, parseText, readList } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { pageNames, type PageRequest } from '../../base/paging.js'
import { joinPath, parsePath } from '../../base/path.js'
import { Shape } from '../../base/shape.js'
import { toBytes } from '../../cas/staging.js'
import type { FileContent } from '../../session/edits/writes.js'
import type { SideNames } from '../../records/merge.js'
import { MergePolicy, PathRules, type Merger } from './merge-policies.js'

/** The policy for the conflicts of some paths. */
export interface MergePolicyRule {
  /** A glob, such as `docs/**` or `/docs/**`. The first rule that matches a path applies. */
  readonly glob: string
  /** `'fail'`, `'ours'`, `'theirs'`, `'union'` or `'markers'`. */
  readonly policy: MergePolicy
}

/** A function that merges the contents of some files. */
export interface MergerRule {
  /** A glob, such as `package.json`. The first rule that matches a path applies. */
  readonly glob: string
  /** Called for each file that both sides changed, in place of the merge by lines. */
  readonly merge: Merger
}

/** Options of `session.merge`. */
export interface MergeOptions {
  /**
   * What to do with conflicts, by path; at most 1,000 rules. Without a rule for its path, a file keeps our
   * content, and the conflict stays on the session until it is resolved.
   */
  readonly policies?: readonly MergePolicyRule[]
  /** Functions that merge contents, by path; at most 1,000 rules. */
  readonly mergers?: readonly MergerRule[]
  /** true: returns the result, and changes nothing. false by default. */
  readonly dryRun?: boolean
  /** The `eventId` of the session's newest event. If it is another one, the call fails. */
  readonly expectedEventId?: string
  /** The names of the sides after markers: `'base'`, `'ours'` and `'theirs'` by default. */
  readonly names?: Partial<SideNames>
}

/** Options of `session.rebase`. */
export interface RebaseOptions extends MergeOptions {
  /** The id or label of a revision of the session's source. Absent or '': the latest revision. */
  readonly revisionId?: string
}

const mergeNames = {
  policies: true,
  mergers: true,
  dryRun: true,
  expectedEventId: true,
  names: true,
} as const

const mergeShape = new Shape<MergeOptions>(mergeNames)
const rebaseShape = new Shape<RebaseOptions>({ ...mergeNames, revisionId: true })
const policyShape = new Shape<MergePolicyRule>({ glob: true, policy: true })
const mergerShape = new Shape<MergerRule>({ glob: true, merge: true })
const namesShape = new Shape<Partial<SideNames>>({ base: true, ours: true, theirs: true })

export interface ParsedMerge {
  readonly policies: PathRules<MergePolicy>
  readonly mergers: PathRules<Merger>
  readonly names: SideNames
  readonly dryRun: boolean
  readonly expectedEventId: string | undefined
}

export interface ParsedRebase extends ParsedMerge {
  readonly revisionId: string
}

/**
 * Returns a checked copy of the options.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option has the wrong form.
 */
export function parseMerge(options: MergeOptions): ParsedMerge {
  return parseRules(mergeShape.read(options, 'options'))
}

export function parseRebase(options: RebaseOptions): ParsedRebase {
  const { revisionId = '', ...rest } = rebaseShape.read(options, 'options')
  return { ...parseRules(rest), revisionId: parseText('revisionId', revisionId, limits.labelBytes) }
}

function parseRules(options: MergeOptions): ParsedMerge {
  const { policies = [], mergers = [], dryRun, expectedEventId, names = {} } = options
  return {
    policies: new PathRules(
      readList('policies', policies, limits.mergeRules, 'rules').map((rule, index) =>
        parsePolicy(rule, index),
      ),
    ),
    mergers: new PathRules(
      readList('mergers', mergers, limits.mergeRules, 'rules').map((rule, index) => parseMerger(rule, index)),
    ),
    names: parseNames(names),
    dryRun: parseFlag('dryRun', dryRun, false),
    expectedEventId:
      expectedEventId === undefined
        ? undefined
        : parseText('expectedEventId', expectedEventId, limits.labelBytes),
  }
}

function parsePolicy(rule: unknown, index: number): readonly [Glob, MergePolicy] {
  const field = `policies[${index}]`
  const { glob, policy } = policyShape.readPart(rule as MergePolicyRule, field)
  if (!Object.values(MergePolicy).includes(policy))
    throw invalid(
      `${field}.policy`,
      `must be one of ${Object.values(MergePolicy).join(', ')}; it is ${given(policy)}`,
    )
  return [parsePathGlob(glob, `${field}.glob`), policy]
}

function parseMerger(rule: unknown, index: number): readonly [Glob, Merger] {
  const field = `mergers[${index}]`
  const { glob, merge } = mergerShape.readPart(rule as MergerRule, field)
  if (merge === undefined) throw invalid(`${field}.merge`, 'must be a function; it is undefined')
  parseFunction(`${field}.merge`, merge)
  return [parsePathGlob(glob, `${field}.glob`), merge]
}

function parsePathGlob(glob: unknown, field: string): Glob {
  return parseGlob(parseText(field, glob, limits.pathBytes), field)
}

function parseNames(names: Partial<SideNames>): SideNames {
  const { base = 'base', ours = 'ours', theirs = 'theirs' } = namesShape.readPart(names, 'names')
  const sides = { base, ours, theirs }
  for (const [side, name] of Object.entries(sides)) {
    const text = parseText(`names.${side}`, name, limits.labelBytes)
    if (/[\r\n]/.test(text)) throw invalid(`names.${side}`, 'must be one line')
  }
  return sides
}

/** The side of a conflict that a file takes. */
export type ConflictSideName = keyof SideNames

/** The request of `session.conflicts.resolve`: the path, and exactly one of the other keys. */
export interface ConflictResolveRequest {
  /** The `path` of the conflict. */
  readonly path: string
  /** Takes the whole file of one side, or its absence. */
  readonly use?: ConflictSideName
  /** The resolved content. */
  readonly content?: FileContent
  /** true: the file is deleted. */
  readonly deleted?: boolean
}

/** The request of `session.conflicts.resolveAll`. */
export interface ConflictResolveAllRequest {
  /** Takes the files of one side at all unresolved conflicts. */
  readonly use: ConflictSideName
}

/** The request of `session.conflicts.read`. */
export interface ConflictReadRequest {
  /** The `path` of the conflict. */
  readonly path: string
}

const resolveShape = new Shape<ConflictResolveRequest>({
  path: true,
  use: true,
  content: true,
  deleted: true,
})
const resolveAllShape = new Shape<ConflictResolveAllRequest>({ use: true })
const readShape = new Shape<ConflictReadRequest>({ path: true })
export const conflictListShape = new Shape<PageRequest>(pageNames)

export interface ParsedResolution {
  readonly path: string
  readonly use: ConflictSideName | undefined
  readonly content: Uint8Array | undefined
}

export function parseResolve(request: ConflictResolveRequest): ParsedResolution {
  const { path: given, ...way } = resolveShape.read(request)
  const path = joinPath(parsePath(given))
  if (Object.keys(way).length !== 1) throw invalid('request', oneOf(way, 'use, content, deleted'))
  if (way.use !== undefined) return { path, use: parseSide(way.use), content: undefined }
  if (way.deleted !== undefined && !parseFlag('deleted', way.deleted, true))
    throw invalid('deleted', 'must be true, or absent')
  if (way.content === undefined) return { path, use: undefined, content: undefined }
  const bytes = toBytes(way.content)
  return { path, use: undefined, content: isBytes(bytes) ? new Uint8Array(bytes) : bytes }
}

export function parseResolveAll(request: ConflictResolveAllRequest): ConflictSideName {
  return parseSide(resolveAllShape.read(request).use)
}

export function parseConflictRead(request: ConflictReadRequest): string {
  return joinPath(parsePath(readShape.read(request).path))
}

function parseSide(use: unknown): ConflictSideName {
  if (use !== 'base' && use !== 'ours' && use !== 'theirs')
    throw invalid('use', `must be 'ours', 'theirs' or 'base'; it is ${given(use)}`)
  return use
}
