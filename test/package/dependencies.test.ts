import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '../..')

test('every package that the sources load is a dependency, or an optional peer dependency', () => {
  const { dependencies, peerDependencies, peerDependenciesMeta } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  ) as {
    dependencies: Record<string, string>
    peerDependencies: Record<string, string>
    peerDependenciesMeta: Record<string, { optional: boolean }>
  }
  const optional = Object.keys(peerDependencies).filter((name) => peerDependenciesMeta[name]?.optional)
  const loaded = new Set<string>()
  for (const name of readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.js')) continue
    const code = readFileSync(join(root, 'dist', name), 'utf8').replaceAll(
      /\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm,
      '',
    )
    for (const [, specifier] of code.matchAll(
      /(?:\bfrom|^\s*import|\bimport\()\s*['"]([a-z@][\w@/:.-]*)['"]/gm,
    )) {
      const [first, second] = specifier!.split('/')
      if (!first!.startsWith('node:')) loaded.add(first!.startsWith('@') ? `${first!}/${second!}` : first!)
    }
  }
  expect(loaded).toContain('commander')
  expect(
    [...loaded].filter((name) => !Object.hasOwn(dependencies, name) && !optional.includes(name)),
  ).toEqual([])
  expect(optional).not.toEqual([])
})

test('docs/decisions/runtime-dependencies.md names exactly the dependencies', () => {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  }
  const page = readFileSync(join(root, 'docs/decisions/runtime-dependencies.md'), 'utf8')
  const rows = [...page.matchAll(/^\| `([^`]+)` +\|(.+)\|$/gm)]
  expect(rows.map((row) => row[1]!).sort()).toEqual(Object.keys(dependencies).sort())
  for (const [, name, cells] of rows)
    expect([name, cells!.split('|').every((cell) => cell.trim() !== '')]).toEqual([name, true])
})
