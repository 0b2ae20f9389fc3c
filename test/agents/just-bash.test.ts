import { execFile } from 'node:child_process'
import { mkdtemp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { Bash, EMPTY_BYTES, InMemoryFs, latin1FromBytes, type IFileSystem } from 'just-bash'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { workspaceFileSystem } from '../../src/adapters/just-bash/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { fewStorages } from '../support/storages.js'

const run = promisify(execFile)

const files = {
  '/w/a.txt': 'one\ntwo\nthree\n',
  '/w/b.txt': 'two\n',
  '/w/src/main.ts': 'const a = 1\nexport { a }\n',
  '/w/src/lib/x.ts': 'import { a } from "../main"\n',
}

/** Scripts that give the same on InMemoryFs, and if `real` on the bash of the host. */
const scripts: readonly (readonly [name: string, script: string, real: boolean])[] = [
  ['pipes', 'cat a.txt | sort -r | head -n 2 | tr a-z A-Z; sort a.txt b.txt | uniq -c | wc -l', true],
  ['redirections', 'echo x > n.txt; echo y >> n.txt; cat < n.txt; cat nope 2> err; wc -l < n.txt', true],
  ['globs', 'echo *.txt src/*.ts src/*/*.ts; for f in *.txt; do echo "$f"; done', true],
  ['sed -i', "sed -i 's/two/2/' a.txt b.txt; cat a.txt b.txt", true],
  ['grep -r', 'grep -rn "a" src | sort; grep -c two a.txt; grep -rl import src', true],
  ['find', 'find . -name "*.ts" | sort; find src -type d | sort', true],
  ['cp -r', 'cp -r src copy; cp a.txt c.txt; find copy c.txt | sort; cat copy/main.ts', true],
  ['mv', 'mv a.txt z.txt; mv src lib; mv b.txt lib; find . -type f | sort', true],
  ['symlinks', 'ln -s a.txt l; cat l; readlink l; ln -s src d; cat d/main.ts; rm l; ls', true],
  ['hard links', 'ln a.txt h; cat h; rm a.txt; cat h', true],
  ['chmod', 'chmod 755 a.txt; chmod u-w b.txt; test -x a.txt && echo x; stat -c %a a.txt', true],
  ['directories', 'mkdir -p p/q/r; touch p/q/f; rmdir p/q/r; rm -rf p; ls; rm -r nope || echo failed', true],
  [
    'awk',
    "awk '{ n += length($0) } END { print NR, n }' a.txt; awk -F= '/=/ { print $2 }' src/main.ts",
    true,
  ],
  ['here documents', 'cat > h.txt <<EOF\nsum $((1 + 2))\nEOF\ncat h.txt; cat <<< word', true],
  [
    'functions and loops',
    'f() { echo "$1-$2"; }; i=0; while [ $i -lt 3 ]; do f $i x >> o; i=$((i+1)); done; cat o',
    true,
  ],
  [
    'command substitution',
    'n=$(wc -l < a.txt); echo "lines: $((n))"; echo "$(basename $(pwd))" > /dev/null',
    true,
  ],
  ['tar', 'tar -cf t.tar src; mkdir o; tar -xf t.tar -C o; find o | sort; cat o/src/main.ts', true],
  ['names', 'echo 1 > __proto__; echo 2 > "a b"; echo 3 > é; cat __proto__ "a b" é; ls | wc -l', true],
  ['xargs', 'ls *.txt | xargs cat; find . -name "*.ts" | sort | xargs wc -l | tail -n 1', true],
  [
    'diff and patch of contents',
    'cp a.txt n; echo four >> n; diff a.txt n; cmp a.txt n || echo differ',
    false,
  ],
  ['dates and base64', 'base64 a.txt | base64 -d; md5sum a.txt; printf "%03d\\n" 7 | tee k; cat k', true],
]

describe.each(fewStorages)('a session as a file system of just-bash on %s', (name, makeStorage) => {
  let directory: string
  let engine: Engine
  let session: Session

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'just-bash-'))
    engine = await openEngine({ storage: makeStorage(join(directory, 'store')) })
    session = await engine.sessions.create({ files })
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true, force: true })
  })

  const paths = async (): Promise<string[]> => (await session.manifest()).nodes.map(({ path }) => path)
  const read = (path: string): Promise<string> => session.fs.promises.readFile(path, 'utf8')

  /** The files that a file system has below `/w`, in the order of their paths. */
  async function contents(fs: IFileSystem, at = '/w'): Promise<[string, string][]> {
    const found: [string, string][] = []
    for (const entry of (await fs.readdir(at)).toSorted()) {
      const path = `${at}/${entry}`
      const stat = await fs.lstat(path)
      if (stat.isSymbolicLink) found.push([path, `-> ${await fs.readlink(path)}`])
      else if (stat.isDirectory) found.push([path, 'directory'], ...(await contents(fs, path)))
      else found.push([path, entry.endsWith('.tar') ? 'archive' : await fs.readFile(path)])
    }
    return found
  }

  test('gives the same results as InMemoryFs, and as the bash of the host', async () => {
    const results: string[] = []
    for (const [title, script] of scripts) {
      const memory = new InMemoryFs(files)
      const expected = await new Bash({ fs: memory, cwd: '/w' }).exec(script)
      const fork = await session.fork()
      const fs = workspaceFileSystem(fork)
      const { stdout, stderr, exitCode } = await new Bash({ fs, cwd: '/w' }).exec(script)
      const result = { stdout, stderr, exitCode }
      expect(result, title).toEqual({
        stdout: expected.stdout,
        stderr: expected.stderr,
        exitCode: expected.exitCode,
      })
      expect(await contents(fs), title).toEqual(await contents(memory))
      results.push(stdout)
    }
    if (name !== 'memory') return
    const ofHost = await onHost(scripts.map(([, script]) => script))
    const compared = scripts.flatMap(([title, , real], index) => (real ? [[title, index] as const] : []))
    for (const [title, index] of compared)
      expect(results[index]?.replaceAll(/ +/g, ' '), title).toBe(ofHost[index])
  })

  /** The output of each script, in a directory of its own. One process runs all, because starting one takes long. */
  async function onHost(sources: readonly string[]): Promise<string[]> {
    const place = (index: number, path: string): string => join(directory, 'host', String(index), path)
    for (const [index, source] of sources.entries()) {
      for (const [path, text] of Object.entries({ ...files, '/script': source })) {
        await mkdir(dirname(place(index, path)), { recursive: true })
        await writeFile(place(index, path), text)
      }
    }
    const loop = 'for d in */; do (cd "$d/w" && . ../script) > "$d/out" 2> /dev/null < /dev/null; done; true'
    const options = { cwd: join(directory, 'host'), env: { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8' } }
    await run('bash', ['-c', loop], options)
    return Promise.all(
      sources.map(async (_, index) => (await readFile(place(index, 'out'), 'utf8')).replaceAll(/ +/g, ' ')),
    )
  }

  test('keeps the directories of just-bash out of the session', async () => {
    const before = await paths()
    const bash = new Bash({ fs: workspaceFileSystem(session), cwd: '/' })
    expect((await bash.exec('ls /')).stdout).toBe('bin\ndev\nproc\nusr\nw\n')
    expect(Number((await bash.exec('ls /usr/bin | wc -l')).stdout)).toBeGreaterThan(50)
    await bash.exec('echo x > /dev/null; echo y > /usr/bin/own; echo z > /proc/z; mkdir /dev/d')
    expect((await bash.exec('cat /usr/bin/own /proc/z; ls /dev')).stdout).toContain('y\nz\nd\n')
    expect(await paths()).toEqual(before)
    expect((await session.events.list()).events).toHaveLength(1)
  })

  test('shows files of the session below the private ones, and does not change them there', async () => {
    await session.files.write({
      path: '/usr/bin/tool',
      content: '#!/bin/bash\necho tool\n',
      mode: 0o755,
      createParents: true,
    })
    await session.files.write({ path: '/usr/bin/ls', content: 'not the command', createParents: true })
    await session.files.write({ path: '/usr/share/doc', content: 'doc', createParents: true })
    const fs = workspaceFileSystem(session)
    const bash = new Bash({ fs, cwd: '/' })
    expect((await bash.exec('ls /usr; tool; cat /usr/share/doc')).stdout).toBe('bin\nshare\ntool\ndoc')
    expect((await bash.exec('ls /usr/bin')).stdout.split('\n')).toEqual(
      expect.arrayContaining(['tool', 'ls', 'cat']),
    )
    for (const change of [
      () => fs.rm('/usr/bin/tool'),
      () => fs.chmod('/usr/bin/tool', 0o600),
      () => fs.appendFile('/usr/bin/tool', 'x'),
      () => fs.mv('/usr/bin/tool', '/tool'),
    ])
      await expect(change()).rejects.toMatchObject({ code: 'EROFS' })
    await bash.exec('echo shadow > /usr/bin/tool; echo new > /usr/share/new')
    expect(await fs.readFile('/usr/bin/tool')).toBe('shadow\n')
    expect(await read('/usr/bin/tool')).toContain('echo tool')
    expect(await read('/usr/bin/ls')).toBe('not the command')
    expect(await read('/usr/share/new')).toBe('new\n')
  })

  test('copies and moves between the layers, and refuses what cannot be', async () => {
    const fs = workspaceFileSystem(session)
    await fs.cp('/w/src', '/dev/src', { recursive: true })
    expect(await fs.readFile('/dev/src/lib/x.ts')).toBe(files['/w/src/lib/x.ts'])
    await fs.mv('/dev/src', '/w/back')
    expect(await read('/w/back/main.ts')).toBe(files['/w/src/main.ts'])
    expect(await fs.exists('/dev/src')).toBe(false)
    await fs.mv('/w/back', '/proc/back')
    expect(await paths()).not.toContain('/w/back')
    await fs.symlink('/w/a.txt', '/dev/link')
    expect(await fs.readFile('/dev/link')).toBe(files['/w/a.txt'])
    await fs.writeFile('/dev/link', 'through')
    expect(await read('/w/a.txt')).toBe('through')
    await fs.symlink('/dev', '/w/devices')
    await fs.writeFile('/w/devices/made', 'private')
    expect(await fs.readFile('/dev/made')).toBe('private')
    expect(await fs.readdir('/w/devices')).toEqual(['link', 'made'])
    expect(await fs.realpath('/w/devices/made')).toBe('/dev/made')
    await expect(fs.link('/w/b.txt', '/dev/hard')).rejects.toMatchObject({ code: 'EXDEV' })
    for (const path of ['/', '/bin', '/usr', '/usr/bin']) {
      await expect(fs.rm(path, { recursive: true })).rejects.toMatchObject({ code: 'EBUSY' })
      await expect(fs.mv(path, '/w/moved')).rejects.toMatchObject({ code: 'EBUSY' })
    }
    await expect(fs.cp('/w', '/w/src/in', { recursive: true })).rejects.toMatchObject({ code: 'EINVAL' })
    await expect(fs.cp('/w', '/x')).rejects.toMatchObject({ code: 'EISDIR' })
    expect(await fs.readlink('/w/devices')).toBe('/dev')
    expect(await paths()).not.toContain('/dev')
  })

  test('has errors with the codes of node:fs', async () => {
    const fs = workspaceFileSystem(session)
    await fs.symlink('loop', '/w/loop')
    const failing: readonly (readonly [string, () => Promise<unknown>])[] = [
      ['ENOENT', () => fs.readFile('/nope')],
      ['ENOENT', () => fs.readFile('/w/a.txt\0.png')],
      ['ENOENT', () => fs.writeFile('/w/\0', '')],
      ['ENOENT', () => fs.stat('/dev/nope')],
      ['ENOENT', () => fs.rm('/nope')],
      ['ENOENT', () => fs.mv('/nope', '/x')],
      ['ENOENT', () => fs.readdir('/bin/nope')],
      ['EISDIR', () => fs.readFile('/w')],
      ['EISDIR', () => fs.writeFile('/w', '')],
      ['ENOTDIR', () => fs.readdir('/w/a.txt')],
      ['ENOTDIR', () => fs.writeFile('/w/a.txt/b', '')],
      ['ENOTEMPTY', () => fs.rm('/w')],
      ['EEXIST', () => fs.mkdir('/w')],
      ['EEXIST', () => fs.mkdir('/usr')],
      ['EEXIST', () => fs.symlink('x', '/w/a.txt')],
      ['EINVAL', () => fs.readlink('/w/a.txt')],
      ['ELOOP', () => fs.readFile('/w/loop')],
    ]
    for (const [code, call] of failing)
      expect(
        await call().then(
          () => 'no error',
          ({ message }: Error) => message,
        ),
        code,
      ).toMatch(new RegExp(`^${code}: `))
    await fs.rm('/nope', { force: true })
  })

  test('has /tmp in the session, unless it is private', async () => {
    await workspaceFileSystem(session).writeFile('/tmp/a', '1')
    expect(await read('/tmp/a')).toBe('1')
    const fs = workspaceFileSystem(session, { privateTmp: true })
    await new Bash({ fs, cwd: '/tmp' }).exec('echo 2 > b; ls > list')
    expect(await fs.readFile('/tmp/list')).toContain('a\nb\n')
    expect(await paths()).not.toContain('/tmp/b')
  })
})

