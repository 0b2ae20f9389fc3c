import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { staticTokens } from '../../src/adapters/http/index.js'
import { examplesOf } from '../support/doc-examples.js'
import { parsePage, readPages, type Page } from '../support/doc-pages.js'

const root = resolve(import.meta.dirname, '../..')
const pages = readPages()

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
    .filter(({ name }) => !['ci', 'init', 'install'].includes(name) && !Object.hasOwn(scripts, name))
  expect(unknown).toEqual([])
})

test('each guide installs the packages that its examples import', () => {
  const missing: string[] = []
  for (const { path, text, blocks } of pages) {
    if (!path.startsWith('docs/guides/') || !text.includes('npm install')) continue
    const installed = [...text.matchAll(/npm install ([^`\n]+)/g)].flatMap(([, names]) => names!.split(' '))
    const imported = blocks.flatMap(({ code }) =>
      [...code.matchAll(/^import .* from '((?:@[^/']+\/)?[^/']+)(?:\/([^']+))?'/gm)].map(([, name, part]) =>
        // The only optional package that examples use through one of ours alone.
        name === 'forkspace' && part === 'just-bash' ? part : name!,
      ),
    )
    const wanted = new Set(imported.filter((name) => !name.startsWith('node:')))
    for (const name of wanted) if (!installed.includes(name)) missing.push(`${path}: ${name}`)
  }
  expect(missing).toEqual([])
})

test('getting started declares the names that examples use without declaring them', async () => {
  const world = await readFile(join(root, 'test/support/docs-world.ts'), 'utf8')
  const body = /export interface World [^{]*\{\n(.*?)\n\}/s.exec(world)?.[1] ?? ''
  const names = [...body.matchAll(/^ {2}(?:readonly )?(\w+)[(:]/gm)].map(([, name]) => name!)
  const started = pages.find(({ path }) => path === 'docs/getting-started.md')
  const code = started?.blocks.find(({ notRun }) => notRun?.includes('docs.test.ts') === true)?.code ?? ''
  const declared = [...code.matchAll(/^const (?:\{ )?(\w+)/gm)].map(([, name]) => name!)
  expect(declared.toSorted()).toEqual(names.toSorted())
  const token = /^const token = '(.*)'$/m.exec(code)?.[1] ?? ''
  expect(() => staticTokens({ [token]: { tenant: 'acme', principal: 'ann' } })).not.toThrow()
})

test('rejects a page with an unterminated block', () => {
  expect(() => parsePage('a.md', 'text\n\n```ts\nlet a\n')).toThrow('a.md:3: the block has no end')
})
