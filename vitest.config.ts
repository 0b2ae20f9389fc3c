import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { env } from 'node:process'
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { LongestFirst } from './test/support/longest-first.js'
import { temporaryDirectory } from './test/support/temporary-directory.js'

/** The import of a test that runs more rounds, or larger inputs, in `npm run test:long` than in `npm test`. */
const importsSize =
  /import \{.*\b(?:isLong|isComplete|runs|size|stepOf|fewStorages|fewStores)\b.*\} from '.*\/(?:seed|storages|engines-of-both-stores)\.js'/
/** The import of a test that runs on each kind of storage. */
const importsStorages = /import \{.*\b(?:storages|fewStorages)\b.*\} from '.*\/storages\.js'/
const tests = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .map((path) => `test/${path}`)
  .filter((path) => path.endsWith('.test.ts'))
const importing = (pattern: RegExp): string[] =>
  tests.filter((path) => pattern.test(readFileSync(path, 'utf8')))
/** Tests that only `npm run test:long` runs. */
const onlyLong = 'test/**/*.long.test.ts'
/** Loops that CI also runs by themselves, with a new seed each time. */
const loops = 'test/crash/postgres.long.test.ts'

/**
 * Tests that need a process of their own: they mock a module, load one that patches `process`, measure memory, or count
 * handles or warnings. The others share processes, which load the sources once.
 */
const alone = [
  'test/compat/tools.test.ts',
  'test/http/{contents,large-bodies,slow-readers,streams}.test.ts',
  'test/unit/git-local-hostile.test.ts',
]

/**
 * Tests that start many child processes, mostly git. They run in separate shared processes, which stay small. Starting a
 * child from a process that holds 1 GiB takes about ten times as long as from a small one.
 */
const children = [
  'test/agents/claude-query.test.ts',
  'test/architecture.test.ts',
  'test/client/loading.test.ts',
  'test/cli/*.test.ts',
  'test/compat/isomorphic-git.test.ts',
  'test/crash/loops.test.ts',
  'test/git-server/{clones,embedding,isomorphic,lifecycle,random}.test.ts',
  'test/http/openapi-clients.test.ts',
  'test/model/concurrent-sessions.test.ts',
  'test/package/*.test.ts',
  'test/spec/{main-job,states}.test.ts',
  'test/unit/{archives,checkout-git,commits,errors,exec,kept-commits,level-hostile,level-storage,links}.test.ts',
  'test/unit/diff-patches.test.ts',
  'test/unit/fs/processes.test.ts',
  'test/unit/{merge-git,patch-round-trips,rebase-commits,rebase-git}.test.ts',
  'test/unit/text/merge-text.test.ts',
  'test/unit/git-{adapter,bundle,edges,hostile,local,packs,refresh}.test.ts',
]

/** The projects of all tests but `others`. Tests share processes where they can. */
const projectsWithout = (
  others: readonly string[],
  environment: Record<string, string>,
): TestProjectInlineConfiguration[] => [
  project('shared', ['test/**/*.test.ts'], [...others, ...alone, ...children], environment),
  project('children', children, [...others, ...alone], environment),
  project('alone', alone, [...others], environment),
]

const project = (
  name: string,
  include: string[],
  exclude: string[],
  environment: Record<string, string>,
): TestProjectInlineConfiguration => ({
  extends: true,
  test: {
    name,
    include,
    exclude,
    env: environment,
    isolate: name === 'alone' || name === 'long' || name === 'loops',
  },
})

const sized = importing(importsSize)
const size = { FORKSPACE_TEST_SIZE: env['FORKSPACE_TEST_SIZE'] ?? '1' }
/** The projects of `npm run test:long`. */
const long = [
  ...projectsWithout([onlyLong, ...tests.filter((path) => !sized.includes(path))], size),
  project('long', [onlyLong], [loops], size),
  project('loops', [loops], [], size),
  // The short forms, on further kinds of storage.
  project('storage', importing(importsStorages), [onlyLong], {
    FORKSPACE_TEST_SIZE: '',
    FORKSPACE_TEST_STORAGE: 'others',
    TMPDIR: temporaryDirectory(),
  }),
]

export default defineConfig(({ mode }) => ({
  test: {
    environment: 'node',
    globalSetup: ['test/support/run-directory.ts', 'test/support/initial-postgres-data.ts'],
    setupFiles: ['test/support/byte-equality.ts'],
    pool: 'forks',
    // Four more than the number of cores, because many tests wait for a disk, a child process or a clock.
    maxWorkers: availableParallelism() + 4,
    // Caches transformed sources in node_modules for the next run.
    experimental: { fsModuleCache: true },
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    teardownTimeout: 60_000,
    reporters: ['default', './test/support/summary-reporter.ts'],
    projects: mode === 'long' ? long : projectsWithout([onlyLong], { TMPDIR: temporaryDirectory() }),
  },
}))
