import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  promises,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { deflateSync } from 'node:zlib'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createGitAdapter } from '../../src/adapters/git/index.js'
import { FileBytes } from '../../src/adapters/git/local/file-bytes.js'
import { OpenFiles, FileGone, type FilePlace } from '../../src/adapters/git/local/open-files.js'
import { openObjectStore, type ObjectStore } from '../../src/adapters/git/local/object-store.js'
import { RepositoryDirectory } from '../../src/adapters/git/local/repository-directory.js'
import { ByteCache } from '../../src/adapters/git/pack/byte-cache.js'
import { Roots } from '../../src/adapters/host/index.js'
import type { PathChange } from '../../src/engine/ports.js'
import { commitRequest, failure, file, importFrom, sampleLines, useGit } from '../support/git-harness.js'
import { hasGit, type GitRepository } from '../support/git-repository.js'
import { nativeObjects, randomNumbers, versions } from '../support/pack-oracle.js'
import { idOf, type Format } from '../support/raw-pack.js'
import { isLong, seed } from '../support/seed.js'

const formats: readonly Format[] = ['sha1', 'sha256']
const MiB = 2 ** 20
const git = useGit()

function objectDirectories(repositories: readonly GitRepository[]): Promise<RepositoryDirectory[]> {
  const roots = new Roots([git.root])
  return Promise.all(
    repositories.map(async ({ path }) => (await RepositoryDirectory.open(join(path, 'objects'), roots))!),
  )
}

async function withStore<T>(
  repository: GitRepository,
  format: Format,
  work: (store: ObjectStore) => Promise<T>,
  signal = new AbortController().signal,
): Promise<T> {
  const directories = await objectDirectories([repository])
  let store: ObjectStore | undefined
  try {
    store = await openObjectStore(directories, format, signal)
    return await work(store)
  } finally {
    await store?.close()
    await Promise.all(directories.map((directory) => directory.close()))
  }
}

/** Reads every object, with `read` and like an import. Returns the objects that differ. */
async function wrong(store: ObjectStore, native: ReturnType<typeof nativeObjects>): Promise<string[]> {
  const found: string[] = []
  for (const [oid, { type, body }] of native) {
    const object = await store.read(oid)
    if (object.type !== type || !body.equals(object.body)) found.push(`read ${oid}`)
    const pieces = await store.readBlob(oid)
    const isLarge = type === 'blob' && body.length > 4 * MiB
    if ((pieces !== undefined) !== isLarge) found.push(`pieces of ${oid}`)
    const again = pieces === undefined ? (await store.read(oid)).body : await collect(pieces)
    if (!body.equals(again)) found.push(`readBlob ${oid}`)
    if (!(await store.has(oid))) found.push(`has ${oid}`)
  }
  return found
}

async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const piece of pieces) parts.push(piece)
  return Buffer.concat(parts)
}

/** Commits versions of some files, one commit each. */
function grow(repository: GitRepository, commits: number): void {
  const random = randomNumbers(seed)
  const files = Array.from({ length: 4 }, () => versions(random, commits, 80))
  repository.commitSeries(
    Array.from({ length: commits }, (_, at) =>
      files.map((texts, index) => ['100644', `d${index}/f`, texts[at]!] as const),
    ),
  )
}

function packFiles(repository: GitRepository, ending: string): string[] {
  const directory = join(repository.path, 'objects/pack')
  return readdirSync(directory)
    .filter((name) => name.endsWith(ending))
    .map((name) => join(directory, name))
}

const formatsOfRead = isLong ? formats : formats.slice(0, 1)

