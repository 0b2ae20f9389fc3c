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
import { storages } from '../support/storages.js'

async function refusalOf(work: Promise<unknown>): Promise<EngineError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof EngineError) return error
  throw error ?? new Error('nothing was thrown')
}

const v4a = (...lines: string[]): string => ['*** Begin Patch', ...lines, '*** End Patch'].join('\n')

describe.each(storages)('patches on %s', (_name, makeStorage, lasting) => {
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

    test('are applied in linear time where many lines nearly match', async () => {
      const count = 60_000
      await session.files.write({ path: '/a.txt', content: 'a\n'.repeat(20 * count) })
      const old = Array.from({ length: count }, () => 'a')
      const lines = [...old.map((line) => `-${line}`), '-b', '+c']
      const unified = `--- a/a.txt\n+++ b/a.txt\n@@ -9,${count + 2} +9,2 @@\n${lines.join('\n')}\n a\n`
      const section = ['*** Update File: a.txt', '@@', ...lines]
      const start = performance.now()
      for (const patch of [unified, v4a(...section)])
        expect((await refusalOf(session.text.applyPatch({ patch }))).reason).toBe('NO_MATCH')
      expect(performance.now() - start).toBeLessThan(15_000)
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
      [
        'a binary change',
        'diff --git a/a b/a\nindex 1..2 100644\nGIT binary patch\nliteral 1\nA\n',
        'INVALID_PATCH',
      ],
      [
        'a symlink',
        'diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n',
        'INVALID_PATCH',
      ],
      ['no name', '--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+b\n', 'INVALID_PATCH'],
      ['a path outside', '--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n', 'INVALID_ARGUMENT'],
      ['a missing file', '--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n', 'PATH_NOT_FOUND'],
      ['a file that exists', '--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+b\n', 'ALREADY_EXISTS'],
      ['a directory', '--- a/src\n+++ b/src\n@@ -1 +1 @@\n-a\n+b\n', 'IS_A_DIRECTORY'],
    ] as const)('with %s are refused', async (_case, patch, reason) => {
      expect((await refusalOf(session.text.applyPatch({ patch }))).reason).toBe(reason)
      expect(await paths()).toEqual(['a.txt', 'src/b.ts'])
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
      { seed, numRuns: runs(300) },
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
      { seed, numRuns: runs(400) },
    )
    expect(outcomes.applied).toBeGreaterThan(0)
    expect(outcomes.refused).toBeGreaterThan(0)
  })
})
