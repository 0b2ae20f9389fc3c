import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { EngineError, openEngine, type Engine, type Session, type Storage } from '../../src/index.js'
import { gitEnvironment, hasGit } from '../support/git-repository.js'
import { runs, seed } from '../support/seed.js'
import { limits } from '../../src/engine/base/limits.js'
import { lowerBound } from '../support/lower-bound.js'
import { fewStorages } from '../support/storages.js'

async function refusalOf(work: Promise<unknown>): Promise<EngineError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof EngineError) return error
  throw error ?? new Error('nothing was thrown')
}

const binaryHead =
  'diff --git a/a.bin b/a.bin\nindex 1592e5c60f1a460928916dc5681fee1a9bd10868..8352675d67aed6625ece79af41c27fdb4ee2e867\n'

const v4a = (...lines: string[]): string => ['*** Begin Patch', ...lines, '*** End Patch'].join('\n')

describe.each(fewStorages)('patches on %s', (name, makeStorage, lasting) => {
  let directory: string
  let storage: Storage
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'patch-'))
    storage = makeStorage(directory)
    engine = await openEngine({ storage })
    session = await engine.sessions.create({
      files: { '/a.txt': 'one\ntwo\nthree\n', '/src/b.ts': 'class A {\n  f() {\n    return 1\n  }\n}\n' },
    })
  })

  afterEach(async () => {
    await engine.close()
    rmSync(directory, { recursive: true, force: true })
  })

  async function reload(): Promise<void> {
    if (!lasting) return
    const { id } = session
    await engine.close()
    engine = await openEngine({ storage })
    session = await engine.sessions.open(id)
  }

  const read = async (path: string): Promise<string> =>
    Buffer.from(await session.files.read({ path })).toString()
  const paths = async (): Promise<string[]> =>
    (await session.files.list({ path: '/', recursive: true })).entries
      .filter(({ kind }) => kind === 'file')
      .map(({ name }) => name)

  describe('in the unified format', () => {
    test('change, create, delete and rename files as one event', async () => {
      await session.files.write({ path: '/gone.txt', content: 'x\n' })
      const before = (await session.events.list()).events.length
      const patch = [
        'diff --git a/a.txt b/a.txt',
        '--- a/a.txt',
        '+++ b/a.txt',
        '@@ -1,3 +1,3 @@',
        ' one',
        '-two',
        '+2',
        ' three',
        'diff --git a/gone.txt b/gone.txt',
        'deleted file mode 100644',
        '--- a/gone.txt',
        '+++ /dev/null',
        '@@ -1 +0,0 @@',
        '-x',
        'diff --git a/new/c.sh b/new/c.sh',
        'new file mode 100755',
        '--- /dev/null',
        '+++ b/new/c.sh',
        '@@ -0,0 +1 @@',
        '+echo',
        '\\ No newline at end of file',
        'diff --git a/src/b.ts b/lib/c.ts',
        'similarity index 100%',
        'rename from src/b.ts',
        'rename to lib/c.ts',
        '',
      ].join('\n')
      const tried = await session.text.applyPatch({ patch, dryRun: true })
      expect(await paths()).toEqual(['a.txt', 'gone.txt', 'src/b.ts'])
      await reload()
      const result = await session.text.applyPatch({ patch })
      expect(result).toEqual(tried)
      expect(result.files.map(({ path, oldPath, change }) => [path, oldPath, change])).toEqual([
        ['/a.txt', '', 'modified'],
        ['/gone.txt', '', 'deleted'],
        ['/new/c.sh', '', 'created'],
        ['/lib/c.ts', '/src/b.ts', 'renamed'],
      ])
      expect(result.files[0]).toMatchObject({ addedLineCount: 1, removedLineCount: 1 })
      for (const { path, contentHash } of result.files.filter(({ change }) => change !== 'deleted'))
        expect(await session.files.contentHash(path)).toBe(contentHash)
      await reload()
      expect(await paths()).toEqual(['a.txt', 'lib/c.ts', 'new/c.sh'])
      expect(await read('/new/c.sh')).toBe('echo')
      expect((await session.files.stat({ path: '/new/c.sh' })).mode).toBe(0o755)
      const { events } = await session.events.list()
      expect(events.length).toBe(before + 1)
      expect(events.at(-1)).toMatchObject({
        eventType: 'v1.FileSystemService.ApplyPatch',
        details: { fileCount: 4 },
      })
    })

    test('change nothing when a later file does not match, and say which hunk', async () => {
      const patch =
        '--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n-one\n+1\n two\n three\n' +
        '--- a/src/b.ts\n+++ b/src/b.ts\n@@ -2,3 +2,3 @@\n   f() {\n-    return 2\n+    return 3\n   }\n'
      const error = await refusalOf(session.text.applyPatch({ patch }))
      expect(error.reason).toBe('NO_MATCH')
      expect(error.details).toMatchObject({ path: '/src/b.ts', hunk: '1' })
      expect(error.message).toContain('3: "    return 1"')
      expect(await read('/a.txt')).toBe('one\ntwo\nthree\n')
    })

    test('apply at another line, and with fuzz only on request', async () => {
      await session.files.write({
        path: '/a.txt',
        content: `${'x\n'.repeat(50)}one\ntwo\nthree\nfour\nfive\n`,
      })
      const patch = '--- a/a.txt\n+++ b/a.txt\n@@ -3,5 +3,5 @@\n one\n two\n-three\n+3\n four\n five\n'
      await session.text.applyPatch({ patch, dryRun: true })
      const fuzzy = patch.replace(' one\n', ' uno\n')
      expect((await refusalOf(session.text.applyPatch({ patch: fuzzy }))).reason).toBe('NO_MATCH')
      await session.text.applyPatch({ patch: fuzzy, fuzz: 1 })
      expect(await read('/a.txt')).toBe(`${'x\n'.repeat(50)}one\ntwo\n3\nfour\nfive\n`)
    })

    test('apply at the later one of two places that are equally near, close or far', async () => {
      const far = Array.from({ length: 41 }, (_, index) => `${index}`)
      for (const between of [['m'], far]) {
        if (between === far) lowerBound(limits, 'charactersPerLook', 1)
        await session.files.write({
          path: '/near.txt',
          content: ['first', 'k', 'old', 'k', ...between, 'k', 'old', 'k', 'last', ''].join('\n'),
        })
        const middle = 2 + (3 + between.length) / 2
        const at = `${middle},3`
        await session.text.applyPatch({
          patch: `--- a/near.txt\n+++ b/near.txt\n@@ -${at} +${at} @@\n k\n-old\n+new\n k\n`,
        })
        const lines = (await session.fs.promises.readFile('/near.txt', 'utf8')).split('\n')
        expect(lines.indexOf('new')).toBeGreaterThan(lines.indexOf('old'))
      }
    })

    test('match the end of a file without context after it, unless fuzz is allowed', async () => {
      const content = 'a\nb\nold\nmore\n'
      await session.files.write({ path: '/end.txt', content })
      const patch = '--- a/end.txt\n+++ b/end.txt\n@@ -2,2 +2,2 @@\n b\n-old\n+new\n'
      expect((await refusalOf(session.text.applyPatch({ patch }))).reason).toBe('NO_MATCH')
      await session.text.applyPatch({ patch, fuzz: 1 })
      expect(await session.fs.promises.readFile('/end.txt', 'utf8')).toBe('a\nb\nnew\nmore\n')
    })

    test('keep CRLF, and take prefixes off by strip', async () => {
      await session.files.write({ path: '/x/a.txt', content: 'one\r\ntwo\r\n' })
      const patch = '--- p/q/x/a.txt\n+++ p/q/x/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n'
      expect((await refusalOf(session.text.applyPatch({ patch }))).reason).toBe('PATH_NOT_FOUND')
      await session.text.applyPatch({ patch, strip: 2 })
      expect(await read('/x/a.txt')).toBe('one\r\n2\r\n')
    })

    test('take the names after --- and +++ of a renamed file without prefixes as they are', async () => {
      const head = 'diff --git src/b.ts lib/c.ts\nrename from src/b.ts\nrename to lib/c.ts\n'
      const hunk = '@@ -2,3 +2,3 @@\n   f() {\n-    return 1\n+    return 2\n   }\n'
      await session.text.applyPatch({ patch: `${head}--- src/b.ts\n+++ lib/c.ts\n${hunk}` })
      expect(await paths()).toEqual(['a.txt', 'lib/c.ts'])
    })

    test('may end with the signature of git format-patch', async () => {
      const change = '--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n-one\n+1\n two\n three\n'
      const added = '--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+b\n'
      const signature = '-- \n2.43.0\n\n'
      await session.text.applyPatch({ patch: `${change}${signature}From 1234\n${added}${signature}` })
      expect(await read('/a.txt')).toBe('1\ntwo\nthree\n')
      expect(await read('/b.txt')).toBe('b\n')
    })

    test.runIf(name === 'memory')('are applied in linear time where many lines nearly match', async () => {
      // Time in proportion to both lengths multiplied would exceed the time limit of a test.
      const count = 60_000
      await session.files.write({ path: '/a.txt', content: 'a\n'.repeat(5 * count) })
      const old = Array.from({ length: count }, () => 'a')
      const lines = [...old.map((line) => `-${line}`), '-b', '+c']
      const unified = `--- a/a.txt\n+++ b/a.txt\n@@ -9,${count + 2} +9,2 @@\n${lines.join('\n')}\n a\n`
      const section = ['*** Update File: a.txt', '@@', ...lines]
      for (const patch of [unified, v4a(...section)])
        expect((await refusalOf(session.text.applyPatch({ patch }))).reason).toBe('NO_MATCH')
    })

    test('exchange the names of two files', async () => {
      await session.files.write({ path: '/b.txt', content: 'b\n' })
      const patch =
        'diff --git a/a.txt b/b.txt\nsimilarity index 100%\nrename from a.txt\nrename to b.txt\n' +
        'diff --git a/b.txt b/a.txt\nsimilarity index 100%\nrename from b.txt\nrename to a.txt\n'
      await session.text.applyPatch({ patch })
      expect(await read('/a.txt')).toBe('b\n')
      expect(await read('/b.txt')).toBe('one\ntwo\nthree\n')
    })

    test('check the hashes of files', async () => {
      const patch = '--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n'
      const expectedHashes = { '/a.txt': await session.files.contentHash('/a.txt'), '/none': '' }
      expect(
        (
          await refusalOf(
            session.text.applyPatch({ patch: patch.replace('@@ -1 +1', '@@ -1,3 +1,3'), expectedHashes }),
          )
        ).reason,
      ).toBe('INVALID_PATCH')
      const whole = '--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n-one\n+1\n two\n three\n'
      await session.text.applyPatch({ patch: whole, expectedHashes })
      expect((await refusalOf(session.text.applyPatch({ patch: whole, expectedHashes }))).reason).toBe(
        'HASH_MISMATCH',
      )
    })

    test.each([
      ['no patch', 'hello', 'INVALID_PATCH'],
      ['an empty patch', '', 'INVALID_PATCH'],
      ['wrong counts', '--- a/a.txt\n+++ b/a.txt\n@@ -1,9 +1,9 @@\n-one\n+1\n', 'INVALID_PATCH'],
      ['a cut binary change', `${binaryHead}GIT binary patch\nliteral 3\nKc\n`, 'INVALID_PATCH'],
      [
        'a binary change without data',
        `${binaryHead}Binary files a/a.bin and b/a.bin differ\n`,
        'INVALID_PATCH',
      ],
      [
        'a binary change as the diff of a large file',
        'diff --git a/f b/f\nBinary files differ\n',
        'INVALID_PATCH',
      ],
      ['a binary change of diff -r', 'Binary files a/x and b/x differ\n', 'INVALID_PATCH'],
      [
        'a binary change without full ids',
        'diff --git a/f b/f\nnew file mode 100644\nindex 0000000..1234567\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n',
        'INVALID_PATCH',
      ],
      ['a binary change that is too large', `${binaryHead}GIT binary patch\nliteral 16777217\n`, 'TOO_LARGE'],
      [
        'a symlink without a target',
        'diff --git a/l b/l\nnew file mode 120000\nindex 0000000..e69de29\n',
        'INVALID_PATCH',
      ],
      [
        'a symlink with a long target',
        `diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+${'x'.repeat(4096)}\n`,
        'NAME_TOO_LONG',
      ],
      [
        'a file that turns into a symlink',
        'diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 120000\n',
        'INVALID_PATCH',
      ],
      ['a submodule', 'diff --git a/m b/m\nnew file mode 160000\nindex 0000000..1234567\n', 'INVALID_PATCH'],
      [
        'a symlink in the place of a file',
        'diff --git a/a.txt b/a.txt\nindex 1..2 120000\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n-one\n+1\n two\n three\n',
        'NO_MATCH',
      ],
      ['a head without a change', 'diff --git a/a.txt b/a.txt\nindex 1..2 100644\n', 'INVALID_PATCH'],
      [
        'a cut last line',
        'diff --git a/a.txt b/b.txt\nsimilarity index 100%\nrename from a.txt\nrename to b.t',
        'INVALID_PATCH',
      ],
      ['a cut name', 'diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to "b', 'INVALID_PATCH'],
      [
        'names that contradict each other',
        'diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n--- a/a.txt\n+++ b/c.txt\n@@ -1 +1 @@\n-one\n+1\n',
        'INVALID_PATCH',
      ],
      ['a hunk without a file', '@@ -1 +1 @@\n-a\n+b\n', 'INVALID_PATCH'],
      ['no name', '--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+b\n', 'INVALID_PATCH'],
      ['a path outside', '--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n', 'INVALID_ARGUMENT'],
      ['a missing file', '--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n', 'PATH_NOT_FOUND'],
      ['a file that exists', '--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+b\n', 'ALREADY_EXISTS'],
      ['a directory', '--- a/src\n+++ b/src\n@@ -1 +1 @@\n-a\n+b\n', 'IS_A_DIRECTORY'],
    ] as const)('with %s are refused', async (_case, patch, reason) => {
      expect((await refusalOf(session.text.applyPatch({ patch }))).reason).toBe(reason)
      expect(await paths()).toEqual(['a.txt', 'src/b.ts'])
    })

    test('may lack the line end after the last line of a part', async () => {
      const patch = '--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n two\n-three\n+four'
      await session.text.applyPatch({ patch })
      expect(session.fs.readFileSync('/a.txt', 'utf8')).toMatch(/^one\ntwo\nfour/)
    })

    test('change binary files, if the old and the new content have the ids of the patch', async () => {
      const data = '\nliteral 3\nKc${NkWC8#H2LJ>B\n\nliteral 3\nKc${NkWCj2L2ml2D\n\n'
      const patch = `${binaryHead}GIT binary patch${data}`
      await session.files.write({ path: '/a.bin', content: Uint8Array.of(0, 1, 3) })
      await reload()
      const { files } = await session.text.applyPatch({ patch })
      expect(files).toMatchObject([
        { path: '/a.bin', change: 'modified', addedLineCount: 0, removedLineCount: 0 },
      ])
      await reload()
      expect([...(await session.files.read({ path: '/a.bin' }))]).toEqual([0, 1, 2])
      expect(await session.files.contentHash('/a.bin')).toBe(files[0]?.contentHash)
      const again = await refusalOf(session.text.applyPatch({ patch }))
      expect(again.reason).toBe('NO_MATCH')
      await session.files.write({ path: '/a.bin', content: Uint8Array.of(0, 1, 3) })
      const wrong = await refusalOf(session.text.applyPatch({ patch: patch.replace('..8352', '..0352') }))
      expect(wrong.reason).toBe('INVALID_PATCH')
      expect(wrong.message).toContain('index line')
      for (const size of ['2', '4', '16000000'])
        expect(
          (await refusalOf(session.text.applyPatch({ patch: patch.replace('literal 3', `literal ${size}`) })))
            .message,
        ).toContain('damaged')
      const twice = `${'literal 16777216\nHcmV?d00001\n\n'.repeat(2)}diff --git a/b b/b\n`
      const large = `${binaryHead}GIT binary patch\n${twice}`.repeat(3)
      expect((await refusalOf(session.text.applyPatch({ patch: large }))).reason).toBe('TOO_LARGE')
      expect([...(await session.files.read({ path: '/a.bin' }))]).toEqual([0, 1, 3])
    })

    test('create, change, rename and delete symlinks, and exchange them with files', async () => {
      await session.files.createSymlink({ linkPath: '/l', target: 'old' })
      await session.files.createSymlink({ linkPath: '/m', target: 'same' })
      await session.files.createSymlink({ linkPath: '/n', target: 'a.txt' })
      const end = '\\ No newline at end of file'
      const patch = [
        'diff --git a/a.txt b/a.txt',
        'deleted file mode 100644',
        '--- a/a.txt',
        '+++ /dev/null',
        '@@ -1,3 +0,0 @@',
        '-one',
        '-two',
        '-three',
        'diff --git a/a.txt b/a.txt',
        'new file mode 120000',
        '--- /dev/null',
        '+++ b/a.txt',
        '@@ -0,0 +1 @@',
        '+src/b.ts',
        end,
        'diff --git a/l b/l',
        'index 1234567..89abcde 120000',
        '--- a/l',
        '+++ b/l',
        '@@ -1 +1 @@',
        '-old',
        end,
        '+new',
        end,
        'diff --git a/m b/links/m',
        'similarity index 100%',
        'rename from m',
        'rename to links/m',
        'diff --git a/n b/n',
        'deleted file mode 120000',
        '--- a/n',
        '+++ /dev/null',
        '@@ -1 +0,0 @@',
        '-a.txt',
        end,
        '',
      ].join('\n')
      await session.text.applyPatch({ patch })
      await reload()
      const { symlinks } = await session.files.listSymlinks()
      expect(symlinks).toEqual([
        { path: '/a.txt', target: 'src/b.ts' },
        { path: '/l', target: 'new' },
        { path: '/links/m', target: 'same' },
      ])
      expect((await refusalOf(session.text.applyPatch({ patch }))).reason).toBe('NO_MATCH')
    })

    test('refuse paths beyond a symlink', async () => {
      await session.files.createSymlink({ linkPath: '/link', target: 'src' })
      const change = '@@ -1,5 +1,4 @@\n class A {\n-  f() {\n     return 1\n   }\n }\n'
      for (const patch of [
        `--- a/link/b.ts\n+++ b/link/b.ts\n${change}`,
        '--- /dev/null\n+++ b/link/c.ts\n@@ -0,0 +1 @@\n+c\n',
      ]) {
        const error = await refusalOf(session.text.applyPatch({ patch }))
        expect(error.reason).toBe('INVALID_PATCH')
        expect(error.message).toMatch(/beyond a symlink; it leads to \/src\/[bc].ts/)
      }
    })

    test('put a file in the place of a directory, and the reverse', async () => {
      const toFile = [
        '--- a/src/b.ts',
        '+++ /dev/null',
        '@@ -1,5 +0,0 @@',
        '-class A {',
        '-  f() {',
        '-    return 1',
        '-  }',
        '-}',
        '--- /dev/null',
        '+++ b/src',
        '@@ -0,0 +1 @@',
        '+file',
        'diff --git a/a.txt b/a.txt/one',
        'similarity index 100%',
        'rename from a.txt',
        'rename to a.txt/one',
        '',
      ].join('\n')
      await session.text.applyPatch({ patch: toFile })
      await reload()
      expect(await paths()).toEqual(['a.txt/one', 'src'])
      const back =
        '--- a/src\n+++ /dev/null\n@@ -1 +0,0 @@\n-file\n' +
        '--- /dev/null\n+++ b/src/new/b.ts\n@@ -0,0 +1 @@\n+b\n' +
        'diff --git a/a.txt/one b/a.txt\nsimilarity index 100%\nrename from a.txt/one\nrename to a.txt\n'
      await session.text.applyPatch({ patch: back })
      expect(await paths()).toEqual(['a.txt', 'src/new/b.ts'])
      // Another file keeps the directory, as in git.
      await session.files.write({ path: '/src/other', content: '' })
      const again =
        '--- a/src/new/b.ts\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n--- /dev/null\n+++ b/src\n@@ -0,0 +1 @@\n+x\n'
      expect((await refusalOf(session.text.applyPatch({ patch: again }))).reason).toBe('ALREADY_EXISTS')
      expect(await paths()).toEqual(['a.txt', 'src/new/b.ts', 'src/other'])
    })

    test('remove directories that become empty, but no others', async () => {
      await session.files.createDirectory({ path: '/src/kept' })
      await session.files.write({ path: '/x/y/z', content: 'z\n' })
      const patch =
        '--- a/x/y/z\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n' +
        'diff --git a/src/b.ts b/b.ts\nsimilarity index 100%\nrename from src/b.ts\nrename to b.ts\n'
      await session.text.applyPatch({ patch })
      const { nodes } = await session.manifest()
      expect(nodes.map(({ path }) => path)).toEqual(['/a.txt', '/b.ts', '/src', '/src/kept'])
    })

    test('rename a file that is too large for changes of its text', async () => {
      const content = Buffer.alloc(16 * 2 ** 20 + 1, 'x\n')
      await session.files.write({ path: '/large', content })
      const head = 'diff --git a/large b/moved\n'
      const patch = `${head}old mode 100644\nnew mode 100755\nrename from large\nrename to moved\n`
      const { files } = await session.text.applyPatch({ patch })
      expect(files).toMatchObject([{ contentHash: await session.files.contentHash('/moved') }])
      expect((await session.files.stat({ path: '/moved' })).mode).toBe(0o755)
    })

    test('read names that end in spaces or have quotes as git does', async () => {
      const names = ['end ', 'a b b/a b', 'tab\t', '"', 'ü']
      for (const name of names) await session.files.write({ path: `/${name}`, content: 'x\n' })
      const patch =
        'diff --git a/end  b/end \nold mode 100644\nnew mode 100755\n' +
        'diff --git a/a b b/a b b/a b b/a b\nold mode 100644\nnew mode 100755\n' +
        'diff --git "a/tab\\t" "b/tab\\t"\nold mode 100644\nnew mode 100755\n' +
        'diff --git "a/\\"" "b/\\""\n--- "a/\\""\n+++ "b/\\""\n@@ -1 +1 @@\n-x\n+y\n' +
        'diff --git "a/\\303\\274" b/other \nrename from "\\303\\274"\nrename to other \n'
      const { files } = await session.text.applyPatch({ patch })
      expect(files.map(({ path }) => path)).toEqual(['/end ', '/a b b/a b', '/tab\t', '/"', '/other '])
    })

    test('take effect in the order of the calls', async () => {
      const patch = '--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n-one\n+1\n two\n three\n'
      const patched = session.text.applyPatch({ patch })
      const written = session.files.write({ path: '/a.txt', content: 'new' })
      await patched
      await written
      expect(await read('/a.txt')).toBe('new')
    })
  })

  test.each([
    ['hunks', `--- a/a\n+++ b/a\n${'@@ -1 +1 @@\n-a\n+b\n'.repeat(100_001)}`],
    ['sections', v4a('*** Update File: a', '@@\n-a\n'.repeat(100_001).trimEnd())],
  ])('with too many %s are refused', async (_what, patch) => {
    expect(await refusalOf(session.text.applyPatch({ patch }))).toMatchObject({
      reason: 'TOO_LARGE',
      details: { field: 'patch', limit: '100000' },
    })
  })

  describe('in the format V4A', () => {
    test('add, update, move and delete files', async () => {
      const patch = v4a(
        '*** Add File: docs/new.md',
        '+# New',
        '+',
        '+text',
        '*** Update File: src/b.ts',
        '*** Move to: src/c.ts',
        '@@ class A {',
        '   f() {',
        '-    return 1',
        '+    return 2',
        '   }',
        '*** Delete File: a.txt',
      )
      const { files } = await session.text.applyPatch({ patch })
      expect(files.map(({ change, path }) => [change, path])).toEqual([
        ['created', '/docs/new.md'],
        ['renamed', '/src/c.ts'],
        ['deleted', '/a.txt'],
      ])
      expect(await read('/docs/new.md')).toBe('# New\n\ntext\n')
      expect(await read('/src/c.ts')).toBe('class A {\n  f() {\n    return 2\n  }\n}\n')
      await reload()
      expect(await paths()).toEqual(['docs/new.md', 'src/c.ts'])
    })

    test('find the place by anchors', async () => {
      const content = 'class A\n  def f\n    pass\nclass B\n  def f\n    pass\n'
      await session.files.write({ path: '/p.py', content })
      const update = ['*** Update File: p.py', '@@ class B', '@@   def f', '-    pass', '+    return 1']
      await session.text.applyPatch({ patch: v4a(...update) })
      expect(await read('/p.py')).toBe(content.replace(/pass\n$/, 'return 1\n'))
    })

    test('match the end of the file with other white space before another place exactly', async () => {
      await session.files.write({ path: '/a.txt', content: 'x\ny\nx  \n' })
      const section = ['@@', '-x', '+z', '*** End of File']
      await session.text.applyPatch({ patch: v4a('*** Update File: a.txt', ...section) })
      expect(await read('/a.txt')).toBe('x\ny\nz\n')
      await session.files.write({ path: '/a.txt', content: 'x\ny\n' })
      await session.text.applyPatch({ patch: v4a('*** Update File: a.txt', ...section) })
      expect(await read('/a.txt')).toBe('z\ny\n')
    })

    test('match the end of the file', async () => {
      await session.files.write({ path: '/p', content: 'a\nb\na\nb\n' })
      const patch = v4a('*** Update File: p', '@@', ' a', '-b', '+c', '*** End of File')
      await session.text.applyPatch({ patch })
      expect(await read('/p')).toBe('a\nb\na\nc\n')
    })

    test('ignore white space at the ends of lines, and then around them', async () => {
      await session.files.write({ path: '/p', content: '\tfirst  \n\tsecond\n' })
      const patch = v4a('*** Update File: p', ' first', '-second', '+\tthird')
      await session.text.applyPatch({ patch })
      expect(await read('/p')).toBe('\tfirst  \n\tthird\n')
    })

    test('take several sections of a file in order', async () => {
      await session.files.write({ path: '/p', content: 'a\nb\nc\nd\ne\n' })
      const patch = v4a('*** Update File: p', '@@', ' a', '-b', '+B', '@@', ' d', '-e', '+E', '+f')
      await session.text.applyPatch({ patch })
      expect(await read('/p')).toBe('a\nB\nc\nd\nE\nf\n')
    })

    test('add lines at the end without context', async () => {
      await session.text.applyPatch({ patch: v4a('*** Update File: a.txt', '+four') })
      expect(await read('/a.txt')).toBe('one\ntwo\nthree\nfour\n')
    })

    test('keep the line ends of other lines in a file with both kinds', async () => {
      await session.files.write({ path: '/a.txt', content: 'one\r\ntwo\nthree\r\nfour\r\nfive\r' })
      const patch = v4a('*** Update File: a.txt', '@@', '-one', '+1')
      await session.text.applyPatch({ patch })
      expect(await read('/a.txt')).toBe('1\r\ntwo\nthree\r\nfour\r\nfive\r')
    })

    test('keep a byte order mark, with or without it in the patch', async () => {
      await session.files.write({ path: '/a.txt', content: '\ufeffone\ntwo\n' })
      await session.text.applyPatch({ patch: v4a('*** Update File: a.txt', '@@', '-one', '+1') })
      expect(await read('/a.txt')).toBe('\ufeff1\ntwo\n')
      await session.text.applyPatch({ patch: v4a('*** Update File: a.txt', '@@ \ufeff1', '-two', '+2') })
      await session.text.applyPatch({ patch: v4a('*** Update File: a.txt', '@@', '-\ufeff1', '+\ufeffI') })
      expect(await read('/a.txt')).toBe('\ufeffI\n2\n')
    })

    test('keep CRLF and a missing last line end', async () => {
      await session.files.write({ path: '/p', content: 'a\r\nb' })
      await session.text.applyPatch({ patch: v4a('*** Update File: p', ' a', '-b', '+c', '+d') })
      expect(await read('/p')).toBe('a\r\nc\r\nd')
    })

    test.each([
      ['no end', '*** Begin Patch\n*** Delete File: a.txt', 'INVALID_PATCH'],
      ['no files', v4a(), 'INVALID_PATCH'],
      ['an unknown line', v4a('*** Rename File: a.txt'), 'INVALID_PATCH'],
      ['a line without a sign', v4a('*** Update File: a.txt', 'one'), 'INVALID_PATCH'],
      ['an added file without signs', v4a('*** Add File: b', 'one'), 'INVALID_PATCH'],
      ['an update without lines', v4a('*** Update File: a.txt'), 'INVALID_PATCH'],
      ['one file twice', v4a('*** Delete File: a.txt', '*** Delete File: a.txt'), 'INVALID_PATCH'],
      ['context that is not there', v4a('*** Update File: a.txt', ' on', '-two'), 'NO_MATCH'],
      ['an anchor that is not there', v4a('*** Update File: a.txt', '@@ zero', '-two'), 'NO_MATCH'],
      ['a missing file', v4a('*** Delete File: none'), 'PATH_NOT_FOUND'],
      ['a file that exists', v4a('*** Add File: a.txt', '+a'), 'ALREADY_EXISTS'],
    ] as const)('with %s are refused', async (_case, patch, reason) => {
      expect((await refusalOf(session.text.applyPatch({ patch }))).reason).toBe(reason)
      expect(await read('/a.txt')).toBe('one\ntwo\nthree\n')
    })
  })

  test('need the rights to read and to write', async () => {
    const patch = v4a('*** Delete File: a.txt')
    for (const capability of ['files.read', 'files.write'] as const)
      expect(
        (await refusalOf(session.narrow({ without: [capability] }).text.applyPatch({ patch }))).reason,
      ).toBe('PERMISSION_DENIED')
  })

  test('of unknown formats and with wrong options are refused', async () => {
    const apply = (request: object): Promise<unknown> => session.text.applyPatch({ patch: v4a(), ...request })
    expect((await refusalOf(apply({ format: 'context' }))).reason).toBe('INVALID_ARGUMENT')
    expect((await refusalOf(apply({ fuzz: 4 }))).reason).toBe('INVALID_ARGUMENT')
    expect((await refusalOf(apply({ strip: -1 }))).reason).toBe('INVALID_ARGUMENT')
    expect((await refusalOf(apply({ expectedHashes: { a: '' } }))).reason).toBe('INVALID_ARGUMENT')
    expect((await refusalOf(apply({ patch: 'a'.repeat(4 * 2 ** 20 + 1) }))).reason).toBe('TOO_LARGE')
  })
})

