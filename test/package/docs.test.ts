import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { examplesOf, readExamples } from '../support/doc-examples.js'
import { expectedOutput, parsePage, programOf, readPages, type Page } from '../support/doc-pages.js'
import { compileAndRun, type DocRun } from '../support/doc-runs.js'
import { exampleProgram, exportedNames, unusedKeys, whyNotRun } from '../support/example-programs.js'

const root = resolve(import.meta.dirname, '../..')
const pages = readPages()
const programs = pages.filter((page) => programOf(page) !== undefined)

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
  'forkspace/client': source('adapters/client/index.ts'),
  'forkspace/testing': source('testing.ts'),
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
  }, 120_000)
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

test('an example ends at the next tag or at the end of the comment', () => {
  const comment = [
    '/**',
    ' * Adds.',
    ' *',
    ' * @example',
    ' * add(1)',
    ' *',
    ' * add(2)',
    ' *',
    ' * @example',
  ]
  const text = [...comment, ' * add(3)', ' */', 'async add() {}'].join('\n')
  expect(examplesOf('a.ts', text)).toEqual([
    { file: 'a.ts', declared: 'async add() {}', code: 'add(1)\n\nadd(2)', line: 5 },
    { file: 'a.ts', declared: 'async add() {}', code: 'add(3)', line: 10 },
  ])
})

describe('links of the pages', () => {
  const byPath = new Map(pages.map((page) => [page.path, page]))

  test('lead to existing files and headings', () => {
    const dead: string[] = []
    for (const page of pages) {
      for (const { target, line } of page.links) {
        const [file = '', anchor] = target.split('#')
        const path = file === '' ? page.path : relative(root, resolve(root, dirname(page.path), file))
        const leads = anchor === undefined || byPath.get(path)?.anchors.has(anchor) === true
        if (!existsSync(join(root, path)) || !leads) dead.push(`${page.path}:${line}: ${target}`)
      }
    }
    expect(dead).toEqual([])
  })

  test('reach every page of docs from README.md in two steps', () => {
    const linked = (page: Page): string[] =>
      page.links.map(({ target }) => relative(root, resolve(root, dirname(page.path), target.split('#')[0]!)))
    const first = linked(byPath.get('README.md')!)
    const second = first.flatMap((path) => (byPath.has(path) ? linked(byPath.get(path)!) : []))
    const reached = new Set([...first, ...second])
    const wanted = pages
      .map(({ path }) => path)
      .filter((path) => path.startsWith('docs/') && path !== 'docs/index.md')
    expect(wanted.filter((path) => !reached.has(path))).toEqual([])
  })
})

test('the sidebar of the site has every page of docs', async () => {
  const config = await readFile(join(root, 'docs/.vitepress/config.ts'), 'utf8')
  const listed = [...config.matchAll(/'([a-z/-]+)'/g)].map(([, name]) => `docs/${name!}.md`)
  const wanted = pages.map(({ path }) => path).filter((path) => path.startsWith('docs/'))
  expect(wanted.filter((path) => path !== 'docs/index.md' && !listed.includes(path))).toEqual([])
})

test('commands on the pages are scripts of package.json', async () => {
  const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const unknown = pages
    .filter(({ path }) => path !== 'CHANGELOG.md')
    .flatMap(({ path, text }) =>
      [...text.matchAll(/\bnpm (?:run )?([a-z:]+)/g)].map(([, name]) => ({ path, name: name! })),
    )
    .filter(({ name }) => !['ci', 'install'].includes(name) && !Object.hasOwn(scripts, name))
  expect(unknown).toEqual([])
})

test('rejects a page with an unterminated block', () => {
  expect(() => parsePage('a.md', 'text\n\n```ts\nlet a\n')).toThrow('a.md:3: the block has no end')
})
