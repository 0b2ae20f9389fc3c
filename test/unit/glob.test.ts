import { braceExpand, minimatch } from 'minimatch'
import { describe, expect, test } from 'vitest'
import { matchText, parseGlob, parseTextGlob } from '../../src/engine/base/glob.js'
import { limits } from '../../src/engine/base/limits.js'
import { EngineError } from '../../src/index.js'
import { isLong, runs, seed } from '../support/seed.js'

describe('a glob for paths', () => {
  test.each<[pattern: string, yes: string[], no: string[]]>([
    ['src/a.ts', ['src/a.ts'], ['src/a_ts', 'a.ts', 'src/a.ts/b', 'src/a.t', 'SRC/a.ts', '/src/a.ts']],
    ['*', ['a', 'a.ts', '😀'], ['.a', 'a/b', '']],
    ['*.ts', ['a.ts', 'a.b.ts'], ['.ts', '.a.ts', 'a.tsx', 'x/a.ts']],
    ['a*b*c', ['abc', 'axbxc', 'abcbc'], ['ab', 'abcd', 'a/b/c']],
    ['?', ['a', 'é', '😀'], ['', 'ab', '.', '/']],
    ['src/?', ['src/a'], ['src/.', 'src/', 'src//']],
    ['.*', ['.a', '.git'], ['a']],
    ['*dot', ['dot', 'adot'], ['.dot']],
    ['[.]dot*', ['.dot', '.dots'], []],
    ['[.a]dot', ['adot'], ['.dot']],
    ['?(a).dot', ['.dot', 'a.dot'], ['b.dot']],
    ['[abc]', ['a', 'c'], ['d', '']],
    ['[a-cx]', ['b', 'x'], ['d', '-']],
    ['[!a-c]', ['d', '!'], ['b', '/', '.']],
    ['[^a]', ['b', '^'], ['a']],
    ['[]a]', [']', 'a'], ['b']],
    ['[a-]', ['a', '-'], ['b']],
    ['[\\]\\-a]', [']', '-', 'a'], ['\\']],
    ['[😀-😂]', ['😁'], ['😃', '\ud83d']],
    ['[[:alpha:][:digit:]_]', ['a', 'é', '7', '_'], ['-']],
    ['[![:upper:]]', ['a', '1'], ['A', 'É']],
    ['[a', ['[a'], ['a']],
    ['a[b/c]d', ['a[b/c]d'], ['abd', 'acd']],
    ['{a,b,{c,d}}.ts', ['a.ts', 'b.ts', 'c.ts', 'd.ts'], ['e.ts', '.ts']],
    ['{a/b,c}/*', ['a/b/x', 'c/x'], ['a/x', 'b/x']],
    ['src/{,lib}/a', ['src/a', 'src/lib/a'], ['a']],
    ['{src/,}**/*.ts', ['a.ts', 'src/a.ts', 'src/b/a.ts'], ['src/.b/a.ts']],
    ['{a,b', ['{a,b'], ['a']],
    ['{a}', ['{a}'], ['a']],
    ['{{a,b}', ['{a', '{b'], ['a']],
    ['*{a,b}', ['a', 'xb'], ['x', '.a']],
    ['f{1..3}', ['f1', 'f2', 'f3'], ['f0', 'f4', 'f1..3']],
    ['f{-1..1}', ['f-1', 'f0', 'f1'], ['f2']],
    ['f{08..10}', ['f08', 'f09', 'f10'], ['f8', 'f010']],
    ['f{10..1..4}', ['f10', 'f6', 'f2'], ['f1', 'f5']],
    ['{a..c}', ['a', 'b', 'c'], ['d', '{a..c}']],
    ['**', ['', 'a', 'a/b', 'a/b/c'], ['.a', 'a/.b', '.a/b']],
    ['**/a', ['a', 'x/a', 'x/y/a'], ['x', 'xa', 'a/x', '.x/a']],
    ['a/**', ['a/b', 'a/b/c'], ['a', 'ab', 'a/.b']],
    ['a/**/b', ['a/b', 'a/x/b', 'a/x/y/b'], ['ab', 'a/xb', 'a/.x/b']],
    ['**/**/a', ['a', 'x/a', 'x/y/a'], ['b']],
    ['**/.*', ['.a', 'x/.a'], ['x/a', '.x/.a/b', '.x/.a']],
    ['**/.x/**', ['.x/a', 'y/.x/a/b'], ['.x/.a', 'x/a']],
    ['a**', ['a', 'ab'], ['a/b']],
    ['**a', ['a', 'ba'], ['b/a']],
    ['***', ['a'], ['a/b']],
    ['*/*/a', ['x/y/a'], ['x/a', 'a', 'x/y/z/a']],
    ['**/*/a', ['x/a', 'x/y/a'], ['a']],
    ['*1*/*/1', ['1/x/1'], ['-1/1']],
    ['\\*', ['*'], ['a', '\\*']],
    ['\\{a,b\\}\\[c]', ['{a,b}[c]'], ['a[c]']],
    ['./src//a', ['src/a'], ['./src/a']],
    ['src/./a', ['src/a'], []],
    ['/a/*', ['/a/b'], ['a/b', '/a']],
    ['@(a|b).ts', ['a.ts', 'b.ts'], ['.ts', 'ab.ts']],
    ['a?(b|c)', ['a', 'ab', 'ac'], ['abc']],
    ['a*(b|cd)', ['a', 'ab', 'abcdb'], ['ac', 'abc']],
    ['a+(b|cd)', ['ab', 'acdb'], ['a', 'ac']],
    ['*(*(a)|b*(c))', ['a', 'abcc', 'bb'], ['c']],
    ['src/?(b)/a', ['src/b/a'], ['src/a']],
    ['?(a)**', ['a', 'b'], ['.a', 'a/b']],
    ['{*(a|b),c}**', ['a', 'b', 'cd', 'x'], ['.a', 'a/b', 'x/y', 'c/d']],
    ['{?(a),c/}**', ['a', 'b', 'c/d', 'c/d/e'], ['a/b', '.a']],
    ['**(a)', ['a', 'b', 'aa'], ['.a']],
    ['!a', ['!a'], ['a', 'b']],
    ['#a', ['#a'], []],
    ['(a)', ['(a)'], ['a']],
  ])('%s', (pattern, yes, no) => {
    const glob = parseGlob(pattern)
    expect(yes.filter((path) => !glob.matches(path))).toEqual([])
    expect(no.filter((path) => glob.matches(path))).toEqual([])
  })

  test('with a final slash or ** matches a directory', () => {
    for (const [pattern, path] of [
      ['src/', 'src'],
      ['*/', 'src'],
      ['src/**', 'src'],
      ['src/**/', 'src/lib'],
      ['src/.', 'src'],
    ] as const) {
      const glob = parseGlob(pattern)
      expect([pattern, glob.matches(path), glob.matches(path, true)]).toEqual([pattern, false, true])
    }
    expect(parseGlob('*/*').matches('src', true)).toBe(false)
    expect(parseGlob('src/?(b)').matches('src', true)).toBe(false)
  })

  test.each<[pattern: string, base: string, literal: boolean]>([
    ['src/lib/*.ts', 'src/lib', false],
    ['src/lib/a.ts', 'src/lib/a.ts', true],
    ['./src//a\\*b', 'src/a*b', true],
    ['src/', 'src', true],
    ['*.ts', '', false],
    ['src/a{b,c}', 'src', false],
    ['src/**', 'src', false],
    ['/*', '/', false],
    ['/src/*', '/src', false],
    ['', '', true],
  ])('%s is based at %j', (pattern, base, literal) => {
    const glob = parseGlob(pattern)
    expect([glob.base, glob.literal]).toEqual([base, literal])
  })

  test.each<[pattern: string, yes: string[], no: string[]]>([
    ['src/*.ts', ['', 'src'], ['lib', 'src/a.ts', 'src/lib']],
    ['src/**/*.ts', ['', 'src', 'src/a', 'src/a/b'], ['lib', 'src/.git', 'sr', 'srcs']],
    ['**/a', ['', 'x', 'x/y'], ['.x', 'x/.y']],
    ['{a,b/c}/*', ['', 'a', 'b', 'b/c'], ['c', 'a/x', 'b/a']],
    ['a/', [''], ['a', 'b']],
    ['/a/*', ['/', '/a'], ['/b', 'a']],
  ])('%s prunes a walk', (pattern, yes, no) => {
    const glob = parseGlob(pattern)
    expect(yes.filter((path) => !glob.mayContain(path))).toEqual([])
    expect(no.filter((path) => glob.mayContain(path))).toEqual([])
  })

  test.each<[pattern: string, reason: string]>([
    ['a\\', 'INVALID_ARGUMENT'],
    ['!(a)', 'INVALID_ARGUMENT'],
    ['@(a', 'INVALID_ARGUMENT'],
    ['[z-a]', 'INVALID_ARGUMENT'],
    ['[[:foo:]]', 'INVALID_ARGUMENT'],
    ['\ud83d', 'INVALID_ARGUMENT'],
    ['a'.repeat(limits.globBytes + 1), 'TOO_LARGE'],
    ['é'.repeat(limits.globBytes / 2 + 1), 'TOO_LARGE'],
    [`{${','.repeat(limits.globAlternatives)}}`, 'TOO_LARGE'],
    [`{1..${limits.globAlternatives + 1}}`, 'TOO_LARGE'],
    ['{1..600}{1..600}', 'TOO_LARGE'],
    ['{1..999999999999999}', 'TOO_LARGE'],
    [`${'{a,'.repeat(11)}b${'}'.repeat(11)}`, 'TOO_LARGE'],
    ['{'.repeat(limits.globBytes), 'TOO_LARGE'],
    ['@('.repeat(limits.globBytes / 2), 'TOO_LARGE'],
  ])('%# is rejected', (pattern, reason) => {
    const refused = (parse: (pattern: string, field: string) => unknown): unknown => {
      try {
        parse(pattern, 'glob')
      } catch (error) {
        if (error instanceof EngineError) return [error.code, error.reason, error.details.field]
      }
      return undefined
    }
    expect(refused(parseGlob)).toEqual(['INVALID_ARGUMENT', reason, 'glob'])
    expect(refused(parseTextGlob)).toEqual(['INVALID_ARGUMENT', reason, 'glob'])
  })

  test('at the limits is accepted', () => {
    expect(parseGlob('a'.repeat(limits.globBytes)).matches('a'.repeat(limits.globBytes))).toBe(true)
    expect(parseGlob('{1..1000}').matches('1000')).toBe(true)
    expect(parseGlob(`${'{a,'.repeat(10)}b${'}'.repeat(10)}`).matches('b')).toBe(true)
  })
})