test('each method works without its object, and keeps bytes', async () => {
  await using engine = await openEngine()
  const session = await engine.sessions.create({ files: { '/a': 'one' } })
  const fs = workspaceFileSystem(session) satisfies IFileSystem
  const write = fs.writeFile.bind(fs)
  const bytes = Uint8Array.from({ length: 256 }, (_, index) => index)
  await write('/bytes', Buffer.from(bytes).toString('latin1'), 'binary')
  expect(new Uint8Array(await fs.readFileBuffer('/bytes'))).toEqual(bytes)
  expect(await fs.readFile('/bytes', 'base64')).toBe(Buffer.from(bytes).toString('base64'))
  await write('/text', '\uFEFFé')
  expect(await fs.readFile('/text', { encoding: 'utf8' })).toBe('\uFEFFé')
  expect(latin1FromBytes((await fs.readFileBytes?.('/text')) ?? EMPTY_BYTES)).toBe(
    '\u00ef\u00bb\u00bf\u00c3\u00a9',
  )
  const mtime = new Date('2020-01-02T03:04:05Z')
  await fs.utimes('/a', mtime, mtime)
  await fs.chmod('/a', 0o640)
  expect(await fs.stat('/a')).toMatchObject({ isFile: true, mode: 0o640, size: 3, mtime })
  expect(fs.getAllPaths()).toEqual(expect.arrayContaining(['/', '/a', '/bytes', '/usr/bin', '/dev']))
  expect(fs.resolvePath('/x', '../../y/./z')).toBe('/y/z')
  expect(() => workspaceFileSystem(undefined as never)).toThrow('must be a session')
})

test('just-bash is an optional peer, which no other entry point loads', async () => {
  const root = join(import.meta.dirname, '../..')
  const { peerDependencies, peerDependenciesMeta } = JSON.parse(
    await readFile(join(root, 'package.json'), 'utf8'),
  ) as Record<string, unknown>
  expect(peerDependencies).toHaveProperty('just-bash')
  expect(peerDependenciesMeta).toHaveProperty('just-bash', { optional: true })
})