/** A tree in a directory of the host, with git. */
class GitTree {
  readonly path = mkdtempSync(join(tmpdir(), 'patch-git-'))

  write(files: Files): void {
    for (const name of readdirSync(this.path))
      if (name !== '.git') rmSync(join(this.path, name), { recursive: true })
    for (const [name, { content, isExecutable }] of Object.entries(files)) {
      const path = join(this.path, name)
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, content)
      chmodSync(path, isExecutable ? 0o755 : 0o644)
    }
  }

  git(args: readonly string[], input = ''): { readonly isDone: boolean; readonly output: string } {
    const { status, stdout } = spawnSync('git', ['-c', 'core.safecrlf=false', ...args], {
      cwd: this.path,
      env: gitEnvironment,
      input,
      maxBuffer: 2 ** 28,
    })
    return { isDone: status === 0, output: stdout.toString() }
  }

  read(): Record<string, string> {
    const found: Record<string, string> = {}
    for (const name of readdirSync(this.path, { recursive: true, encoding: 'utf8' })) {
      const path = join(this.path, name)
      if (name.startsWith('.git') || !statSync(path).isFile()) continue
      found[name] = `${statSync(path).mode & 0o100 ? 'x' : '-'} ${readFileSync(path, 'utf8')}`
    }
    return found
  }
}