describe.runIf(hasGit).each(formatsOfRead)(
  `objects of a directory, %s (FORKSPACE_SEED=${seed})`,
  (format) => {
    test.each([
      ['loose', () => {}],
      ['packed', (repository: GitRepository) => void repository.git(['repack', '-adq'])],
      [
        'in long chains of deltas',
        (repository: GitRepository) =>
          void repository.git(['repack', '-adfq', '--depth=4095', '--window=50']),
      ],
      [
        'packed with deltas by id',
        (repository: GitRepository) => {
          repository.git(['config', 'repack.useDeltaBaseOffset', 'false'])
          repository.git(['repack', '-adfq'])
        },
      ],
      [
        'at offsets beyond 2 GiB, as stated in the index',
        (repository: GitRepository) => {
          repository.git(['repack', '-adq'])
          const [pack] = packFiles(repository, '.pack')
          rmSync(pack!.replace(/pack$/, 'idx'))
          repository.git(['index-pack', '--index-version=2,0x40', pack!])
        },
      ],
      [
        'in many packs with a multi-pack index, and loose',
        (repository: GitRepository) => {
          repository.git(['repack', '-dq'])
          grow(repository, 2)
          repository.git(['repack', '-dq'])
          repository.git(['multi-pack-index', 'write'])
          grow(repository, 3)
        },
      ],
    ])('%s', async (_, arrange) => {
      const repository = git.newRepository({ format })
      repository.git(['config', 'gc.auto', '0'])
      repository.git(['config', 'fastimport.unpackLimit', '1000'])
      grow(repository, 12)
      repository.git(['tag', '-a', 'v1', '-m', 'a tag', 'main'])
      repository.blob('')
      arrange(repository)
      const native = nativeObjects(repository)
      expect(await withStore(repository, format, (store) => wrong(store, native))).toEqual([])
    })

    test.runIf(isLong)('that are large: loose, packed, and as deltas', async () => {
      const repository = git.newRepository({ format })
      const random = randomNumbers(seed)
      const noise = Buffer.alloc(4 * MiB + 4)
      for (let at = 0; at < noise.length; at += 4) noise.writeUInt32LE(random() * 2 ** 32, at)
      repository.stage([
        ['100644', 'noise', noise],
        ['100644', 'noise2', Buffer.concat([noise, Buffer.from('!')])],
        ['100644', 'limit', noise.subarray(0, 4 * MiB)],
        ['100644', 'zeros', Buffer.alloc(5 * MiB)],
      ])
      repository.commit()
      const native = nativeObjects(repository)
      for (const arrange of [['status'], ['repack', '-adq', '--window=0'], ['repack', '-adfq']]) {
        if (arrange[0] === 'repack') repository.git(arrange)
        expect(await withStore(repository, format, (store) => wrong(store, native))).toEqual([])
      }
    })

    test('in another directory, or missing', async () => {
      const repository = git.newRepository({ format })
      grow(repository, 2)
      repository.git(['repack', '-adq'])
      const empty = git.newRepository({ format })
      const directories = await objectDirectories([empty, repository])
      const store = await openObjectStore(directories, format, new AbortController().signal)
      expect(await wrong(store, nativeObjects(repository))).toEqual([])
      const nowhere = 'e'.repeat(format === 'sha1' ? 40 : 64)
      expect(await store.has(nowhere)).toBe(false)
      for (const read of [() => store.read(nowhere), () => store.readBlob(nowhere)]) {
        expect(await failure(read())).toMatchObject({ reason: 'GIT_CORRUPT', details: { objectId: nowhere } })
      }
      await store.close()
      await Promise.all(directories.map((directory) => directory.close()))
    })

    test('that git repacks meanwhile', async () => {
      const repository = git.newRepository({ format })
      repository.git(['config', 'fastimport.unpackLimit', '1000'])
      grow(repository, 3)
      await withStore(repository, format, async (store) => {
        const native = nativeObjects(repository)
        const [first] = native.keys()
        await store.read(first!)
        repository.git(['repack', '-adq'])
        repository.git(['prune-packed'])
        expect(await wrong(store, native)).toEqual([])
        grow(repository, 5)
        repository.git(['repack', '-adfq'])
        repository.git(['gc', '-q', '--prune=now'])
        expect(await wrong(store, nativeObjects(repository))).toEqual([])
      })
    })

    test('in more packs than stay open, repacked meanwhile', async () => {
      const repository = git.newRepository({ format })
      const texts = Array.from({ length: 80 }, (_, index) => `blob ${index}`)
      // Each checkpoint ends a pack.
      const input = texts.map((text) => `blob\ndata ${text.length}\n${text}\ncheckpoint\n`).join('')
      repository.git(['-c', 'fastimport.unpackLimit=0', 'fast-import', '--quiet'], { input })
      expect(packFiles(repository, '.pack')).toHaveLength(80)
      const oids = texts.map((text) => idOf('blob', Buffer.from(text), format))
      await withStore(repository, format, async (store) => {
        expect(await wrong(store, nativeObjects(repository))).toEqual([])
        const before = packFiles(repository, '')
        const all = `${oids.join('\n')}\n`
        const name = repository.git(['pack-objects', '-q', 'objects/pack/pack'], { input: all })
        for (const path of before) rmSync(path)
        expect(packFiles(repository, '.pack').map((path) => path.includes(name))).toEqual([true])
        expect(await wrong(store, nativeObjects(repository))).toEqual([])
      })
    })

    test('that are damaged', async () => {
      const repository = git.newRepository({ format })
      grow(repository, 3)
      const loose = repository.blob('a loose object\n')
      repository.git(['repack', '-adq'])
      const sound = [...nativeObjects(repository).keys()].filter((oid) => oid !== loose)
      const paths = [...packFiles(repository, '.pack'), ...packFiles(repository, '.idx')]
      const path = join(repository.path, 'objects', loose.slice(0, 2), loose.slice(2))
      const numbers = randomNumbers(seed)
      for (const damagedPath of [...paths, path]) {
        const original = readFileSync(damagedPath)
        chmodSync(damagedPath, 0o644)
        for (let round = 0; round < (isLong ? 25 : 8); round++) {
          const damaged = Buffer.from(original)
          damaged[Math.floor(numbers() * damaged.length)]! ^= 1 << Math.floor(numbers() * 8)
          const cut = damaged.subarray(0, Math.floor(numbers() * damaged.length))
          for (const content of [damaged, cut, Buffer.alloc(0)]) {
            writeFileSync(damagedPath, content)
            const outcome = await withStore(repository, format, async (store) => {
              for (const oid of [...sound, loose]) await store.read(oid)
              return 'sound'
            }).catch((error: unknown) => (error as { reason?: string }).reason)
            // The padding bits of a compressed stream have no meaning.
            const mustFail = content.length === 0
            const possible = ['GIT_CORRUPT', 'GIT_TOO_LARGE', 'GIT_REMOTE_ERROR']
            expect(mustFail ? possible : [...possible, 'sound']).toContain(outcome)
          }
        }
        writeFileSync(damagedPath, original)
      }
      const all = (store: ObjectStore): Promise<string[]> => wrong(store, nativeObjects(repository))
      expect(await withStore(repository, format, all)).toEqual([])
    })

    test('that are loose with wrong headers', async () => {
      const repository = git.newRepository({ format })
      const put = (oid: string, content: Buffer): void => {
        mkdirSync(join(repository.path, 'objects', oid.slice(0, 2)), { recursive: true })
        writeFileSync(join(repository.path, 'objects', oid.slice(0, 2), oid.slice(2)), content)
      }
      const oid = idOf('blob', Buffer.from('x'), format)
      const bomb = deflateSync(Buffer.concat([Buffer.from('blob 10\0'), Buffer.alloc(30 * MiB)]))
      const cases = [
        deflateSync(Buffer.from('blob 1\0y')),
        deflateSync(Buffer.from('tree 1\0x')),
        deflateSync(Buffer.from('blob 2\0x')),
        deflateSync(Buffer.from('blob 1\0xx')),
        deflateSync(Buffer.from('blob 01\0x')),
        deflateSync(Buffer.from('blob -1\0x')),
        deflateSync(Buffer.from('thing 1\0x')),
        deflateSync(Buffer.from('blob 1 x')),
        deflateSync(Buffer.from('')),
        deflateSync(Buffer.from('blob 1\0x')).subarray(0, -1),
        Buffer.from('blob 1\0x'),
        bomb,
      ]
      for (const content of cases) {
        put(oid, content)
        const error = await failure(withStore(repository, format, (store) => store.read(oid)))
        expect(error.reason).toBe('GIT_CORRUPT')
      }
      put(oid, deflateSync(Buffer.from(`tree ${2 ** 40}\0${'x'.repeat(5 * MiB)}`)))
      expect((await failure(withStore(repository, format, (store) => store.read(oid)))).reason).toBe(
        'GIT_TOO_LARGE',
      )
      const lying = Buffer.concat([Buffer.from(`blob ${5 * MiB}\0`), Buffer.alloc(5 * MiB)])
      put(oid, deflateSync(lying))
      const error = await withStore(repository, format, async (store) => {
        const pieces = await store.readBlob(oid)
        return failure(collect(pieces!))
      })
      expect(error.reason).toBe('GIT_CORRUPT')
    })

    test('for a reader that has aborted', async () => {
      const repository = git.newRepository({ format })
      const oid = repository.blob('x')
      const control = new AbortController()
      const read = withStore(
        repository,
        format,
        (store) => {
          control.abort('enough')
          return store.read(oid)
        },
        control.signal,
      )
      await expect(read).rejects.toBe('enough')
    })
  },
)

