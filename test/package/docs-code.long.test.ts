import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { readExamples } from '../support/doc-examples.js'
import { expectedOutput, programOf, readPages } from '../support/doc-pages.js'
import { compileAndRun, type DocRun } from '../support/doc-runs.js'
import { exampleProgram, exportedNames, unusedKeys, whyNotRun } from '../support/example-programs.js'

const root = resolve(import.meta.dirname, '../..')
const programs = readPages().filter((page) => programOf(page) !== undefined)

const examples = readExamples().map((example) => ({ ...example, path: `${example.file}:${example.line}` }))
const run = examples.filter((example) => whyNotRun(example) === undefined)

/** The names that examples use without importing them. */
const exported = exportedNames({
  forkspace: source('index.ts'),
  'forkspace/git': source('adapters/git-server/index.ts'),
  'forkspace/http': source('adapters/http/index.ts'),
  'forkspace/inspector': source('adapters/inspector/index.ts'),
  'forkspace/ai-sdk': source('adapters/ai-sdk/index.ts'),
  'forkspace/claude': source('adapters/claude/index.ts'),
  'forkspace/mastra': source('adapters/mastra/index.ts'),
  'forkspace/deepagents': source('adapters/deepagents/index.ts'),
  'forkspace/openai-agents': source('adapters/openai-agents/index.ts'),
  'forkspace/tanstack': source('adapters/tanstack/index.ts'),
  'forkspace/just-bash': source('adapters/just-bash/index.ts'),
  'forkspace/level': source('adapters/level/index.ts'),
  'forkspace/postgres': source('adapters/postgres/index.ts'),
  'forkspace/s3': source('adapters/s3/index.ts'),
  'forkspace/client': source('adapters/client/index.ts'),
  'forkspace/testing': source('testing.ts'),
  'forkspace/webdav': source('adapters/webdav/index.ts'),
  'node:fs/promises': 'export { readFile, writeFile }',
  'node:http': 'export { createServer }',
})

function source(name: string): string {
  return readFileSync(join(root, 'src', name), 'utf8')
}

describe('code of the documentation', () => {
  let directory: string
  let diagnostics: string
  let runs: Map<string, DocRun>

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'docs-'))
    const ofPages = programs.map((page) => ({
      path: page.path,
      program: (moduleOf: (name: string) => string) => programOf(page, moduleOf('docs-world'))!,
    }))
    const ofExamples = run.map((example) => ({
      path: example.path,
      program: (moduleOf: (name: string) => string) => exampleProgram(example, exported, moduleOf),
    }))
    ;({ diagnostics, runs } = await compileAndRun([...ofPages, ...ofExamples], {
      worlds: ['docs-world', 'examples-world', 'examples-remote-world'],
      place: inject('runDirectory'),
      directory,
    }))
  }, 300_000)
  afterAll(() => rm(directory, { recursive: true }))

  test('compiles', () => expect(diagnostics).toBe(''))

  test.each(programs.map((page) => [page.path, page] as const))(
    '%s runs and prints its output',
    (path, page) => {
      const { failure, output } = runs.get(path)!
      expect(failure).toBeUndefined()
      for (const [line, text] of expectedOutput(page)) {
        const printed = output.filter(([at]) => at === line).map(([, shown]) => shown)
        expect(printed, `${path}:${line}`).toEqual([text])
      }
    },
  )

  test('runs in the examples of doc comments', () => {
    expect(run.length).toBeGreaterThan(200)
    const failures = run.map(({ path }) => {
      const ran = runs.get(path)
      return [path, ran === undefined ? 'not reached' : ran.failure]
    })
    expect(failures.filter(([, failure]) => failure !== undefined)).toEqual([])
  })

  test('has no surroundings for missing examples', () => expect(unusedKeys(examples)).toEqual([]))
})