type Files = Readonly<Record<string, { readonly content: string; readonly isExecutable: boolean }>>

describe.skipIf(!hasGit)('a patch from git', () => {
  const tree = new GitTree()
  let engine: Engine

  beforeEach(async () => {
    engine = await openEngine()
  })

  afterEach(async () => {
    await engine.close()
  })

  const line = fc.constantFrom('a', 'b', 'c', '', '  d', 'e\r', '$&', 'über')
  const text = fc
    .tuple(fc.array(line, { maxLength: 14 }), fc.boolean())
    .map(([lines, ends]) => (lines.length === 0 ? '' : lines.join('\n') + (ends ? '\n' : '')))
  const file = fc.record({ content: text, isExecutable: fc.boolean() })
  const files = fc.dictionary(fc.constantFrom('a', 'b.txt', 'd/c', 'd/e/f', 'name with space', 'ü'), file, {
    minKeys: 1,
    maxKeys: 5,
    noNullPrototype: true,
  })

  async function sessionOf(given: Files): Promise<Session> {
    const session = await engine.sessions.create({})
    for (const [name, { content, isExecutable }] of Object.entries(given))
      await session.files.write({ path: `/${name}`, content, mode: isExecutable ? 0o755 : 0o644 })
    return session
  }

  async function readAll(session: Session): Promise<Record<string, string>> {
    const found: Record<string, string> = {}
    for (const { name, kind } of (await session.files.list({ path: '/', recursive: true })).entries) {
      if (kind !== 'file') continue
      const { mode } = await session.files.stat({ path: `/${name}` })
      const content = Buffer.from(await session.files.read({ path: `/${name}` })).toString()
      found[name] = `${mode & 0o100 ? 'x' : '-'} ${content}`
    }
    return found
  }

  test('gives the tree that git diff compared with', { timeout: 900_000 }, async () => {
    tree.git(['init', '-q'])
    await fc.assert(
      fc.asyncProperty(files, files, fc.boolean(), async (before, after, findsRenames) => {
        tree.write(before)
        tree.git(['add', '-A'])
        const { output: id } = tree.git(['write-tree'])
        tree.write(after)
        tree.git(['add', '-A'])
        const options = findsRenames ? ['-M10%'] : ['--no-renames']
        const { output: patch } = tree.git(['diff', '--cached', ...options, id.trim()])
        fc.pre(patch !== '')
        const session = await sessionOf(before)
        await session.text.applyPatch({ patch })
        expect(await readAll(session)).toEqual(tree.read())
      }),
      { seed, numRuns: runs(150) },
    )
  })

  test('applies to another tree exactly when git apply applies it', { timeout: 900_000 }, async () => {
    tree.git(['init', '-q'])
    const some = fc.array(fc.constantFrom('a\n', 'b\n', 'c\n', 'd\n'), { minLength: 1, maxLength: 16 })
    const changes = fc.array(fc.tuple(fc.nat(20), fc.constantFrom('', 'x\n', 'a\n')), { maxLength: 2 })
    const changed = (lines: readonly string[], edits: readonly (readonly [number, string])[]): string[] => {
      const copy = [...lines]
      for (const [at, inserted] of edits) copy.splice(at % copy.length, inserted === '' ? 1 : 0, inserted)
      return copy
    }
    const outcomes = { applied: 0, refused: 0 }
    await fc.assert(
      fc.asyncProperty(some, changes, changes, async (lines, edits, others) => {
        const one = (content: string): Files => ({ f: { content, isExecutable: false } })
        tree.write(one(lines.join('')))
        tree.git(['add', '-A'])
        tree.write(one(changed(lines, edits).join('')))
        const { output: patch } = tree.git(['diff'])
        fc.pre(patch !== '')
        const target = one(changed(lines, others).join(''))
        tree.write(target)
        const { isDone } = tree.git(['apply', '-'], patch)
        const session = await sessionOf(target)
        const applied = await session.text.applyPatch({ patch }).then(
          () => true,
          () => false,
        )
        expect(applied).toBe(isDone)
        expect(await readAll(session)).toEqual(tree.read())
        outcomes[applied ? 'applied' : 'refused']++
      }),
      { seed, numRuns: runs(200) },
    )
    expect(outcomes.applied).toBeGreaterThan(0)
    expect(outcomes.refused).toBeGreaterThan(0)
  })
})
