import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isUnsafeName, isUnsafeSymlinkName, unsafePart } from '../../src/engine/base/unsafe-names.js'
import { randomWords } from '../../src/testing.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { seed } from '../support/seed.js'

/** Every code point that HFS+ ignores, as listed by git. */
const ignorable = Array.from('\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e').concat(
  Array.from('\u206a\u206b\u206c\u206d\u206e\u206f\ufeff'),
)

const unsafe = ['.git', '.GIT', '.gIt', 'git~1', 'GIT~1', '.git ', '.git.', '.git . .', 'git~1 .']
  .concat(['.git:stream', '.git::$INDEX_ALLOCATION', 'git~1:x', '.git...:x', '.git:x\ny'])
  .concat(ignorable.flatMap((ignored) => [`${ignored}.git`, `.g${ignored}it`, `.GIT${ignored}`]))

const safe = ['.gitignore', '.github', 'git', 'git~2', 'a.git', '.git-x', '.gi', '...', '.gitmodules']
  .concat(['x\u200c', 'git ', '.git\u200b', '.git\u2069', '.git\u2070', '.git_', 'g', '~', '~1', '. git'])
  .concat(['.gitx'])

const unsafeSymlinks = ['.gitmodules', '.GITMODULES', '.gitmodules ', '.gitmodules. .', '.gitmodules:x']
  .concat(['.gitmod\ufeffules', 'gitmod~1', 'GITMOD~4', 'gitmod~2 .', 'gi7eba~1', 'GI7EBA~9', 'gi7eb~10'])
  .concat(['gi7e~123', 'gi7~1234', 'gi~12345', 'g~123456', '~1234567', 'gi7eba~1:x', '.gitmodules:x\ny'])

const safeSymlinks = ['.gitmodule', '.gitmodulesx', 'gitmod~0', 'gitmod~5', 'gitmod~11', 'gi7eba~0']
  .concat(['gi7eb~01', 'gi7e~12', 'gi7~12345', 'gi7ebb~1', '~123456', '~12345678'])
  .concat(['.gitignore', '.gitattributes'])

test.each(unsafe)('a name that some file system treats as .git is unsafe: %j', (name) => {
  expect(isUnsafeName(name)).toBe(true)
  expect(isUnsafeSymlinkName(name)).toBe(true)
  expect(unsafePart(`/src/${name}`, false)).toBe(name)
  expect(unsafePart(`/${name}/config`, false)).toBe(name)
})

test.each(['', '.', '..', 'a/b', 'a\0'])('an invalid name is unsafe: %j', (name) => {
  expect(isUnsafeName(name)).toBe(true)
})

test.each(['.git\\config', 'git~1\\x', '.git\\x\ny'])('a backslash ends a name on Windows: %j', (name) => {
  expect(isUnsafeName(name)).toBe(true)
})

test.each(safe)('a name that only looks like .git is safe: %j', (name) => {
  expect(isUnsafeName(name)).toBe(false)
  expect(unsafePart(`/${name}/a`, true)).toBeUndefined()
})

test.each(unsafeSymlinks)('a symlink that some file system treats as .gitmodules is unsafe: %j', (name) => {
  expect([isUnsafeName(name), isUnsafeSymlinkName(name)]).toEqual([false, true])
  expect(unsafePart(`/a/${name}`, true)).toBe(name)
  expect(unsafePart(`/a/${name}`, false)).toBeUndefined()
  expect(unsafePart(`/${name}/a`, true)).toBeUndefined()
})

test.each(safeSymlinks)('a symlink with another name is safe: %j', (name) => {
  expect(isUnsafeSymlinkName(name)).toBe(false)
})

describe.runIf(hasGit)(`native git (FORKSPACE_SEED=${seed})`, () => {
  let repository: GitRepository
  let blob: string

  beforeAll(() => {
    repository = GitRepository.create(mkdtempSync(join(tmpdir(), 'unsafe-names-')))
    blob = repository.blob('x')
  })

  afterAll(() => rmSync(repository.path, { recursive: true, force: true }))

  /** The index paths that git rejects when it protects HFS+ and NTFS. */
  function refused(mode: string, names: readonly string[]): string[] {
    const settings = ['-c', 'core.protectHFS=true', '-c', 'core.protectNTFS=true']
    const input = names.map((name) => `${mode} ${blob}\t${name}\0`).join('')
    repository.git(['read-tree', '--empty'])
    repository.git([...settings, 'update-index', '-z', '--index-info'], { input })
    const taken = new Set(repository.gitBytes(['ls-files', '-z']).toString().split('\0'))
    return names.filter((name) => !taken.has(name))
  }

  test.each([
    ['files', '100644', isUnsafeName],
    ['symlinks', '120000', isUnsafeSymlinkName],
  ] as const)('rejects the same names of %s', (_what, mode, isUnsafe) => {
    const names = [...unsafe, ...unsafeSymlinks, ...safe, ...safeSymlinks, ...randomNames(100)]
    const byGit = new Set(refused(mode, names))
    expect(names.filter((name) => byGit.has(name) && !isUnsafe(name))).toEqual([])
    // Git checks for HFS+ and NTFS separately. Only this engine rejects names that need both checks.
    const ours = names.filter((name) => !byGit.has(name) && isUnsafe(name))
    expect(ours.filter((name) => !ignorable.some((ignored) => name.includes(ignored)))).toEqual([])
  })
})

/** Variations of the names above, most of them borderline. */
function randomNames(count: number): string[] {
  const next = randomWords(seed)
  const pick = <T>(from: readonly T[]): T => from[next() % from.length]!
  const pieces = ['.', ' ', ':', '~', '1', 'g', 'G', 'm', 'x', ...ignorable.slice(-3)]
  return Array.from({ length: count }, () => {
    const name = Array.from(pick([...unsafe, ...unsafeSymlinks, ...safeSymlinks]))
    name.splice(next() % (name.length + 1), next() % 2, pick(pieces))
    return name.join('')
  }).filter((name) => name !== '' && name !== '.' && name !== '..')
}
