import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync, promises as fs, readdirSync, truncateSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { execPath } from 'node:process'
import { setTimeout as pause } from 'node:timers/promises'
import { gitLimits } from '../../src/adapters/git/limits.js'
import { EngineError, openEngine, type Engine } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import type { SwapperArguments } from '../crash/swap.js'
import { GitRepository } from '../support/git-repository.js'
import type { AttackOptions, AttackResult } from './attacks.js'

const secret = 'content outside the roots'
/** A generous limit: an attempt takes some milliseconds. */
const patienceMs = 20_000

/**
 * Imports from repositories of this host and commits to them while symlinks, FIFOs, sockets, devices and endless files
 * are planted or swapped in at every path of a repository. The symlinks lead to another repository outside the roots,
 * which must not be read or changed.
 */
export async function localRepositories({ n, seed, onProgress }: AttackOptions): Promise<AttackResult> {
  const scratch = await fs.realpath(await fs.mkdtemp(join(tmpdir(), 'attack-git-')))
  const attack = new LocalAttack(scratch, seed, onProgress)
  try {
    return await attack.run(n)
  } finally {
    await fs.rm(scratch, { recursive: true, force: true })
  }
}

/** Creates an entry at a free path. `outside` is the same path in the other repository. */
type Plant = (path: string, outside: string) => unknown

const plants: Readonly<Record<string, Plant>> = {
  'a symlink outside': (path, outside) => fs.symlink(outside, path),
  'a relative symlink outside': (path, outside) => fs.symlink(relative(dirname(path), outside), path),
  'a hard link outside': (path, outside) => fs.link(outside, path).catch(() => fs.symlink(outside, path)),
  'a FIFO': (path) => spawnSync('mkfifo', [path]),
  'a symlink to a FIFO': async (path) => {
    spawnSync('mkfifo', [`${path}.fifo`])
    await fs.symlink(`${path}.fifo`, path)
  },
  'a socket': async (path) => {
    const server = createServer().listen(path)
    await once(server, 'listening')
    // Closing the server would remove the socket.
    server.unref()
  },
  'an endless device': (path) => spawnSync('mknod', [path, 'c', '1', '5']),
  'a terminal': (path) => spawnSync('mknod', [path, 'c', '5', '0']),
  'a symlink to an endless device': (path) => fs.symlink('/dev/zero', path),
  'a symlink to itself': (path) => fs.symlink(path, path),
  'a huge file': async (path) => {
    await fs.writeFile(path, '')
    truncateSync(path, 2 ** 42)
  },
  'an empty file': (path) => fs.writeFile(path, ''),
  'a directory': (path) => fs.mkdir(path),
  'a directory that holds itself': async (path) => {
    await fs.mkdir(path)
    await fs.symlink('.', join(path, 'more'))
  },
}

class LocalAttack {
  readonly #root: string
  readonly #template: string
  readonly #outside: string
  readonly #random: () => number
  readonly #onProgress: (line: string) => void
  readonly #swappers: { readonly child: ChildProcess; readonly exited: Promise<unknown> }[] = []
  readonly #fifos: string[] = []
  #engine!: Engine
  #secretCommit = ''
  #secretIds: readonly string[] = []
  #before = ''
  #tries = 0
  #refused = 0
  #done = 0
  #escapes = 0
  #hangs = 0
  #copies = 0

  constructor(scratch: string, seed: number, onProgress: (line: string) => void) {
    this.#root = join(scratch, 'root')
    this.#template = join(scratch, 'template')
    this.#outside = join(scratch, 'outside')
    this.#random = randomWords(seed)
    this.#onProgress = onProgress
  }

