import { AssertionError } from 'node:assert'
import {
  describeDifferences,
  differencesBetween,
  differencesFrom,
  type ExpectedTree,
  type TreeScope,
} from './tree-comparison.js'
import { readTree, type WithFs } from './tree-json.js'
import { Shape } from '../../engine/index.js'

const scopeShape = new Shape<TreeScope>({ at: true, contains: true })

/** The result of a matcher, as `expect.extend` of Vitest and Jest wants it. */
export interface MatcherResult {
  /** Whether the value matches. */
  readonly pass: boolean
  /** The message of a failed test; with `.not`, of one that should not match. */
  readonly message: () => string
}

/** The matchers of {@link treeMatchers}, for the types of a test runner. */
export interface TreeMatchers<Result = Promise<void>> {
  /** The files at `at`, `/` by default, are exactly the expected ones. */
  toHaveTree(expected: ExpectedTree, at?: string): Result
  /** The expected files exist at `at`, `/` by default, and others may too. */
  toContainTree(expected: ExpectedTree, at?: string): Result
  /** The files at `at`, `/` by default, are those of the other session. */
  toHaveSameTreeAs(other: WithFs, at?: string): Result
}

/**
 * Matchers for `expect.extend` of Vitest and Jest. They compare the files of a session, and show what differs.
 * Symlinks are not compared.
 *
 * @example
 * const { pass, message } = await treeMatchers.toHaveTree(session, { 'a.ts': /one/ }, '/src')
 * if (!pass) console.log(message())
 */
export const treeMatchers = {
  /** The files at `at`, `/` by default, are exactly the expected ones. */
  toHaveTree: async (session: WithFs, expected: ExpectedTree, at = '/'): Promise<MatcherResult> =>
    resultOf(await differencesFrom(expected, session, { at }), at),
  /** The expected files exist at `at`, `/` by default, and others may too. */
  toContainTree: async (session: WithFs, expected: ExpectedTree, at = '/'): Promise<MatcherResult> =>
    resultOf(await differencesFrom(expected, session, { at, contains: true }), at),
  /** The files at `at`, `/` by default, are those of the other session. */
  toHaveSameTreeAs: async (session: WithFs, other: WithFs, at = '/'): Promise<MatcherResult> =>
    resultOf(await differencesBetween(other, session, at), at),
} as const

function resultOf(differences: readonly string[], at: string): MatcherResult {
  return {
    pass: differences.length === 0,
    message: () =>
      differences.length === 0
        ? `the files at ${at} are the expected ones, but should differ`
        : describeDifferences(differences, at),
  }
}

/**
 * Compares the files of a session with the expected ones, for `node:test` and other test runners.
 *
 * @throws {AssertionError} when they differ. The message lists the differences.
 * @throws {EngineError} INVALID_ARGUMENT when an argument has the wrong type.
 *
 * @example
 * await assertTree(session, { 'a.ts': /^export/ }, { at: '/src', contains: true })
 */
export async function assertTree(
  session: WithFs,
  expected: ExpectedTree,
  scope: TreeScope = {},
): Promise<void> {
  const { at = '/', contains = false } = scopeShape.read(scope, 'scope')
  const differences = await differencesFrom(expected, session, { at, contains })
  if (differences.length === 0) return
  throw new AssertionError({
    message: describeDifferences(differences, at),
    actual: Object.fromEntries(
      [...(await readTree(session, at)).files].map(([path, bytes]) => [path, textOf(bytes)]),
    ),
    expected,
    operator: 'assertTree',
    stackStartFn: assertTree,
  })
}

function textOf(bytes: Buffer | null): string | null {
  return bytes === null ? null : bytes.toString('utf8')
}
