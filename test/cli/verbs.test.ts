import { execFileSync, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect } from '../../src/adapters/client/index.js'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine } from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { serveGit } from '../support/git-server.js'
import { commandFile, serveCommand, type Finished, type Served } from '../support/command.js'
import { outputHere, runHere } from '../support/command-here.js'
import { isLong } from '../support/seed.js'

const idForm = /^[0-9a-z]{36}$/
const timeForm = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** The same verbs on a directory, and on a server with one, in this process, which is faster. */
describe.each(['store', 'server'])('on a %s', { timeout: 180_000 }, (place) => {
  let directory: string
  let served: Served | undefined
  let env: Record<string, string>

  const run = (args: readonly string[], input?: string | Uint8Array): Promise<Finished> =>
    runHere(args, { env, cwd: directory, ...(input !== undefined && { input }) })
  const output = (args: readonly string[], input?: string | Uint8Array): Promise<string> =>
    outputHere(args, { env, cwd: directory, ...(input !== undefined && { input }) })
  const json = async (args: readonly string[]): Promise<unknown> =>
    JSON.parse(await output([...args, '--json']))
  const lines = async (args: readonly string[]): Promise<unknown[]> =>
    (await output([...args, '--json']))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as unknown)

  /** Creates a session with files, without a command for each of them. */
  const sessionOf = async (files: Readonly<Record<string, string | Uint8Array>> = {}): Promise<string> => {
    if (served !== undefined) {
      const client = connect({ baseUrl: served.url, token: 'canary-token' })
      return (await client.sessions.create({ files })).id
    }
    const engine = await openEngine({ storage: levelStorage(env['FORKSPACE_STORE']!) })
    try {
      return (await engine.sessions.create({ files })).id
    } finally {
      await engine.close()
    }
  }

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'cli-'))
    const store = join(directory, 'store')
    if (place === 'store') {
      env = { FORKSPACE_STORE: store }
      return
    }
    served = await serveCommand(['--storage', store, '--allow-host-path', directory, '--allow-private-git'], {
      env: { FORKSPACE_TOKEN: 'canary-token@local/local' },
    })
    env = { FORKSPACE_SERVER: served.url, FORKSPACE_TOKEN: 'canary-token@local/local' }
  })
  afterAll(async () => {
    await served?.stop()
    await rm(directory, { recursive: true })
  })

  /** Groups that depend little on the place run on one in `npm test`. */
  const isSkipped = (one: 'store' | 'server'): boolean => !isLong && place !== one

  describe.skipIf(isSkipped('server'))('files', () => {
    test('are returned byte for byte', async () => {
      const session = await output(['session', 'create'])
      const bytes = randomBytes(70_000)
      await writeFile(join(directory, 'in.bin'), bytes)
      await output(['put', 'in.bin', `${session}:/deep/er/in.bin`])
      expect((await run(['cat', `${session}:deep/er/in.bin`])).bytes.equals(bytes)).toBe(true)
      await output(['put', '-', `${session}:from-stdin`], bytes.subarray(0, 1000))
      expect((await run(['cat', `${session}:/from-stdin`])).bytes).toEqual(bytes.subarray(0, 1000))
      await output(['put', '-', `${session}:empty`], '')
      expect((await run(['cat', `${session}:empty`])).bytes.length).toBe(0)
      // Files that report size 0 but have content.
      if (process.platform !== 'linux') return
      await output(['put', '/proc/version', `${session}:version`])
      expect((await run(['cat', `${session}:version`])).bytes).toEqual(await readFile('/proc/version'))
    })

    test.runIf(place === 'store' || isLong)(
      'of many MiB are written in one step and keep their mode',
      { timeout: 120_000 },
      async () => {
        const session = await sessionOf({ '/real': 'small' })
        const bytes = randomBytes(2 ** 20)
        const hash = createHash('sha256')
        const pieces = Array.from({ length: 17 }, () => bytes)
        for (const piece of pieces) hash.update(piece)
        await writeFile(join(directory, 'large.bin'), Buffer.concat(pieces))
        await output(['put', '-', `${session}:real`, '--mode', '755'], 'small')
        expect(await json(['put', 'large.bin', `${session}:real`])).toEqual({
          path: '/real',
          sizeBytes: 17 * 2 ** 20,
        })
        const { bytes: read } = await run(['cat', `${session}:real`])
        expect(createHash('sha256').update(read).digest('hex')).toBe(hash.copy().digest('hex'))
        expect(await lines(['ls', session, '-l'])).toMatchObject([{ path: '/real', mode: 0o755 }])
        const [wrong, right] = [`sha256:${'0'.repeat(64)}`, `sha256:${hash.digest('hex')}`]
        await expect(output(['put', 'large.bin', `${session}:real`, '--expect', wrong])).rejects.toThrow(
          'HASH_MISMATCH',
        )
        await output(['put', 'large.bin', `${session}:real`, '--expect', right])
        await rm(join(directory, 'large.bin'))
      },
    )

    test('are listed: names, recursively, one file, and in long form', async () => {
      const session = await sessionOf({ '/b.txt': 'b.txt', '/a/x': 'a/x', '/a/y/z': 'a/y/z' })
      expect(await output(['ls', session])).toBe('a/\nb.txt')
      expect(await output(['ls', `${session}:`, '-R'])).toBe('a/\na/x\na/y/\na/y/z\nb.txt')
      expect(await output(['ls', `${session}:/a/`])).toBe('x\ny/')
      expect(await output(['ls', `${session}:a/x`])).toBe('/a/x')
      const long = (await output(['ls', session, '-lR'])).split('\n')
      expect(long.map((line) => line.replace(/\d{4}-\S+Z/, 'TIME'))).toEqual([
        'drwxr-xr-x           0  TIME  a/',
        '-rw-r--r--           3  TIME  a/x',
        'drwxr-xr-x           0  TIME  a/y/',
        '-rw-r--r--           5  TIME  a/y/z',
        '-rw-r--r--           5  TIME  b.txt',
      ])
      expect(await lines(['ls', session])).toEqual([
        { path: '/a', kind: 'directory' },
        { path: '/b.txt', kind: 'file' },
      ])
      expect(await lines(['ls', `${session}:b.txt`, '-l'])).toEqual([
        {
          path: '/b.txt',
          kind: 'file',
          sizeBytes: 5,
          mode: 0o644,
          mtime: expect.stringMatching(timeForm) as string,
        },
      ])
      expect(await run(['ls', `${session}:/nothing`])).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringContaining('PATH_NOT_FOUND') as string,
      })
    })

    test('are moved like mv, within one session', async () => {
      const session = await sessionOf({ '/a/x': 'x', '/b': 'b' })
      await output(['mv', `${session}:/a/x`, '/c'])
      await output(['mv', `${session}:b`, 'd'])
      expect(await output(['ls', session, '-R'])).toBe('a/\nc\nd')
      expect(await json(['mv', `${session}:/c`, `${session.slice(0, 30)}:/a`])).toEqual({
        sourcePath: '/c',
        destinationPath: '/a/c',
      })
      await output(['rename', `${session}:a`, 'e'])
      await output(['mv', `${session}:d`, 'e/'])
      expect(await output(['ls', session, '-R'])).toBe('e/\ne/c\ne/d')
      await output(['mv', `${session}:e/c`, '/'])
      expect(await output(['ls', session])).toBe('c\ne/')

      const other = await sessionOf()
      expect(await run(['mv', `${session}:c`, `${other}:c`])).toMatchObject({
        code: 2,
        stderr: `forkspace: mv works within one session, but '${other}:c' is in another one\n`,
      })
      expect(await run(['mv', `${session}:c`, 'missing/'])).toMatchObject({
        code: 1,
        stderr: 'forkspace: there is no directory /missing to move into\n',
      })
      expect(await run(['mv', `${session}:nothing`, 'x'])).toMatchObject({ code: 1 })
      expect(await run(['mv', `${session}:/`, 'x'])).toMatchObject({ code: 2 })
      expect(await output(['ls', session, '-R'])).toBe('c\ne/\ne/d')
    })

    test('are removed, directories only with -r', async () => {
      const session = await sessionOf({ '/a/x': 'x', '/b': 'b', '/c': 'c', '/d': 'd' })
      await output(['rm', `${session}:/b`, `${session}:c`])
      expect(await output(['ls', session])).toBe('a/\nd')
      expect(await run(['rm', `${session}:a`])).toMatchObject({
        code: 1,
        stderr: 'forkspace: /a is a directory: pass -r to remove it with its contents\n',
      })
      expect(await run(['rm', '-rf', `${session}:/`])).toMatchObject({ code: 2 })
      const missing = await run(['rm', `${session}:b`])
      expect(missing).toMatchObject({ code: 1 })
      expect(missing.stderr).toContain('PATH_NOT_FOUND')
      expect(await output(['rm', '-f', `${session}:b`])).toBe('')
      expect(await output(['ls', session])).toBe('a/\nd')
      expect(await lines(['remove', '-r', `${session}:a`, `${session}:d`])).toEqual([
        { path: '/a' },
        { path: '/d' },
      ])
      expect(await output(['ls', session])).toBe('')
    })

    test('are managed through the aliases of verbs too', async () => {
      const session = await output(['sessions', 'new'])
      expect(await output(['session', 'list'])).toBe(await output(['session', 'ls']))
      expect(await output(['source', 'list'])).toBe(await output(['source', 'ls']))
      expect(await json(['session', 'get', session])).toMatchObject({ id: session })
      await output(['session', 'delete', session])
      expect(await run(['session', 'get', session])).toMatchObject({ code: 1 })
    })

    test('accept permission bits and a guard', async () => {
      const session = await sessionOf()
      await output(['put', '-', `${session}:tool`, '--mode', '4755', '--expect', ''], 'one')
      expect(await output(['ls', `${session}:tool`, '-l'])).toMatch(/^-rwsr-xr-x /)
      const again = await run(['put', '-', `${session}:tool`, '--expect', ''], 'two')
      expect(again).toMatchObject({ code: 1, stdout: '' })
      expect(again.stderr).toContain('HASH_MISMATCH')
      const hash = `sha256:${createHash('sha256').update('one').digest('hex')}`
      await output(['put', '-', `${session}:tool`, '--expect', hash], 'two')
      expect(await output(['cat', `${session}:tool`])).toBe('two')
      expect(await output(['ls', `${session}:tool`, '-l'])).toMatch(/^-rwsr-xr-x /)
    })

    test('with unusual names are shown on one line each and can be found again', async () => {
      const names = [
        '-rf',
        '--',
        'a\nb',
        'c\u001b[2Jd',
        '"quoted"',
        'back\\slash',
        'ünï 🙂',
        'rtl\u202e',
        'x:y',
      ]
      const session = await sessionOf(Object.fromEntries(names.map((name) => [`/${name}`, name])))
      const shown = (await output(['ls', session])).split('\n')
      expect(shown.length).toBe(names.length)
      for (const line of shown) expect(line).not.toMatch(/[\p{Cc}\p{Cf}]/u)
      const read = shown.map((line) => (line.startsWith('"') ? (JSON.parse(line) as string) : line))
      expect(new Set(read)).toEqual(new Set(names))
      expect(new Set(await lines(['ls', session]))).toEqual(
        new Set(names.map((name) => ({ path: `/${name}`, kind: 'file' }))),
      )
      for (const name of ['-rf', 'a\nb', 'x:y'])
        expect(await output(['cat', `${session}:${name}`])).toBe(name)
      for (const verb of [['diff'], ['log']]) {
        const { stdout } = await run([...verb, session])
        expect(stdout.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u)
      }
    })

    test('of the host may have unusual names too', async () => {
      const session = await sessionOf()
      await writeFile(join(directory, '--help'), 'no help')
      await output(['put', '--', '--help', `${session}:--help`])
      expect(await output(['cat', `${session}:--help`])).toBe('no help')
      await rm(join(directory, '--help'))
      const missing = await run(['put', 'no\u001b[2Jfile', `${session}:x`])
      expect(missing).toMatchObject({ code: 1 })
      expect(missing.stderr).toMatch(/^forkspace: there is no file no\\u001b\[2Jfile\n$/)
      expect((await run(['put', '.', `${session}:x`])).stderr).toMatch(/is a directory/)
    })

    test.runIf(place === 'store' || isLong)(
      'pass through pipes, also between commands on one store',
      async () => {
        const big = randomBytes(3 * 2 ** 20)
        const session = await sessionOf({ '/big': big })
        const shell = (script: string): ReturnType<typeof spawnSync> =>
          spawnSync('bash', ['--norc', '-o', 'pipefail', '-c', script], {
            env: {
              PATH: process.env['PATH'],
              ...env,
              NODE: process.execPath,
              FILE: commandFile,
              ID: session,
            },
          })
        const head = shell('"$NODE" "$FILE" cat $ID:big | head -c 10')
        expect([head.status, head.stderr.toString(), head.stdout.length]).toEqual([0, '', 10])
        const copied = shell('"$NODE" "$FILE" cat $ID:big | "$NODE" "$FILE" put - $ID:copy')
        expect([copied.stderr.toString(), copied.stdout.toString()]).toEqual(['', ''])
        expect((await run(['cat', `${session}:copy`])).bytes.equals(big)).toBe(true)
        for (const verb of place === 'store' ? ['--help', 'log $ID --json'] : []) {
          const closed = shell(`"$NODE" "$FILE" ${verb} | true`)
          expect([closed.status, closed.stderr.toString()]).toEqual([0, ''])
        }
      },
    )
  })

  describe.skipIf(isSkipped('server'))('text', () => {
    test('is searched, edited and patched', async () => {
      const session = await sessionOf({ '/src/a.ts': 'const a = 1\n', '/b.md': 'a\n' })
      expect(await output(['grep', 'const \\w', `${session}:src`])).toBe('/src/a.ts:1:const a = 1')
      expect(await output(['grep', '-c', '-F', 'a', session])).toBe('/b.md:1\n/src/a.ts:1')
      expect(await output(['grep', '-l', '-t', 'md', 'a', session])).toBe('/b.md')
      expect(await lines(['glob', session, '**/*.ts'])).toMatchObject([{ path: '/src/a.ts', kind: 'file' }])
      expect(await output(['edit', `${session}:b.md`, '--old', 'a', '--new', '$&'])).toBe('/b.md:1')
      expect(await output(['cat', `${session}:b.md`])).toBe('$&')
      const patch = '--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1 +1 @@\n-const a = 1\n+const a = 2\n'
      expect(await output(['apply', session, '-', '--dry-run'], patch)).toBe('M /src/a.ts')
      expect(await output(['apply', session, '-'], patch)).toBe('M /src/a.ts')
      expect(await output(['cat', `${session}:src/a.ts`])).toBe('const a = 2')
      const { code, stderr } = await run(['edit', `${session}:b.md`, '--old', 'none', '--new', ''])
      expect([code, stderr]).toEqual([1, expect.stringContaining('is not in /b.md')])
    })

    test('is not patched with bytes that are not UTF-8', async () => {
      const session = await sessionOf({ '/a': 'a\n' })
      const patch = Buffer.from('--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n a\n+caf\xe9\n', 'latin1')
      const { code, stderr } = await run(['apply', session, '-'], patch)
      expect([code, stderr]).toEqual([1, expect.stringContaining('the patch is not UTF-8')])
      expect(await output(['cat', `${session}:a`])).toBe('a')
    })
  })

  describe.skipIf(isSkipped('store'))('history', () => {
    test('supports checkpoints, restores and forks', async () => {
      const session = await output(['session', 'create', '--tag', 'task=42', '--tag', '__proto__=x'])
      await output(['put', '-', `${session}:a`], '1')
      const first = await output(['checkpoint', session, 'one'])
      const second = (await json(['checkpoint', session])) as { id: string }
      expect(first).toMatch(idForm)
      expect(second).toEqual({
        id: expect.stringMatching(idForm) as string,
        sessionId: session,
        checkpointLabel: '',
        createdAt: expect.stringMatching(timeForm) as string,
        metadata: {},
      })
      await output(['put', '-', `${session}:a`], '2')
      await output(['put', '-', `${session}:b`], '2')
      expect(await output(['diff', session])).toBe('A /a\nA /b')
      expect(await output(['diff', session, '--checkpoint', 'one'])).toBe('M /a\nA /b')
      expect(await output(['diff', session, '--checkpoint', 'one', second.id])).toBe('')
      expect(await lines(['diff', session, '--checkpoint', 'one'])).toEqual([
        { path: '/a', change: 'modified', kind: 'file' },
        { path: '/b', change: 'added', kind: 'file' },
      ])

      const fork = await output(['session', 'fork', session, '--checkpoint', 'one', '--tag', 'attempt=1'])
      expect(await output(['diff', session, fork])).toBe('M /a\nD /b')
      expect(await output(['diff', fork, session])).toBe('M /a\nA /b')
      expect(await output(['session', 'ls', '--filter', 'attempt=1'])).toMatch(
        new RegExp(`^${fork}  active  \\S+Z  task=42 __proto__=x attempt=1$`),
      )

      const taken = await run(['checkpoint', session, 'one'])
      expect(taken).toMatchObject({ code: 1, stdout: '' })
      expect(taken.stderr).toContain('ALREADY_EXISTS')
      expect(await output(['restore', session, 'one', '--dry-run'])).not.toBe('')
      expect(await output(['restore', session, 'one'])).toBe('')
      expect(await output(['undo', session, '--dry-run'])).not.toBe('')
      expect(await output(['undo', session])).toBe('1')
      expect(await output(['redo', session])).toBe('1')
      expect(await output(['at', session, 'one', 'ls'])).toBe(await output(['ls', session]))
      expect(await output(['at', session, 'one', 'cat', '/a'])).toBe(await output(['cat', `${session}:/a`]))
      expect(await output(['at', session, 'base', 'manifest'])).not.toContain('/nothing')
      expect(await run(['at', session, 'one', 'stat'])).toMatchObject({ code: 2 })
      expect(await output(['log', session, '--path', '/a'])).toMatch(/^\S+Z {2}\S+ +\w+ +\/a/)
      expect(await output(['blame', session, '/a'])).toMatch(/^1/)
      expect(await run(['undo', session, '--count', '0'])).toMatchObject({ code: 2 })
      const { eventId } = (await lines(['log', session]))[0] as { eventId: string }
      const watch = ['watch', session, '--after', eventId, '--once']
      expect(await output(watch)).toMatch(/^[ADM] \/a/)
      expect(await json([...watch, '--glob', 'a*'])).toMatchObject({ changes: [{ path: '/a' }] })
      expect(await run(['watch', session, '--after', 'x'])).toMatchObject({ code: 1 })
      expect(await output(['ls', session])).toBe('a')
      expect(await json(['restore', session, second.id])).toMatchObject({ id: session })
      expect(await run(['restore', session, ''])).toMatchObject({ code: 2 })
      const unknown = await run(['restore', session, 'two'])
      expect(unknown).toMatchObject({
        code: 1,
        stderr:
          'forkspace: the session has no checkpoint with the label or id two; "forkspace session show" lists them\n',
      })

      const shown = await output(['session', 'show', session])
      expect(shown).toMatch(new RegExp(`^id           ${session}$`, 'm'))
      expect(shown).toMatch(new RegExp(`^checkpoint   ${first}  \\S+Z  one$`, 'm'))
      const info = (await json(['session', 'show', session])) as Record<string, unknown>
      expect(info).toMatchObject({
        id: session,
        status: 'SESSION_STATUS_ACTIVE',
        checkpoints: [{ id: first }, second],
      })
      expect(Object.entries(info['tags'] as object)).toEqual([
        ['task', '42'],
        ['__proto__', 'x'],
      ])

      const log = await lines(['log', session])
      expect(log.map((event) => (event as { eventType: string }).eventType.split('.').at(-1))).toEqual([
        'CreateSession',
        'WriteFile',
        'CreateCheckpoint',
        'CreateCheckpoint',
        'WriteFile',
        'WriteFile',
        'RestoreCheckpoint',
        'Undo',
        'Redo',
        'RestoreCheckpoint',
      ])
      expect((await output(['log', session])).split('\n')[2]).toMatch(
        place === 'store'
          ? /^\S+Z {2}local {2}createCheckpoint {2}.*label=one$/
          : /^\S+Z {2}createCheckpoint {2}.*label=one$/,
      )

      expect(
        await output(['commit', session, '-m', '-m is a message', '--author', 'Ada L <ada@example.org>']),
      ).toMatch(/^[0-9a-f]{40}$/)
      expect(await json(['commit', session, '-m', 'x'])).toEqual({
        commitId: expect.stringMatching(/^[0-9a-f]{40}$/) as string,
      })
      expect(await lines(['session', 'rm', fork, session])).toEqual([{ id: fork }, { id: session }])
      expect(await run(['session', 'show', session])).toMatchObject({ code: 1 })
    })

    test('accepts labels that look like options', async () => {
      const session = await sessionOf()
      await output(['checkpoint', session, '--', '--label'])
      await output(['put', '-', `${session}:a`], '')
      await output(['restore', session, '--', '--label'])
      expect(await output(['ls', session])).toBe('')
    })
  })

  describe.skipIf(isSkipped('store'))('graphs', () => {
    test('show a session with its ancestors, forks and merges', async () => {
      const main = await sessionOf({ '/a.txt': 'one\n' })
      await output(['put', '-', `${main}:b`], '1')
      await output(['put', '-', `${main}:c`], '1')
      const attempt = await output(['session', 'fork', main])
      await output(['put', '-', `${attempt}:d`], '1')
      await output(['checkpoint', attempt, 'tried'])
      await output(['put', '-', `${main}:e`], '1')
      await output(['merge', attempt, main])
      const shown = await output(['log', '--graph', attempt])
      expect(shown.replaceAll(/\d{4}-\S+Z {2}(local {2})?/g, '')).toBe(
        [
          `*  merge ${attempt}`,
          '|\\',
          '* |  change /e',
          '| *  checkpoint tried',
          '| *  change /d',
          `| *  fork ${attempt}`,
          '|/',
          '*  2 changes',
          `*  session ${main}`,
        ].join('\n'),
      )
      expect(await output(['log', '--graph', main])).toBe(shown)
      const points = (await lines(['log', '--graph', main])) as { sessionId: string; count: number }[]
      expect(points.map(({ sessionId, count }) => [sessionId === main, count])).toEqual([
        [true, 1],
        [true, 1],
        [false, 1],
        [false, 1],
        [false, 1],
        [true, 2],
        [true, 1],
      ])
      expect(await run(['log', main, '--graph', '--path', '/b'])).toMatchObject({ code: 2 })
    })
  })

  describe.skipIf(isSkipped('store'))('merges', () => {
    test('list changes, and conflicts until they are resolved', async () => {
      const base = { '/a.txt': 'one\n', '/b.txt': 'one\n', '/c.txt': 'one\n', '/old': '' }
      const main = await sessionOf(base)
      const attempt = await output(['session', 'fork', main])
      for (const [session, text] of [
        [main, 'ours\n'],
        [attempt, 'theirs\n'],
      ] as const)
        for (const name of ['a', 'b', 'c']) await output(['put', '-', `${session}:${name}.txt`], text)
      await output(['put', '-', `${attempt}:new`], 'new')
      await output(['rm', `${attempt}:old`])
      const merged = 'A /new\nD /old\nC content /a.txt\nC content /b.txt\nC content /c.txt\n'

      const preview = await run(['merge', attempt, main, '--dry-run'])
      expect([preview.code, preview.stdout]).toEqual([1, merged])
      expect(await output(['conflicts', main])).toBe('')
      const resolved = await run(['merge', attempt, main, '--dry-run', '--policy', '**/*.txt=theirs'])
      expect([resolved.code, resolved.stdout]).toEqual([0, 'M /a.txt\nM /b.txt\nM /c.txt\nA /new\nD /old\n'])
      const refused = await run(['merge', attempt, main, '--policy', '**=fail'])
      expect([refused.code, refused.stdout]).toEqual([1, ''])
      expect(refused.stderr).toContain('MERGE_CONFLICT')

      const first = await run(['merge', attempt, main])
      expect([first.code, first.stdout]).toEqual([1, merged])
      expect(await output(['conflicts', main])).toBe('C content /a.txt\nC content /b.txt\nC content /c.txt')
      expect(await lines(['conflicts', main])).toMatchObject([
        { path: '/a.txt', kind: 'content', ours: { path: '/a.txt' } },
        { path: '/b.txt' },
        { path: '/c.txt' },
      ])
      const again = await run(['merge', attempt, main])
      expect(again.stderr).toContain(
        'resolve them with "forkspace resolve", or end the merge with "forkspace abort"',
      )

      expect(await output(['resolve', main, '/a.txt', '--theirs'])).toBe('2')
      expect(await json(['resolve', main, 'b.txt', '--content', '-'])).toEqual({ conflictCount: 1 })
      expect((await run(['resolve', main, '/b.txt', '--deleted'])).stderr).toContain('CONFLICT_NOT_FOUND')
      expect(await output(['resolve', main, '--all', '--base'])).toBe('0')
      expect(await output(['cat', `${main}:a.txt`])).toBe('theirs')
      expect(await output(['cat', `${main}:b.txt`])).toBe('')
      expect(await output(['cat', `${main}:c.txt`])).toBe('one')
      const nothing = await run(['merge', attempt, main])
      expect(nothing).toMatchObject({ code: 0, stdout: '', stderr: 'there is nothing to merge\n' })
      expect(await json(['merge', attempt, main])).toMatchObject({ merged: false, changes: [] })
    })

    test('can be aborted', async () => {
      const main = await sessionOf({ '/a': '1' })
      const attempt = await output(['session', 'fork', main])
      await output(['put', '-', `${main}:a`], '2')
      await output(['put', '-', `${attempt}:a`], '3')
      await output(['put', '-', `${attempt}:b`], '3')
      expect((await run(['merge', attempt, main])).code).toBe(1)
      expect(await output(['ls', main])).toBe('a\nb')
      expect(await output(['abort', main])).toBe('')
      expect(await output(['ls', main])).toBe('a')
      expect((await run(['abort', main])).stderr).toContain('CONFLICT_NOT_FOUND')
    })

    test('move a session onto a newer revision of its source', async () => {
      const tree = join(directory, 'rebased')
      await mkdir(tree)
      await writeFile(join(tree, 'a'), '1')
      await writeFile(join(tree, 'b'), '1')
      const source = await output(['source', 'add', 'rebased'])
      const session = await output(['session', 'create', '--source', source])
      await output(['put', '-', `${session}:a`], '2')
      await writeFile(join(tree, 'b'), '2')
      await output(['source', 'refresh', source])
      expect(await output(['rebase', session, '--dry-run'])).toBe('M /b')
      expect(await output(['rebase', session])).toBe('M /b')
      expect(await output(['diff', session])).toBe('M /a')

      await writeFile(join(tree, 'a'), '3')
      const revision = await output(['source', 'refresh', source])
      const conflicting = await run(['rebase', session, revision])
      expect([conflicting.code, conflicting.stdout]).toEqual([1, 'C content /a\n'])
    })
  })

  describe('ids', () => {
    test('can be abbreviated if unique, and are listed if ambiguous', async () => {
      const [one, two] = [await sessionOf(), await sessionOf()]
      const sessions = (await output(['session', 'ls'])).split('\n')
      const others = sessions.filter((line) => !line.includes(one))
      let unique = 1
      while (others.some((line) => line.includes(one.slice(0, unique)))) unique++
      let common = 0
      while (one[common] === two[common]) common++
      expect(await output(['session', 'show', one.slice(0, unique)])).toContain(one)
      const many = await run(['session', 'rm', one.slice(0, common)])
      expect(many).toMatchObject({ code: 1, stdout: '' })
      expect(many.stderr).toContain(one)
      expect(many.stderr).toContain(two)
      const none = await run(['ls', 'zzz:/'])
      expect(none).toMatchObject({
        code: 1,
        stderr: 'forkspace: no session has an id that begins with zzz; "forkspace session list" lists them\n',
      })
      expect((await run(['ls', 'z'.repeat(36)])).stderr).toContain('SESSION_NOT_FOUND')
    })
  })

  describe('failures', () => {
    test('name commands instead of library calls', async () => {
      const session = await sessionOf()
      const fork = await run(['session', 'fork', session, '--checkpoint', 'nope'])
      expect(fork.stderr).toBe(
        'forkspace: the session has no checkpoint with the label "nope"; "forkspace session show" lists them (CHECKPOINT_NOT_FOUND)\n',
      )
      const search = await run(['grep', '(', session])
      expect(search.stderr).toContain('Pass --literal to search for the text itself')
      const rebase = await run(['rebase', session])
      expect(rebase.stderr).toContain('it has no newer revision; use "forkspace merge" instead')
      if (place === 'server') return
      const checkout = await run(['checkout', session, directory])
      expect(checkout.stderr).toContain('or overwrite it with --force (CHECKOUT_MODIFIED)')
      const file = join(directory, 'no-bundle')
      await writeFile(file, 'x')
      const imported = await run(['session', 'import', file])
      expect(imported.stderr).toContain('Pass a file that "forkspace export --bundle" wrote.')
    })

    test.runIf(place !== 'server')('of host paths name the given argument', async () => {
      const session = await sessionOf()
      await writeFile(join(directory, 'plain'), 'x')
      const refusals: readonly (readonly [args: readonly string[], message: string])[] = [
        [
          ['export', session, '-o', 'missing/x.tar'],
          `cannot write missing/x.tar: there is no directory ${join(directory, 'missing')}`,
        ],
        [
          ['export', session, '-o', 'plain/x.tar'],
          `cannot write plain/x.tar: there is no directory ${join(directory, 'plain')}`,
        ],
        [['export', session, '-o', '.'], '. is a directory: pass a file in it, such as -o session.tar'],
        [
          ['checkout', session, 'plain'],
          `there is no directory ${join(directory, 'plain')} (HOST_PATH_NOT_FOUND)`,
        ],
        [
          ['checkout', session, 'plain/x'],
          `there is no directory ${join(directory, 'plain/x')} (HOST_PATH_NOT_FOUND)`,
        ],
        [
          ['source', 'add', 'https://ann:word@git.example/app'],
          'remoteUrl: must not contain credentials; pass them with --username and --password-env or --password-file (INVALID_ARGUMENT)',
        ],
      ]
      for (const [args, message] of refusals)
        expect(await run([...args])).toMatchObject({ code: 1, stdout: '', stderr: `forkspace: ${message}\n` })
    })

    test('reject an empty id', async () => {
      await sessionOf()
      for (const args of [
        ['session', 'rm', ''],
        ['session', 'show', ''],
        ['source', 'rm', ''],
      ]) {
        const { code, stderr } = await run(args)
        expect([code, stderr]).toEqual([
          2,
          `forkspace: the id of a ${args[0]} is empty. Pass the id, or the beginning of it\n`,
        ])
      }
    })

    test('of an import show their cause once', async () => {
      const file = join(directory, 'no-archive')
      await writeFile(file, 'x'.repeat(2000))
      const { stderr } = await run(['source', 'add', file])
      expect(stderr.split('is not a tar').length - 1).toBe(1)
    })

    test('are JSON with --json', async () => {
      const session = await sessionOf()
      const { code, stdout, stderr } = await run(['cat', `${session}:/no`, '--json'])
      expect([code, stdout]).toEqual([1, ''])
      const { error } = JSON.parse(stderr) as { error: Record<string, unknown> }
      expect(error).toMatchObject({ reason: 'PATH_NOT_FOUND', code: 'NOT_FOUND' })
      expect(Object.keys(error)).toEqual(['reason', 'code', 'message', 'details'])
      const usage = await run(['commit', session, '-m', 'x', '--author', 'x', '--json'])
      expect(usage.code).toBe(2)
      expect(JSON.parse(usage.stderr)).toMatchObject({ error: { reason: 'USAGE' } })
      for (const args of [['ls'], ['ls', session, '--bogus'], ['commit', session]]) {
        const unknown = await run([...args, '--json'])
        expect(unknown).toMatchObject({ code: 2, stdout: '' })
        expect(JSON.parse(unknown.stderr)).toMatchObject({ error: { reason: 'USAGE' } })
      }
    })
  })

  describe('sources', () => {
    let tree: string
    beforeAll(async () => {
      tree = join(directory, 'tree')
      await mkdir(join(tree, 'src'), { recursive: true })
      await writeFile(join(tree, 'src/a.ts'), 'export const a = 1\n')
      await writeFile(join(tree, 'README'), 'read me\n')
      await symlink('src/a.ts', join(tree, 'link'))
    })

    test('can be added from archives', async () => {
      execFileSync('tar', ['czf', join(directory, 'tree.tgz'), '-C', tree, '.'])
      const added = await run(['source', 'add', 'tree.tgz', '--label', 'kind=tar'])
      expect(added).toMatchObject({ code: 0 })
      expect(added.stderr).toMatch(/^revision [0-9a-f]{64}: 3 files, /)
      const source = added.stdout.trim()
      const session = await output(['session', 'create', '--source', source.slice(0, 20)])
      expect(await output(['ls', session, '-R'])).toBe('README\nlink\nsrc/\nsrc/a.ts')
      expect(await output(['ls', `${session}:link`, '-l'])).toMatch(/^l.* \/link -> src\/a\.ts$/)
      expect(await output(['cat', `${session}:link`])).toBe('export const a = 1')

      await writeFile(join(tree, 'NEW'), '')
      execFileSync('tar', ['cf', join(directory, 'tree.tar'), '-C', tree, '.'])
      await rm(join(tree, 'NEW'))
      const job = (await json(['source', 'import', source, 'tree.tar'])) as Record<string, unknown>
      expect(job).toMatchObject({
        sourceId: source,
        state: 'UNDERLAY_IMPORT_JOB_STATE_SUCCEEDED',
        filesProcessed: 4,
      })
      expect(job['revisionId']).not.toBe(added.stderr.slice(9, 73))
      const again = await output(
        ['source', 'import', source, '-'],
        await readFile(join(directory, 'tree.tgz')),
      )
      expect(again).toBe(added.stderr.slice(9, 73))
      expect(await output(['source', 'ls', '--filter', 'kind=tar'])).toBe(
        `${source}  archive  ready  ${again.slice(0, 12)}  tree.tgz  kind=tar`,
      )
      expect(await lines(['source', 'ls', '--filter', 'kind=tar'])).toMatchObject([
        { sourceId: source, latestRevisionId: again, labels: { kind: 'tar' } },
      ])
      expect(await run(['source', 'import', source])).toMatchObject({ code: 2 })
      expect((await run(['source', 'refresh', source])).stderr).toContain('SOURCE_NOT_REFRESHABLE')
      expect(await output(['source', 'rm', source])).toBe('')
      expect(await output(['source', 'ls', '--filter', 'kind=tar'])).toBe('')
      expect(await output(['ls', session])).toContain('README')
    })

    test("fail with the source's name if they are not archives", async () => {
      const failed = await run(['source', 'add', '-', '--name', 'junk'], randomBytes(2000))
      expect(failed).toMatchObject({ code: 1, stdout: '' })
      expect(failed.stderr).toMatch(
        /^the source [0-9a-z]{36} was added, but its import failed\nforkspace: .*INVALID_ARCHIVE/,
      )
      const source = failed.stderr.split(' ')[2]!
      await output(['source', 'rm', source])
    })

    test('can be added from directories and refreshed', async () => {
      const source = await output(['source', 'add', 'tree', '--name', 'the tree'])
      const session = await output(['session', 'create', '--source', source])
      expect(await output(['ls', session, '-R'])).toBe('README\nlink\nsrc/\nsrc/a.ts')
      const [before] = await lines(['source', 'ls'])
      await writeFile(join(tree, 'README'), 'read it again\n')
      const revision = await output(['source', 'refresh', source])
      expect(revision).not.toBe((before as { latestRevisionId: string }).latestRevisionId)
      const next = await output(['session', 'create', '--source', source, '--revision', revision])
      expect(await output(['diff', session, next])).toBe('M /README')
      expect(await output(['source', 'refresh', source])).toBe(revision)
      const missing = await run(['source', 'add', 'nowhere'])
      expect(missing).toMatchObject({ code: 1, stderr: 'forkspace: there is no file or directory nowhere\n' })
    })

    test.runIf(place === 'store' && hasGit)('gives commits as a git bundle', async () => {
      const session = await sessionOf()
      const committed = await output(['commit', session, '-m', 'One', '--branch', 'fix'])
      const bundle = join(directory, 'fix.bundle')
      await output(['export', session, '--git-bundle', '--branch', 'fix', '-o', bundle])
      const repository = GitRepository.create(join(directory, 'fetching.git'))
      expect(repository.git(['bundle', 'list-heads', bundle])).toBe(`${committed} refs/heads/fix`)
      repository.git(['fetch', '--quiet', bundle, 'fix:fix'])
      expect(repository.tip('refs/heads/fix')).toBe(committed)
      const unclear = await run(['export', session, '-o', 'x', '--bundle', '--git-bundle'])
      expect(unclear).toMatchObject({ code: 2, stderr: expect.stringContaining('--bundle or --git-bundle') })
      const without = await run(['export', session, '-o', 'x', '--branch', 'fix'])
      expect(without).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('--branch needs --git-bundle'),
      })
    })

    test.runIf(hasGit)('can be added from git and pushed back', async () => {
      const root = join(directory, 'git')
      const repository = GitRepository.create(join(root, 'app.git'))
      repository.stage([['100644', 'a.txt', 'one\n']])
      const commit = repository.commit()
      const server = await serveGit(root)
      try {
        const url = `${server.url}/app.git`
        // The server was started with the option that allows it.
        const refused = await run(['source', 'add', url])
        expect(refused.stderr.includes('GIT_ADDRESS_REFUSED')).toBe(place === 'store')
        const allow = place === 'store' ? ['--allow-private-git'] : []
        const source = await output(['source', 'add', url, '--ref', 'main', ...allow])
        expect(await output(['source', 'ls'])).toContain(`${source}  git`)
        const session = await output(['session', 'create', '--source', source, '--revision', commit])
        await output(['put', '-', `${session}:a.txt`], 'two\n')
        const committed = await output(['commit', session, '-m', 'Two', '--branch', 'fix', ...allow])
        expect(repository.tip('refs/heads/fix')).toBe(committed)
        expect(repository.git(['log', '-1', '--format=%s', 'fix'])).toBe('Two')
        expect(await output(['commits', session])).toMatch(
          new RegExp(`^${committed}  \\S+Z  \\S+  \\(fix\\)  Two$`),
        )
        expect(await lines(['commits', session, '--branch', 'other'])).toEqual([])
        expect(await output(['source', 'import', source, 'fix', ...allow])).toBe(committed)
        const unknown = await run(['source', 'import', source, 'nope', ...allow])
        expect(unknown.stderr).toMatch(/REF_NOT_FOUND/)

        repository.git(['bundle', 'create', join(directory, 'app.bundle'), 'main'])
        const bundled = await output(['source', 'add', 'app.bundle', '--ref', 'main'])
        expect(await lines(['source', 'ls'])).toContainEqual(
          expect.objectContaining({ sourceId: bundled, latestRevisionId: commit }),
        )
      } finally {
        await server.close()
      }
    })
  })

  test.runIf(place === 'server')('reports verbs that need a store', async () => {
    const session = await sessionOf()
    for (const args of [
      ['export', session],
      ['session', 'import', '-'],
      ['checkout', session, 'out'],
      ['sync', session, 'out'],
    ]) {
      const { code, stdout, stderr } = await run(args)
      expect([code, stdout]).toEqual([1, ''])
      expect(stderr).toContain('needs direct access to the store: use --store <directory>, not --server')
    }
  })

  test('tokens and secrets appear nowhere', () => {
    expect(`${served?.stderr()}${served?.lines.join('\n')}`).not.toContain('canary-token')
  })
})
