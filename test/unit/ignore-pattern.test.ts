import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bytesOf, parseIgnoreFile, parseIgnorePattern } from '../../src/engine/base/ignore-pattern.js'
import { itemAt } from '../../src/engine/base/present.js'
import { randomWords } from '../../src/testing.js'
import { isLong, runs, seed } from '../support/seed.js'

let repository: string

beforeAll(() => {
  repository = mkdtempSync(join(tmpdir(), 'ignore-pattern-'))
  spawnSync('git', ['init', '-q', repository])
})

afterAll(() => rmSync(repository, { recursive: true, force: true }))

/** The paths that real git ignores. A path with a slash is a file in directories. */
function ignoredByGit(content: string, paths: readonly string[]): Set<string> {
  writeFileSync(join(repository, '.gitignore'), content)
  const { stdout } = spawnSync('git', ['check-ignore', '--no-index', '-z', '--stdin'], {
    cwd: repository,
    // Without `./`, git takes a path such as `:a` for a pathspec.
    input: paths.map((path) => `./${path}`).join('\0'),
    env: { PATH: process.env['PATH'], GIT_CONFIG_NOSYSTEM: '1', HOME: repository },
  })
  return new Set(
    stdout
      .toString()
      .split('\0')
      .map((path) => path.slice(2)),
  )
}

function ignoredHere(content: string, path: string): boolean {
  const patterns = parseIgnoreFile(Buffer.from(content))
  const parts = path.split('/')
  return parts.some((name, index) => {
    const above = bytesOf(parts.slice(0, index + 1).join('/'))
    const last = patterns.findLast(
      ({ directoryOnly, matches }) =>
        (!directoryOnly || index + 1 < parts.length) && matches(above, bytesOf(name)),
    )
    return last !== undefined && !last.negated
  })
}

test.each<[content: string, path: string]>([
  ['a', 'd/a'],
  ['/a', 'd/a'],
  ['a/', 'a'],
  ['a/', 'a/b'],
  ['a/b', 'd/a/b'],
  ['**/a/b', 'd/a/b'],
  ['a/**', 'a'],
  ['a/**', 'a/b'],
  ['a**/b', 'a/b'],
  ['a**/b', 'ab'],
  ['a**/b', 'ax/y/b'],
  ['*\n!b', 'b'],
  ['d\n!d/b', 'd/b'],
  ['d/*\n!d/b', 'd/b'],
  ['a ', 'a'],
  ['a\\ ', 'a '],
  ['\\!a', '!a'],
  ['\\#a', '#a'],
  ['#a', '#a'],
  ['a\r', 'a'],
  ['\ufeffa', 'a'],
  ['?', 'é'],
  ['??', 'é'],
  ['[é]', 'é'],
  ['a\\', 'a'],
  ['[a', '[a'],
  ['[[:digit:]]', '1'],
  ['[[:none:]]', '1'],
  ['{a,b}', 'a'],
  ['.*', '.a'],
  ['*', '.a'],
  ['a\0b', 'a'],
])('treats %j and the path %j as git does', (content, path) => {
  expect(ignoredHere(content, path)).toBe(ignoredByGit(content, [path]).has(path))
})

test(`agrees with git on random patterns (FORKSPACE_SEED=${seed})`, () => {
  const random = randomWords(seed)
  const one = <T>(list: readonly T[]): T => itemAt(list, random() % list.length)
  const atoms =
    'a|b|ab|*|**|***|?|/|/|**/|/**|[ab]|[!a]|[^b]|[a-b]|[b-a]|[]a]|[!]a-]|[-a]|[a/b]|[\\]]|[|]|[[:alpha:]]|[[:x:]]|[[:a]|\\a|\\*|\\/|\\|.|!|#| |\\ |\r|{a,b}|é|A'.split(
      '|',
    )
  const names = 'a|b|ab|ba|aa|.a|x.a|a b|a |!a|#a|é|A|[|]|*|-|{a,b}'.split('|')
  const several = <T>(most: number, make: () => T): T[] => Array.from({ length: 1 + (random() % most) }, make)
  for (let round = 0; round < runs(1000); round++) {
    const line = (): string => (random() % 6 === 0 ? '!' : '') + several(4, () => one(atoms)).join('')
    const content = several(3, line).join('\n')
    const paths = [...new Set(several(40, () => several(3, () => one(names)).join('/')))]
    const byGit = ignoredByGit(content, paths)
    for (const path of paths)
      expect([content, path, ignoredHere(content, path)]).toEqual([content, path, byGit.has(path)])
  }
})

test.each(['*a'.repeat(200), '**/a/'.repeat(200), '?*'.repeat(200), '[a-z]*'.repeat(150)])(
  'matches a hostile pattern in bounded time',
  (hostile) => {
    const pattern = parseIgnorePattern(`${hostile}b`)
    const name = 'a'.repeat(255)
    // Matching by backtracking would not end.
    expect(pattern?.matches(`${'a/'.repeat(250)}${name}`, name)).toBe(false)
  },
)

test('hostile patterns take time in proportion to the product of both lengths', () => {
  const name = 'a'.repeat(250)
  const path = Array.from({ length: 100 }, () => 'a').join('/')
  for (const [pattern, text] of [
    ['*a'.repeat(100_000) + 'b', name],
    ['*a'.repeat(120) + 'b', name],
    ['*[ab]'.repeat(120) + 'c', name],
    ['**/'.repeat(80_000) + 'b', path],
    ['**/*/'.repeat(50_000) + 'b', path],
    ['**/*/'.repeat(60) + 'b', path],
    ['/*'.repeat(100_000), path],
  ] as const) {
    const [rule] = parseIgnoreFile(Buffer.from(pattern))
    // A match takes up to some milliseconds. Several states for each character, or backtracking, would take hours.
    for (let run = 0; run < (isLong ? 20 : 5); run++) expect(rule?.matches(text, text)).toBe(false)
  }
})