describe.runIf(hasGit).each(formats)('a repository of this host, %s', (format) => {
  const options = { hostPathRoots: [git.root] }

  test.each([
    ['few changes', [file('dir/b.txt', 'new'), file('big', Buffer.alloc(MiB, 'x'))], 0],
    ['many changes', Array.from({ length: 150 }, (_, index) => file(`many/f${index}`, `${index}\n`)), 1],
    ['a large file', [file('large', Buffer.alloc(6 * MiB, 'x')), file('__proto__', 'x')], 1],
  ] as const)('receives %s in a form that git accepts', async (_, changes: readonly PathChange[], packs) => {
    const repository = git.sampleRepository({ format })
    const remote = { repositoryPath: repository.path }
    const base = await importFrom(remote, '', options)
    expect(base.lines).toEqual(sampleLines)
    const push = { remote, branchName: 'main', expectedTip: base.commitId }
    const { committer } = createGitAdapter(options)
    const { commitId } = await committer.commit(commitRequest(base, changes, { push }))
    expect(repository.tip('refs/heads/main')).toBe(commitId)
    repository.fsck()
    expect(repository.changes(base.commitId, commitId)).toHaveLength(changes.length)
    const indexes = packFiles(repository, '.idx')
    expect(indexes).toHaveLength(packs)
    for (const index of indexes) {
      const again = join(repository.path, 'again.idx')
      repository.git(['index-pack', '--strict', '-o', again, index.replace(/idx$/, 'pack')])
      expect(readFileSync(again).equals(readFileSync(index))).toBe(true)
      rmSync(again)
    }
    expect(readdirSync(join(repository.path, 'objects')).filter((name) => name.startsWith('tmp'))).toEqual([])
    repository.git(['gc', '-q'])
    repository.git(['pack-refs', '--all'])
    const after = await importFrom(remote, 'main', options)
    expect(after.commitId).toBe(commitId)
    expect(after.lines.length).toBeGreaterThanOrEqual(base.lines.length)
  })

  test('reads large files, loose and packed', async () => {
    const repository = git.newRepository({ format })
    const body = Buffer.alloc(6 * MiB, 'some text ')
    repository.stage([['100644', 'large', body]])
    repository.commit()
    for (const arrange of [['status'], ['repack', '-adq']]) {
      if (arrange[0] === 'repack') repository.git(arrange)
      const { objects, lines, progress } = await importFrom({ repositoryPath: repository.path }, '', options)
      expect(lines).toHaveLength(1)
      expect(Buffer.from(objects.stored.get(idOf('blob', body, format))!.body).equals(body)).toBe(true)
      expect(progress.bytesTransferred).toBeGreaterThan(body.length)
    }
  })
})

