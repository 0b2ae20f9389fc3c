import { execFile } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openEngine, type Checkout, type Session } from 'forkspace'
import { GitRepository, hasGit } from '../../test/support/git-repository.js'
import { expect, race, type Contestant } from '../support/measure.js'
import { projectPaths, sourceText } from '../support/project-files.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const run = promisify(execFile)
const changedFiles = 10

/** Directories of the host with the files of a session, compared with `git worktree add` and `cp -r`. */
export const checkouts: Scenario = {
  name: 'checkouts',
  title: `Checkouts: the files of a session in a directory, and ${changedFiles} changes in both directions`,
  clock: 'wall',
  async *run(context) {
    for (const size of context.files) yield* checkoutsOf(context, size)
  },
}

async function* checkoutsOf(context: Context, size: number): AsyncGenerator<Row> {
  const directory = join(context.directory, `of-${size}`)
  await mkdir(directory)
  const paths = projectPaths(size)
  const files = Object.fromEntries(paths.map((path, index) => [path, sourceText(index)]))
  await using engine = await openEngine({ hostPaths: { roots: [directory] } })
  const session = await engine.sessions.create({ files })
  const changes = new Changes(session, paths)

  yield* firstCheckouts(context, { size, directory, session, files })
  const checkout = await session.checkout(join(directory, 'kept'))
  yield await onlyOurs(context, `update after ${changedFiles} changes, ${size} files`, {
    count: 1,
    prepare: () => changes.inSession(),
    run: async () => {
      const { written } = await checkout.update()
      expect(written === changedFiles, `the update wrote ${written} files`)
    },
  })
  yield await onlyOurs(context, `sync after ${changedFiles} changes, ${size} files`, {
    count: 1,
    prepare: () => changes.onDisk(checkout),
    run: async () => {
      const { modified } = await checkout.sync()
      expect(modified.length === changedFiles, `the sync found ${modified.length} files`)
    },
  })
}

interface Tree {
  readonly size: number
  readonly directory: string
  readonly session: Session
  readonly files: Readonly<Record<string, string>>
}

async function* firstCheckouts(
  context: Context,
  { size, directory, session, files }: Tree,
): AsyncGenerator<Row> {
  const [path = '', content = ''] = Object.entries(files)[0] ?? []
  const into = (name: string, write: (target: string) => Promise<unknown>): Contestant => {
    const target = join(directory, name)
    return {
      count: 1,
      prepare: () => rm(target, { recursive: true, force: true }),
      run: async () => {
        await write(target)
        expect((await readFile(join(target, path), 'utf8')) === content, `${name} has another content`)
      },
    }
  }
  const original = join(directory, 'original')
  await session.checkout(original)
  const contestants: Record<string, Contestant> = {
    ours: into('ours', (target) => session.checkout(target)),
    'cp -r': into('copy', (target) => run('cp', ['-r', original, target])),
  }
  if (hasGit) {
    const repository = GitRepository.create(join(directory, 'repository.git'))
    repository.commitFiles(Object.entries(files).map(([name, text]) => ['100644', name.slice(1), text]))
    repository.git(['repack', '-adq'])
    const git = (...words: string[]) => run('git', ['-C', join(directory, 'repository.git'), ...words])
    contestants['git worktree add'] = into('worktree', async (target) => {
      await git('worktree', 'prune')
      await git('worktree', 'add', '--detach', '--quiet', target, 'main')
    })
  }
  const { ours, ...peers } = await race(contestants, { rounds: context.rounds })
  for (const [name, timing] of Object.entries(peers))
    yield timingRow({
      what: `first checkout, ${size} files`,
      ours: ours!,
      peer: { name, timing },
      clock: 'wall',
    })
}

async function onlyOurs(context: Context, what: string, contestant: Contestant): Promise<Row> {
  const { ours } = await race({ ours: contestant }, { rounds: context.rounds })
  return timingRow({ what, ours, clock: 'wall' })
}

/** Changes of the same files, each time with another content. */
class Changes {
  readonly #session: Session
  readonly #paths: readonly string[]
  #number = 0

  constructor(session: Session, paths: readonly string[]) {
    this.#session = session
    const step = Math.floor(paths.length / changedFiles)
    this.#paths = paths.filter((_path, index) => index % step === 0).slice(0, changedFiles)
  }

  async inSession(): Promise<void> {
    const content = this.#next()
    for (const path of this.#paths) await this.#session.files.write({ path, content })
  }

  async onDisk({ directory }: Checkout): Promise<void> {
    const content = this.#next()
    for (const path of this.#paths) await writeFile(join(directory, path), content)
  }

  #next(): string {
    return `change ${++this.#number}\n`
  }
}