test.each<[pattern: string, yes: string[], no: string[]]>([
  ['tests:*', ['tests:', 'tests:a', 'tests:a/b', 'tests:.a'], ['test:a', 'atests:a']],
  ['*', ['', '.a', 'a/b'], []],
  ['?', ['/', '.', '😀'], ['', 'ab']],
  ['[!a]', ['/', '.'], ['a']],
  ['a[/]b', ['a/b'], ['a[/]b']],
  ['**/a', ['/a', 'x/y/a'], ['a']],
  ['{a,b}.*', ['a.x', 'b.'], ['c.x']],
  ['./a', ['./a'], ['a']],
])('text: %s', (pattern, yes, no) => {
  expect(yes.filter((text) => !matchText(pattern, text))).toEqual([])
  expect(no.filter((text) => matchText(pattern, text))).toEqual([])
})

// A backtracking matcher would not finish here.
describe('a hostile pattern', () => {
  const text = 'a'.repeat(isLong ? 4000 : 1000)
  const parts = `${'a/'.repeat(250)}a`
  test.each([
    ['*a'.repeat(200), text, true],
    [`${'*a'.repeat(2000)}*b`, text, false],
    [`${'{a,*,?}'.repeat(333)}b`, text, false],
    ['*'.repeat(4096), text, true],
    [`${'**/'.repeat(100)}b`, parts, false],
    [`${'**/a/'.repeat(100)}b`, parts, false],
    [`${'**/*a*/'.repeat(400)}b`, parts, false],
    [`${'*('.repeat(10)}a${'*)'.repeat(10)}b`, text, false],
    ['+(a|aa|*)'.repeat(300), `${text}/b`, false],
    [`${'?(a)'.repeat(900)}b`, text, false],
    [`${'[[:alpha:]]*'.repeat(300)}b`, text, false],
    ['{a,b}{a,b}{a,b}'.repeat(150), 'ab'.repeat(225), true],
    [`*{1..500}*{1..400}b`, '1'.repeat(4000), false],
    ['['.repeat(4096), text, false],
    ['[a'.repeat(2048), text, false],
  ])('%# is matched in reasonable time', (pattern, path, expected) => {
    expect(parseGlob(pattern).matches(path)).toBe(expected)
    parseGlob(pattern).mayContain(path)
    matchText(pattern, path)
  })
})