/** Lists the files that this process syncs and renames, by name, until the test ends. */
async function notedSteps(): Promise<readonly string[]> {
  const steps: string[] = []
  const probe = await open(git.root)
  const files = Object.getPrototypeOf(probe) as FileHandle
  await probe.close()
  const syncFile: (this: FileHandle) => Promise<void> = Reflect.get(files, 'sync')
  vi.spyOn(files, 'sync').mockImplementation(function (this: FileHandle) {
    steps.push(`sync ${basename(readlinkSync(`/proc/self/fd/${this.fd}`))}`)
    return syncFile.call(this)
  })
  const { rename } = promises
  vi.spyOn(promises, 'rename').mockImplementation((from, to) => {
    steps.push(`rename ${basename(String(from))} ${basename(String(to))}`)
    return rename(from, to)
  })
  onTestFinished(() => void vi.restoreAllMocks())
  return steps
}

test.runIf(hasGit).each([
  ['loose objects', 1, /^[0-9a-f]{38}$/],
  ['a pack', 150, /\.(pack|idx)$/],
] as const)(
  'a push syncs each file before its rename, and writes the pack, its index and then the ref: %s',
  async (_, count, objectName) => {
    const repository = git.sampleRepository()
    const remote = { repositoryPath: repository.path }
    const options = { hostPathRoots: [git.root] }
    const base = await importFrom(remote, '', options)
    const push = { remote, branchName: 'new', expectedTip: null }
    const changes = Array.from({ length: count }, (_value, at) => file(`many/${at}`, `${at}`))
    const steps = await notedSteps()
    await createGitAdapter(options).committer.commit(commitRequest(base, changes, { push }))
    const renames = steps.filter((step) => step.startsWith('rename '))
    const renamed = renames.map((step) => step.split(' ')[2]!)
    expect(renamed.pop()).toBe('new')
    expect(renamed.filter((name) => !objectName.test(name))).toEqual([])
    expect(renamed.length).toBeGreaterThan(1)
    expect(renamed.findIndex((name) => name.endsWith('.idx'))).toBe(count === 1 ? -1 : 1)
    expect(steps).toEqual(renames.flatMap((step) => [`sync ${step.split(' ')[1]!}`, step]))
  },
)

