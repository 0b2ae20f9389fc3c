import { execFileSync, spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { gitEnvironment, hasGit } from '../support/git-repository.js'
import { seed } from '../support/seed.js'
import { runCommand, type Finished } from '../support/command.js'
import { outputHere, runHere } from '../support/command-here.js'

let directory: string
let store: string
const run = (args: readonly string[], input?: string | Uint8Array): Promise<Finished> =>
  runHere([...args, '--store', store], { cwd: directory, ...(input !== undefined && { input }) })
const output = (args: readonly string[], input?: string): Promise<string> =>
  outputHere([...args, '--store', store], { cwd: directory, ...(input !== undefined && { input }) })

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cli-'))
  store = join(directory, 'store')
})
afterAll(() => rm(directory, { recursive: true }))

/** Fills a new session in this process, which is faster than a command for each file. */
async function sessionOf(files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const engine = await openEngine({ storage: levelStorage(store) })
  try {
    return (await engine.sessions.create({ files })).id
  } finally {
    await engine.close()
  }
}

describe('export', () => {
  test('writes the same tar to standard output and to a file', async () => {
    const session = await sessionOf({ '/a.txt': 'one', '/d/b': 'two' })
    const { bytes, stderr } = await runCommand(['export', session, '--store', store])
    expect(stderr).toBe('')
    expect(await output(['export', session, '-o', 'out.tar'])).toBe('')
    expect(await readFile(join(directory, 'out.tar'))).toEqual(bytes)
    expect(execFileSync('tar', ['xOf', '-', 'd/b'], { input: bytes }).toString()).toBe('two')
    expect((await readdir(directory)).filter((name) => name.includes('part'))).toEqual([])
  })

  test('writes revisions, and bundles that can be imported', async () => {
    const session = await sessionOf({ '/a.txt': 'one' })
    const tar = (await run(['export', session])).bytes
    const added = await run(['source', 'add', '-'], tar)
    const source = added.stdout.trim()
    const revision = /^revision ([0-9a-f]+):/.exec(added.stderr)![1]!
    for (const at of [`${source}@`, `${source.slice(0, 30)}@${revision}`])
      expect((await run(['export', at])).bytes).toEqual(tar)
    const bundle = (await run(['export', session, '--bundle'])).bytes
    const { stdout } = await run(['session', 'import', '-'], bundle)
    expect(await output(['diff', session, stdout.trim()])).toBe('')
    for (const [args, code] of [
      [['export', `${source}@`, '--bundle'], 2],
      [['export', session, '--json'], 2],
      [['export', `${source}@no-such`], 1],
      [['export', session, '-o', 'no/such/dir'], 1],
      [['session', 'import', 'out.tar'], 1],
    ] as const) {
      const failed = await run(args)
      expect({ args, code: failed.code, stdout: failed.stdout }).toEqual({ args, code, stdout: '' })
      expect(failed.stderr).toMatch(/^(?:forkspace: |\{"error":).*\n$/)
    }
  })

  test('keeps an existing file when it fails', async () => {
    await writeFile(join(directory, 'kept'), 'kept')
    const failed = await run(['export', 'f'.repeat(36), '-o', 'kept'])
    expect(failed.code).toBe(1)
    expect(await readFile(join(directory, 'kept'), 'utf8')).toBe('kept')
  })
})

test('checkout and sync transfer changes in both directions', async () => {
  const session = await sessionOf({ '/a.txt': 'one', '/d/b': 'two' })
  expect(await output(['checkout', session, 'out'])).toBe('3 written, 0 removed')
  await writeFile(join(directory, 'out/a.txt'), 'changed')
  await writeFile(join(directory, 'out/new\nname'), 'new')
  await rm(join(directory, 'out/d'), { recursive: true })
  expect((await output(['sync', session, 'out'])).split('\n')).toEqual([
    'A "/new\\nname"',
    'M /a.txt',
    'D /d',
    'D /d/b',
  ])
  expect(await output(['cat', `${session}:a.txt`])).toBe('changed')
  expect(JSON.parse(await output(['sync', session, 'out', '--json']))).toMatchObject({
    added: [],
    modified: [],
    removed: [],
  })
  await output(['put', '-', `${session}:a.txt`], 'in the session')
  await writeFile(join(directory, 'out/a.txt'), 'in the directory')
  for (const verb of ['sync', 'checkout']) {
    const failed = await run([verb, session, 'out'])
    expect(failed.code).toBe(1)
    expect(failed.stderr).toContain('CHECKOUT_MODIFIED')
  }
  expect(await output(['checkout', session, 'out', '--force'])).toBe('1 written, 0 removed')
  expect(await readFile(join(directory, 'out/a.txt'), 'utf8')).toBe('in the session')
  const missing = await run(['sync', session, 'missing'])
  expect(missing).toMatchObject({ code: 1, stderr: 'forkspace: there is no directory missing\n' })
})

describe('a patch', () => {
  test.runIf(hasGit)(`can be applied by git (FORKSPACE_SEED=${seed})`, async () => {
    const random = randomWords(seed)
    const line = (): string => `${'line '.repeat(random() % 3)}${random() % 40}`
    const text = (): string =>
      Array.from({ length: random() % 60 }, line).join(random() % 8 === 0 ? '\r\n' : '\n') +
      (random() % 3 === 0 ? '' : '\n')
    const before: Record<string, string> = {}
    const after: Record<string, string> = {}
    for (let at = 0; at < 60; at++) {
      const path = `/dir ${at % 7}/ünï-${at}${at % 11 === 0 ? '\t"x"' : ''}.txt`
      if (at % 5 !== 0) before[path] = text()
      if (at % 6 !== 0) after[path] = at % 4 === 0 && before[path] !== undefined ? before[path] : text()
    }
    const from = await sessionOf(before)
    const to = await sessionOf(after)
    const { bytes } = await run(['diff', from, to, '--patch'])
    const work = join(directory, 'work')
    await mkdir(work)
    execFileSync('tar', ['xf', '-', '-C', work], { input: (await run(['export', from])).bytes })
    const applied = spawnSync('git', ['apply', '--whitespace=nowarn', '-'], {
      cwd: work,
      env: gitEnvironment,
      input: bytes,
    })
    expect(applied.stderr.toString()).toBe('')
    const source = await output(['source', 'add', 'work', '--kind', 'directory'])
    const result = await output(['session', 'create', '--source', source])
    // Git does not record directories without files.
    const left = (await output(['diff', result, to])).split('\n').filter((text) => text !== '')
    expect(left.filter((text) => /\.txt"?$/.test(text))).toEqual([])
  })

  test('shows the base, checkpoints, modes, symlinks and binary files', async () => {
    const tree = join(directory, 'tree')
    await mkdir(tree)
    for (const [name, text] of [
      ['same', 'same\n'],
      ['text', 'a\nb\n'],
      ['tool', 'run\n'],
      ['bytes', 'a\0b'],
      ['turned', 'file\n'],
    ] as const)
      await writeFile(join(tree, name), text)
    await symlink('text', join(tree, 'link'))
    const source = await output(['source', 'add', 'tree', '--kind', 'directory'])
    const session = await output(['session', 'create', '--source', source])
    await output(['put', '-', `${session}:text`], 'a\nc\n')
    await output(['put', '-', `${session}:tool`, '--mode', '755'], 'run\n')
    await output(['put', '-', `${session}:bytes`], 'a\0c')
    await output(['checkpoint', session, 'one'])
    await output(['put', '-', `${session}:text`], 'a\nd')
    const fromBase = await output(['diff', session, '--patch'])
    expect(fromBase.replace(/^index [^]*?(?=^diff )/m, 'GIT binary patch\n')).toBe(`diff --git a/bytes b/bytes
GIT binary patch
diff --git a/text b/text
--- a/text
+++ b/text
@@ -1,2 +1,2 @@
 a
-b
+d
\\ No newline at end of file
diff --git a/tool b/tool
old mode 100644
new mode 100755`)
    const between = await output(['diff', session, '--checkpoint', 'one', '--patch'])
    expect(between.split('\n').filter((line) => /^[+-][^+-]/.test(line))).toEqual(['-c', '+d'])
    expect((await run(['diff', session, '--patch', '--json'])).code).toBe(2)
    expect((await run(['diff', session, '--patch', '--stat'])).code).toBe(2)
    expect(await output(['diff', session, '--stat'])).toBe(
      '/bytes | binary\n/text | +1 -1\n/tool | +0 -0\nfiles: 3, lines: +1 -1',
    )
  })
})
