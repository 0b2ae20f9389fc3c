import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { expectedOutput, parsePage, programOf, readPages, type Page } from '../support/doc-pages.js'
import { GitRepository } from '../support/git-repository.js'
import { serveGit } from '../support/git-server.js'

const root = resolve(import.meta.dirname, '../..')
const pages = readPages()
const programs = pages.filter((page) => programOf(page) !== undefined)

interface PageRun {
  readonly path: string
  readonly output: readonly (readonly [line: number, text: string])[]
  readonly failure?: string
}

/** The remote in the examples, and its replacement in tests. */
const exampleRemote = 'https://example.org/app.git'

/**
 * Compiles the programs of all pages against the built package in one run, and executes them in one process in turn.
 */
async function compileAndRun(
  directory: string,
  remoteUrl: string,
): Promise<{ diagnostics: string; runs: Map<string, PageRun> }> {
  const place = await mkdtemp(join(inject('runDirectory'), 'docs-'))
  for (const name of ['docs-world.ts', 'docs-runner.mjs'])
    await copyFile(join(root, 'test/support', name), join(place, name))
  for (const page of programs) {
    const file = join(place, page.path.replace(/\.md$/, '.ts'))
    await mkdir(dirname(file), { recursive: true })
    const world = relative(dirname(file), join(place, 'docs-world.js'))
    await writeFile(file, programOf(page, world)!.replaceAll(exampleRemote, remoteUrl))
  }
  const config = {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: { noEmit: false, paths: {}, noUnusedLocals: false, rootDir: place, outDir: place },
    include: [place],
    exclude: [],
  }
  await writeFile(join(place, 'tsconfig.json'), JSON.stringify(config))
  const run = promisify(execFile)
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const diagnostics = await run(process.execPath, [tsc, '-p', place], { cwd: place }).then(
    () => '',
    (error: { readonly stdout: string }) => error.stdout,
  )
  const compiled = programs.map(({ path }) => ({
    path,
    url: pathToFileURL(join(place, path.replace(/\.md$/, '.js'))).href,
  }))
  const order = JSON.stringify({ pages: compiled, directory })
  const { stdout } = await run(process.execPath, [join(place, 'docs-runner.mjs'), order], {
    maxBuffer: 2 ** 24,
    timeout: 60_000,
  })
  const runs = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as PageRun)
  return { diagnostics, runs: new Map(runs.map((ran) => [ran.path, ran])) }
}

describe('code on the pages', () => {
  let directory: string
  let diagnostics: string
  let runs: Map<string, PageRun>

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'docs-'))
    GitRepository.create(join(directory, 'app.git')).commitFiles([
      ['100644', 'README.md', '# An app\n'],
      ['100644', 'src/a.ts', 'export const a = 1\n'],
    ])
    const server = await serveGit(directory)
    try {
      ;({ diagnostics, runs } = await compileAndRun(join(directory, 'work'), `${server.url}/app.git`))
    } finally {
      await server.close()
    }
  })
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
