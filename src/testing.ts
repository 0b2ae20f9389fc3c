import { memoryStorage, Shape, type Engine } from './engine/index.js'
import { fixedEnvironment, fixedNames, type FixedEnvironmentOptions } from './adapters/testing/environment.js'
import { createFixture, type Fixture, type FixtureBase } from './adapters/testing/fixture.js'
import { openEngine, type EngineOptions } from './index.js'

/** The options of `openEngine` without `storage`, and those of {@link fixedEnvironment}. */
export type TestEngineOptions = Omit<EngineOptions, 'storage'> & FixedEnvironmentOptions

const testShape = new Shape<TestEngineOptions>({
  ...fixedNames,
  environment: true,
  maxFileBytes: true,
  cacheBytes: true,
  memoryBudgetBytes: true,
  memoryHistoryBytes: true,
  budgets: true,
  automaticCollection: true,
  sessionTtlSeconds: true,
  git: true,
  authorize: true,
  log: true,
  secrets: true,
  hostPaths: true,
  imports: true,
  allowGitNames: true,
  exec: true,
  approvals: true,
})

/**
 * Opens an in-memory engine with a {@link fixedEnvironment}, which suits most tests.
 *
 * @throws {EngineError} INVALID_ARGUMENT if an option is unknown or has the wrong form.
 *
 * @example
 * const engine = await openTestEngine({ seed: 7 })
 * const session = await engine.sessions.create({ files: { '/a.txt': 'one' } })
 */
export async function openTestEngine(options: TestEngineOptions = {}): Promise<Engine> {
  const { startMs, stepMs, seed, ...rest } = testShape.read(options, 'options')
  const fixed = {
    ...(startMs !== undefined && { startMs }),
    ...(stepMs !== undefined && { stepMs }),
    ...(seed !== undefined && { seed }),
  }
  return openEngine({ environment: fixedEnvironment(fixed), ...rest })
}

/**
 * Loads files once, for tests that each fork them. The engine is in memory and repeatable, as in
 * {@link openTestEngine}, whose options it takes. A directory or repository of this machine is read once, and never
 * changed.
 *
 * @throws {EngineError} INVALID_ARGUMENT when `base` does not have exactly one of its fields, or an option is unknown.
 * @throws {EngineError} HOST_FAILED when the directory cannot be read.
 * @throws {EngineError} GIT_NOT_A_REPOSITORY when there is no git repository at the path.
 *
 * @example
 * await using project = await fixture({ files: { '/package.json': '{}', 'src/a.ts': 'export {}' } })
 * await using session = await project.fork()
 * await assertTree(session, { 'a.ts': 'export {}' }, { at: '/src' })
 */
export function fixture(base: FixtureBase, options: TestEngineOptions = {}): Promise<Fixture> {
  return createFixture((roots) => openTestEngine(withRoots(options, roots)), base)
}

/** The options with further roots. `openTestEngine` checks them. */
function withRoots(options: TestEngineOptions, added: readonly string[]): TestEngineOptions {
  const copy = testShape.read(options, 'options')
  const { roots = [], ...rest } = copy.hostPaths ?? {}
  return Array.isArray(roots) ? { ...copy, hostPaths: { ...rest, roots: [...roots, ...added] } } : copy
}

export { memoryStorage }
export { fixedEnvironment, randomWords } from './adapters/testing/environment.js'
export type { FixedEnvironment, FixedEnvironmentOptions } from './adapters/testing/environment.js'
export { fsModules, type DefaultExport, type FsModules } from './adapters/testing/fs-modules.js'
export type { Fixture, FixtureBase, FixtureRepository, FixtureSession } from './adapters/testing/fixture.js'
export type {
  AsymmetricMatcher,
  ExpectedContent,
  ExpectedTree,
  TreeScope,
} from './adapters/testing/tree-comparison.js'
export { fromJSON, toJSON, type WithFs } from './adapters/testing/tree-json.js'
export { assertTree, treeMatchers } from './adapters/testing/tree-matchers.js'
export type { MatcherResult, TreeMatchers } from './adapters/testing/tree-matchers.js'