  async run(n: number): Promise<AttackResult> {
    await fs.mkdir(this.#root)
    makeRepository(this.#template, 'inside')
    makeRepository(this.#outside, secret)
    const outside = new GitRepository(this.#outside)
    this.#secretCommit = outside.tip('refs/heads/main')!
    this.#secretIds = outside
      .git(['cat-file', '--batch-check=%(objectname)', '--batch-all-objects'])
      .split('\n')
    this.#before = await this.#lookOutside()
    this.#engine = await openEngine({ hostPaths: { roots: [this.#root] } })
    // A planted file at the path of a lock is never removed. Waiting for it would take most of the run.
    const bounds: { lockWaitMs: number } = gitLimits
    bounds.lockWaitMs = 20
    try {
      await this.#planted(n)
      await this.#lies()
      await this.#swapped(n)
    } finally {
      for (const { child } of this.#swappers) child.kill('SIGKILL')
      await Promise.all(this.#swappers.map(({ exited }) => exited))
      await this.#engine.close()
    }
    const figures = `${this.#tries} tries, ${this.#done} done, ${this.#refused} refused, ${this.#escapes} escapes, ${this.#hangs} hangs`
    // A run in which nothing succeeded, or nothing was rejected, did not attack anything.
    return {
      line: figures,
      failed: this.#escapes > 0 || this.#hangs > 0 || this.#done === 0 || this.#refused === 0,
    }
  }

  /** Tests every kind of planted file at every path, in turn. */
  async #planted(n: number): Promise<void> {
    const places = this.#places()
    const cases = Object.keys(plants).flatMap((what) => places.map((place) => ({ what, place })))
    // A short run takes a sample of them.
    for (let at = cases.length - 1; at > 0; at--) {
      const other = this.#random() % (at + 1)
      ;[cases[at], cases[other]] = [cases[other]!, cases[at]!]
    }
    for (const { what, place } of cases.slice(0, n)) {
      const repository = await this.#copy()
      const path = join(repository, place)
      await fs.rm(path, { recursive: true, force: true })
      await fs.mkdir(dirname(path), { recursive: true })
      await plants[what]!(path, join(this.#outside, place))
      if (what.includes('FIFO')) this.#fifos.push(path)
      await this.#use(repository, `${what} at ${place}`)
      await fs.rm(repository, { recursive: true, force: true })
    }
  }

  /** Tests files that contain paths outside. */
  async #lies(): Promise<void> {
    const git = join(this.#outside, '.git')
    const climb = `${'../'.repeat(20)}${git.slice(1)}`
    const lies: readonly (readonly [place: string, text: string])[] = [
      ['.git/objects/info/alternates', `${join(git, 'objects')}\n`],
      ['.git/objects/info/alternates', `${climb}/objects\n`],
      ['.git/commondir', `${git}\n`],
      ['.git/commondir', `${climb}\n`],
      ['.git/worktrees/linked/commondir', `${git}\n`],
      ['.git/HEAD', `ref: ${climb}/refs/heads/main\n`],
      ['.git/HEAD', `ref: refs/heads/${climb}/refs/heads/main\n`],
      ['.git/refs/heads/main', `ref: refs/heads/../${climb}/refs/heads/main\n`],
      ['.git/packed-refs', `${'0'.repeat(40)} refs/heads/../${climb}\n${'x'.repeat(2 ** 20)}`],
      ['.git/config', `[core]\n\tbare = true\n[include]\n\tpath = ${git}/config\n`],
      ['.git/objects/info/alternates', `${'.\n'.repeat(1000)}../objects/../objects\n/\n`],
    ]
    for (const [place, text] of lies) {
      const repository = await this.#copy()
      await fs.mkdir(dirname(join(repository, place)), { recursive: true })
      await fs.writeFile(join(repository, place), text)
      await this.#use(repository, `a lie in ${place}`)
      const pointer = join(this.#root, 'pointer')
      await fs.mkdir(pointer, { recursive: true })
      await fs.writeFile(join(pointer, '.git'), `gitdir: ${join(repository, '.git/worktrees/linked')}\n`)
      await this.#use(pointer, `a lie in ${place}, by a worktree`)
      await fs.writeFile(join(pointer, '.git'), `gitdir: ${climb}\n`)
      await this.#use(pointer, 'a lie in .git')
      await fs.rm(repository, { recursive: true })
    }
  }

  /** Tests paths that another process swaps for symlinks repeatedly. */
  async #swapped(n: number): Promise<void> {
    const repository = await this.#copy()
    const places = this.#places().map((place) => ({ place, outside: join(this.#outside, place) }))
    const settings: SwapperArguments = { directory: repository, places, seed: this.#random() }
    const child = spawn(execPath, [await swapperScript(), JSON.stringify(settings)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#swappers.push({ child, exited: once(child, 'exit') })
    await once(child.stdout, 'data')
    const until = this.#tries + n
    while (this.#tries < until) {
      await this.#use(repository, 'a swap')
      if (this.#tries % 500 < 8) this.#onProgress(`${this.#tries} tries, ${this.#escapes} escapes`)
    }
  }

  /** Imports, refreshes and commits. */
  async #use(path: string, what: string): Promise<void> {
    const engine = this.#engine
    await this.#try(what, async () => {
      const { sourceId } = await engine.sources.create({ displayName: 'a', gitRepository: { path } })
      await Promise.all(
        ['', 'main', 'v1', this.#secretCommit].map((gitRef) =>
          this.#try(what, async () => {
            const job = await engine.sources.startImport(sourceId, { git: { gitRef } })
            const { revisionId } = await engine.sources.waitForJob(job)
            const session = await engine.sessions.create({ sourceRef: { sourceId, revisionId } })
            const text = await session.fs.promises.readFile('/a.txt', 'utf8')
            if (
              (text.includes(secret) && !what.startsWith('a hard link')) ||
              revisionId === this.#secretCommit
            )
              this.#escaped(what, text)
            await session.fs.promises.writeFile('/a.txt', `${this.#tries}`)
            for (const branchName of ['topic', 'main'])
              await this.#try(what, () => session.commit({ message: 'x', gitBranch: { branchName } }))
          }),
        ),
      )
      await this.#try(what, async () => {
        await engine.sources.waitForJob(await engine.sources.refresh(sourceId, { gitRef: 'main' }))
      })
      await engine.sources.delete(sourceId)
    })
    if ((await this.#lookOutside()) !== this.#before) {
      this.#escaped(what, 'changed')
      this.#before = await this.#lookOutside()
    }
  }

  async #try(what: string, work: () => Promise<unknown>): Promise<void> {
    this.#tries++
    const patience = new AbortController()
    const working = work().then(
      () => void this.#done++,
      (error: unknown) => {
        if (!(error instanceof EngineError)) throw error
        this.#refused++
        // The target of a hard link is inside the repository: it may be read but not changed.
        const text = what.startsWith('a hard link') ? '' : `${error.message} ${JSON.stringify(error.details)}`
        for (const id of this.#secretIds) {
          if (id !== this.#secretCommit && text.includes(id)) this.#escaped(what, text)
        }
      },
    )
    const hung = await Promise.race([
      working.then(() => false),
      pause(patienceMs, true, { signal: patience.signal }).catch(() => false),
    ])
    patience.abort()
    if (!hung) return
    this.#hangs++
    this.#onProgress(`hang: ${what}`)
    // Opening a FIFO releases a call that waits for it.
    for (const fifo of this.#fifos) release(fifo)
    await working
  }

  #escaped(what: string, text: string): void {
    this.#escapes++
    this.#onProgress(`escape: ${what}: ${text.slice(0, 200)}`)
  }

  /** Every path of a repository, including paths that only the other one has. */
  #places(): string[] {
    const places = new Set<string>()
    for (const repository of [this.#template, this.#outside]) {
      const names = readdirSync(join(repository, '.git'), { recursive: true, encoding: 'utf8' })
      for (const name of names) if (!/^(logs|hooks|info|branches|description)/.test(name)) places.add(name)
    }
    for (const name of ['shallow', 'commondir', 'objects/info/alternates', 'refs/heads/topic'])
      places.add(name)
    for (const name of ['refs/heads/main.lock', 'refs/heads/topic.lock', 'objects/pack/multi-pack-index'])
      places.add(name)
    return ['.git', ...[...places].map((name) => `.git/${name}`)]
  }

  async #copy(): Promise<string> {
    const path = join(this.#root, `r${++this.#copies}`)
    await fs.cp(this.#template, path, { recursive: true, verbatimSymlinks: true })
    return path
  }

  /** Names, kinds, sizes, times and contents. */
  async #lookOutside(): Promise<string> {
    const seen: string[] = []
    for (const entry of await fs.readdir(this.#outside, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name)
      const { mode, size, mtimeMs } = await fs.lstat(path)
      const content = entry.isFile() ? await fs.readFile(path, 'latin1') : ''
      seen.push(`${path} ${mode} ${size} ${mtimeMs} ${content}`)
    }
    return seen.sort().join('\n')
  }
}

/** Makes a repository with loose objects, a pack, loose and packed refs, a tag, and a linked worktree. */
function makeRepository(path: string, content: string): void {
  const repository = GitRepository.create(path, { bare: false })
  repository.commitFiles([['100644', 'a.txt', content]])
  repository.git(['tag', 'v1'])
  repository.git(['repack', '-adq'])
  repository.git(['pack-refs', '--all'])
  repository.stage([
    ['100644', 'a.txt', `${content} again`],
    ['100644', 'd/b.txt', content],
  ])
  repository.commit()
  repository.git(['worktree', 'add', '-q', '--detach', '--no-checkout', join(path, 'linked')])
}

function release(fifo: string): void {
  try {
    closeSync(openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK))
  } catch {
    // The file is already gone.
  }
}

async function swapperScript(): Promise<string> {
  if (import.meta.filename.endsWith('.js')) return join(import.meta.dirname, '../crash/swapper.js')
  const { compiledProject } = await import('../support/compile-source.js')
  return join(await compiledProject(), 'test/crash/swapper.js')
}