test.runIf(hasGit)('an object that cannot be renamed leaves no file behind', async () => {
  const repository = git.sampleRepository()
  const remote = { repositoryPath: repository.path }
  const options = { hostPathRoots: [git.root] }
  const base = await importFrom(remote, '', options)
  const oid = idOf('blob', Buffer.from('y'))
  const directory = join(repository.path, 'objects', oid.slice(0, 2))
  mkdirSync(join(directory, oid.slice(2)), { recursive: true })
  const push = { remote, branchName: 'new', expectedTip: null }
  const request = commitRequest(base, [file('x', 'y')], { push })
  expect((await failure(createGitAdapter(options).committer.commit(request))).reason).toBe('GIT_REMOTE_ERROR')
  expect(readdirSync(directory)).toEqual([oid.slice(2)])
  expect(repository.tip('refs/heads/new')).toBeUndefined()
})

test.runIf(hasGit)('only one of several concurrent pushes to a local branch succeeds', async () => {
  const repository = git.sampleRepository()
  const remote = { repositoryPath: repository.path }
  const options = { hostPathRoots: [git.root] }
  const base = await importFrom(remote, '', options)
  const push = { remote, branchName: 'main', expectedTip: base.commitId }
  const results = await Promise.allSettled(
    ['1', '2', '3', '4'].map((text) =>
      createGitAdapter(options).committer.commit(commitRequest(base, [file('x', text)], { push })),
    ),
  )
  const refused = {
    status: 'rejected',
    reason: expect.objectContaining({ reason: 'BRANCH_MOVED' }) as unknown,
  }
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(results.filter(({ status }) => status === 'rejected')).toEqual([refused, refused, refused])
})