/**
 * The patterns avoid deliberate differences: `!( )` and malformed patterns are rejected; `[.]` matches a leading dot;
 * `./` is removed and `..` is an ordinary name; `**` or `//` formed only by braces has no special meaning; braces
 * within `*( )` may differ each time; groups in parentheses may contain slashes.
 */
test('random small patterns match like minimatch', () => {
  let state = seed
  const options = { nocomment: true, nonegate: true }
  let hits = 0
  for (let round = 0; round < runs(20_000); round++) {
    const pattern = randomPattern()
    if (differs(pattern)) continue
    const glob = parseGlob(pattern)
    for (let i = 0; i < 10; i++) {
      const path = list(1 + below(3), () => pick(names)).join('/')
      const file = minimatch(path, pattern, options)
      const directory = file || minimatch(`${path}/`, pattern, options)
      const found = [glob.matches(path), glob.matches(path, true)]
      if (directory) hits++
      expect(found, `${pattern} on ${path}, seed ${seed}`).toEqual([file, directory])
      const above = path.split('/').slice(0, -1).join('/')
      expect(glob.mayContain(above) || !file, `${pattern} below ${above}, seed ${seed}`).toBe(true)
    }
  }
  expect(hits, `seed ${seed}`).toBeGreaterThan(500)

  function randomPattern(): string {
    const parts = list(1 + below(3), () => (below(4) === 0 ? '**' : sequence(2, 1 + below(3), true)))
    return parts.join('/') + (below(10) === 0 ? '/' : '')
  }

  function sequence(depth: number, length: number, slashes: boolean): string {
    return list(length, () => (slashes && below(4) === 0 ? pick(['/', '/**/']) : unit(depth))).join('')
  }

  function unit(depth: number): string {
    const kind = depth === 0 ? 9 : below(12)
    if (kind === 0) {
      return `{${list(2 + below(2), () => sequence(depth - 1, below(3), below(4) === 0)).join(',')}}`
    }
    if (kind === 1) {
      const inside = list(1 + below(2), () => sequence(depth - 1, 1 + below(2), false)).join('|')
      return `${pick(['@', '?', '*', '+'])}(${inside})`
    }
    return pick(leaves)
  }

  function list(length: number, make: () => string): string[] {
    return Array.from({ length }, make)
  }

  function pick(from: readonly string[]): string {
    return from[below(from.length)]!
  }

  function below(bound: number): number {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * bound)
  }
})

const names = ['a', 'b', '.a', 'ab', '1', 'ba', '😀', 'a.b', '*', '-1', 'aab']
const leaves = [
  'a',
  'b',
  '.',
  '1',
  '*',
  '?',
  '[ab]',
  '[!a]',
  '[^.]',
  '[[:alpha:]]',
  '\\*',
  '😀',
  '{1..3}',
  '-',
]

/** Whether parentheses contain a slash or braces at any depth: minimatch expands the braces first. */
function hasPartsInParentheses(pattern: string): boolean {
  let depth = 0
  for (const character of pattern) {
    if (character === '(') depth++
    else if (character === ')') depth--
    else if (depth > 0 && (character === '/' || character === '{')) return true
  }
  return false
}

function differs(pattern: string): boolean {
  if (hasPartsInParentheses(pattern)) return true
  if (braceExpand(pattern).some((one) => /\/\/|(?:^|\/)\.\.?(?:\/|$)/.test(one))) return true
  return braceExpand(pattern.replaceAll('**', 'G')).some((one) => /\*\*|G\*|\*G/.test(one))
}
