/** The names of refs and branches, by the rules of `git check-ref-format`. */
import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { isBranchName, isRefName } from '../../src/engine/base/ref-names.js'
import { hasGit } from '../support/git-repository.js'

const valid = ['refs/heads/main', 'refs/heads/a/b', 'a/b', 'refs/heads/é', 'refs/heads/-a', 'refs/heads/a@b']
  .concat(['refs/heads/@', 'refs/heads/a.b', 'refs/heads/lock', 'refs/heads/a.lockx', 'refs/heads/a{b'])
  .concat(['refs/heads/a"b', "refs/heads/a'b", 'refs/heads/a;b', 'refs/heads/\u00a0', 'refs/heads/a.loc'])

const invalid = ['refs', '', '/', '/a', 'a/', 'a//b', 'refs/heads/', 'refs/heads/.a', 'refs/.a/b']
  .concat(['refs/heads/a.', 'refs/heads/a..b', 'refs/heads/a@{b', 'refs/heads/a.lock', 'refs/a.lock/b'])
  .concat(Array.from('\x01\x1f \x7f~^:?*[\\', (letter) => `refs/heads/a${letter}b`))

test.each(valid)('%j is the name of a ref', (name) => {
  expect(isRefName(name)).toBe(true)
})

test.each([...invalid, 'refs/heads/a\0b', 'refs/heads/\ud800'])('%j is no name of a ref', (name) => {
  expect(isRefName(name)).toBe(false)
})

test('HEAD is a ref without a slash, and no branch', () => {
  expect([isRefName('HEAD'), isRefName('head'), isBranchName('HEAD')]).toEqual([true, false, false])
})

test.each([
  ['main', true],
  ['a/b', true],
  ['heads/HEAD', true],
  ['-a', false],
  ['', false],
  ['a.lock', false],
  ['.a', false],
  ['a b', false],
])('whether %j is the name of a branch: %s', (name, expected) => {
  expect(isBranchName(name)).toBe(expected)
})

describe.runIf(hasGit)('native git', () => {
  test('accepts and rejects the same names', () => {
    const accepts = (name: string): boolean => spawnSync('git', ['check-ref-format', name]).status === 0
    expect(valid.filter((name) => !accepts(name))).toEqual([])
    expect(invalid.filter(accepts)).toEqual([])
  })
})