test.runIf(hasGit)('rejects a branch above or below another one, also if that is packed', async () => {
  const repository = git.sampleRepository({ bare: true })
  repository.git(['branch', 'topic/a'])
  const options = { hostPathRoots: [git.root] }
  const remote = { repositoryPath: repository.path }
  const base = await importFrom(remote, '', options)
  for (const isPacked of [false, true]) {
    if (isPacked) repository.git(['pack-refs', '--all'])
    for (const [branchName, other] of [
      ['topic', 'topic/a'],
      ['topic/a/b', 'topic/a'],
    ]) {
      const push = { remote, branchName: branchName!, expectedTip: null }
      const request = commitRequest(base, [file('x', 'y')], { push })
      const error = await failure(createGitAdapter(options).committer.commit(request))
      expect([error.reason, error.message]).toEqual([
        'GIT_PUSH_REJECTED',
        expect.stringContaining(`refs/heads/${branchName} conflicts with refs/heads/${other}`),
      ])
    }
    // A name that only begins the same is free.
    const push = { remote, branchName: `topic-${isPacked}`, expectedTip: null }
    await createGitAdapter(options).committer.commit(commitRequest(base, [file('x', 'y')], { push }))
  }
})

test.runIf(hasGit)('rejects pushing a commit to a repository of the other object format', async () => {
  const source = git.sampleRepository()
  const target = git.newRepository({ format: 'sha256' })
  const options = { hostPathRoots: [git.root] }
  const base = await importFrom({ repositoryPath: source.path }, '', options)
  const push = { remote: { repositoryPath: target.path }, branchName: 'main', expectedTip: null }
  const request = commitRequest(base, [file('x', 'y')], { push })
  expect((await failure(createGitAdapter(options).committer.commit(request))).reason).toBe(
    'GIT_PUSH_REJECTED',
  )
})

describe('files kept open for later reads', () => {
  /** A file in its own directory, and the handles on it so far. */
  function place(content = 'content'): FilePlace & { readonly path: string; readonly handles: FileHandle[] } {
    const path = join(mkdtempSync(join(git.root, 'open-')), 'file')
    writeFileSync(path, content)
    const handles: FileHandle[] = []
    return {
      key: path,
      path,
      handles,
      async open() {
        const handle = await open(path)
        handles.push(handle)
        return handle
      },
    }
  }

  const areOpen = ({ handles }: { readonly handles: readonly FileHandle[] }): boolean[] =>
    handles.map(({ fd }) => fd >= 0)

  const readOf = (handle: FileHandle): Promise<string> => handle.readFile('utf8')

  /** A use that continues until it is ended; resolves when it has begun. */
  async function begin(
    files: OpenFiles,
    of: FilePlace,
  ): Promise<{ readonly handle: FileHandle; end(error?: Error): Promise<void> }> {
    let stop!: (error: Error | undefined) => void
    let ended!: Promise<void>
    const handle = await new Promise<FileHandle>((begun) => {
      ended = files.use(of, async (file) => {
        begun(file.handle)
        const error = await new Promise<Error | undefined>((resolve) => (stop = resolve))
        if (error !== undefined) throw error
      })
    })
    return {
      handle,
      end(error) {
        stop(error)
        return ended
      },
    }
  }

  test('are opened once and closed in order of last use when others are needed', async () => {
    const files = new OpenFiles(2)
    const [one, two, three] = [place('1'), place('2'), place('3')]
    for (const of of [one, two, one, three])
      expect(await files.use(of, ({ stat }) => Promise.resolve(stat.size))).toBe(1)
    expect([one, two, three].map(areOpen)).toEqual([[true], [false], [true]])
    await files.close()
    expect([one, two, three].map(areOpen)).toEqual([[false], [false], [false]])
  })

  test('are not closed while in use, even above the limit', async () => {
    const files = new OpenFiles(1)
    const [one, two, three] = [place('1'), place('2'), place('3')]
    const first = await begin(files, one)
    const second = await begin(files, two)
    const again = await begin(files, one)
    await files.use(three, () => Promise.resolve())
    await again.end()
    expect([one, two, three].map(areOpen)).toEqual([[true], [true], [false]])
    expect([await readOf(first.handle), await readOf(second.handle)]).toEqual(['1', '2'])
    await first.end()
    expect([one, two].map(areOpen)).toEqual([[false], [true]])
    await second.end()
    expect(areOpen(two)).toEqual([true])
    await files.close()
    expect(areOpen(two)).toEqual([false])
  })

  test('are reopened after they are gone, and closed by their last user', async () => {
    const files = new OpenFiles(10)
    const one = place('1')
    const first = await begin(files, one)
    const second = await begin(files, one)
    await expect(first.end(new FileGone())).rejects.toThrow('repacked')
    const third = await begin(files, one)
    expect([areOpen(one), await readOf(second.handle)]).toEqual([[true, true], '1'])
    await expect(second.end(new FileGone())).rejects.toThrow('repacked')
    expect([areOpen(one), await readOf(third.handle)]).toEqual([[false, true], '1'])
    await third.end()
    expect(areOpen(one)).toEqual([false, true])
    await files.close()
    expect(areOpen(one)).toEqual([false, false])
  })

  test('are also closed if their use fails for another reason', async () => {
    const files = new OpenFiles(10)
    const one = place('1')
    await expect((await begin(files, one)).end(new Error('other'))).rejects.toThrow('other')
    expect(await files.use(one, ({ handle }) => readOf(handle))).toBe('1')
    expect(areOpen(one)).toEqual([true])
    await files.close()
    expect(areOpen(one)).toEqual([false])
  })

  const content = '0123456789'.repeat(50_000)

  test.each<readonly [string, (path: string) => void]>([
    ['another file of the same size and time', (path) => writeFileSync(path, content)],
    ['a longer one', (path) => writeFileSync(path, `${content}0`)],
    ['a truncated one', (path) => writeFileSync(path, content.slice(1))],
  ])('are detected as replaced by %s', async (name, replace) => {
    const of = place(content)
    utimesSync(of.path, 1000, 1000)
    // No file stays open.
    const bytes = await FileBytes.open(of, new OpenFiles(0), new ByteCache(1))
    expect((await bytes.at(10, 5)).toString()).toBe('01234')
    if (name.startsWith('another')) renameSync(of.path, `${of.path}.old`)
    replace(of.path)
    utimesSync(of.path, 1000, 1000)
    for (const [offset, length] of [
      [200_000, 5],
      [10, 300_000],
    ] as const)
      await expect(bytes.at(offset, length)).rejects.toThrow(FileGone)
  })

  test('are detected as rewritten with the same size', async () => {
    const of = place(content)
    const bytes = await FileBytes.open(of, new OpenFiles(0), new ByteCache(1))
    writeFileSync(of.path, content)
    utimesSync(of.path, 1, 1)
    await expect(bytes.at(0, 5)).rejects.toThrow(FileGone)
  })

  test('are detected as truncated while open', async () => {
    const of = place(content)
    const files = new OpenFiles(1)
    const bytes = await FileBytes.open(of, files, new ByteCache(1))
    truncateSync(of.path, 300_000)
    expect((await bytes.at(10, 5)).toString()).toBe('01234')
    expect(await bytes.at(0, 300_000)).toHaveLength(300_000)
    for (const [offset, length] of [
      [299_999, 2],
      [400_000, 5],
      [0, 300_001],
    ] as const)
      await expect(bytes.at(offset, length)).rejects.toThrow(FileGone)
    await files.close()
  })
})
