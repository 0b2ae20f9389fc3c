/**
 * The main job from end to end, once in memory and once over LevelDB: import a git repository, fork it ten
 * times, change each fork, compare them, undo a mistake, commit the best one, and (LevelDB) find everything
 * again after reopening.
 *
 *   npm start [-- <git url or path>]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEngine, type Engine, type EngineOptions, type ManifestNode, type Session } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { GitRepository, hasGit } from '../test/support/git-repository.js'
import { bold, dim, duration, green, heading, indent, progress, red, step, table } from './support/output.js'
import { prepareRepository, type DemoRepository } from './support/repository.js'

interface Attempt {
  readonly name: string
  readonly fork: Session
  readonly editMs: number
  readonly diffMs: number
  readonly added: number
  readonly removed: number
  readonly modified: number
}

interface Edit {
  readonly name: string
  apply(fork: Session, files: readonly ManifestNode[]): Promise<void>
}

const author = { name: 'Forkspace Demo', email: 'demo@example.org' }

async function main(): Promise<void> {
  if (!hasGit)
    throw new Error('The demonstration needs native git: it makes the repository and reads the result.')
  const directory = mkdtempSync(join(tmpdir(), 'forkspace-demo-'))
  try {
    const repository = await prepareRepository(directory, process.argv[2])
    try {
      console.log(`Remote: ${bold(repository.url)} ${dim(`(${repository.about})`)}`)
      await mainJob('in memory', repository, {})
      const store = join(directory, 'store')
      const sessionIds = await mainJob('over LevelDB, durable', repository, { storage: levelStorage(store) })
      await reopen(store, sessionIds)
    } finally {
      await repository.close()
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
  heading('Three lines to go on with')
  console.log(`   const engine = await openEngine({ storage: levelStorage('./workspaces') })
   const session = await engine.sessions.create({ files: { '/notes.md': '# Notes' } })
   const attempt = await session.fork()
`)
}

interface Remembered {
  readonly sessionId: string
  readonly bestId: string
  readonly manifestHash: string
}

async function mainJob(
  where: string,
  repository: DemoRepository,
  options: EngineOptions,
): Promise<Remembered> {
  heading(`The main job, ${where}`)
  // The remote of the demonstration lives on loopback, which is refused by default.
  const engine = await step('open the engine', () =>
    openEngine({ ...options, git: { allowPrivateAddresses: true } }),
  )
  try {
    const session = await importSession(engine, repository)
    const files = await allFiles(session)
    const attempts = await makeAttempts(session, files)
    table(
      ['fork', 'edit', 'added', 'removed', 'modified', 'edit took', 'diff took'],
      attempts.map((attempt, index) => [
        String(index + 1),
        attempt.name,
        String(attempt.added),
        String(attempt.removed),
        String(attempt.modified),
        duration(attempt.editMs),
        duration(attempt.diffMs),
      ]),
    )
    const best = attempts.toSorted((a, b) => b.modified - a.modified)[0]!
    console.log(`   The best attempt is "${bold(best.name)}": it changes most files.`)
    await breakAndRestore(best.fork)
    const branchName = `demo/${where.split(' ').at(-1)!}`
    const { commitId } = await step(`commit it and push to ${branchName}`, () =>
      best.fork.commit({ message: `Demonstration: ${best.name}`, author, gitBranch: { branchName } }),
    )
    showRemote(repository, branchName, commitId)
    const { manifestHash } = await best.fork.manifest({ pageSize: 1 })
    return { sessionId: session.id, bestId: best.fork.id, manifestHash }
  } finally {
    await step('close the engine', () => engine.close())
  }
}

async function importSession(engine: Engine, { url, branch }: DemoRepository): Promise<Session> {
  const source = await engine.sources.create({
    displayName: 'demo',
    gitRemote: { remoteUrl: url, defaultRef: branch },
  })
  const bar = progress('files imported')
  const job = await step('import the repository over smart HTTP', async () => {
    const queued = await engine.sources.startImport(source.sourceId)
    return engine.sources.waitForJob(queued, {
      onProgress: ({ filesProcessed }) => bar.update(filesProcessed),
    })
  })
  bar.stop()
  console.log(
    `   ${job.filesProcessed} files, ${job.bytesProcessed} bytes received, revision ${job.revisionId.slice(0, 12)}`,
  )
  const sourceRef = { sourceId: source.sourceId, revisionId: job.revisionId }
  return step('open a session on the revision', () =>
    engine.sessions.create({ sourceRef, initialTags: { demo: 'main' } }),
  )
}

async function allFiles(session: Session): Promise<ManifestNode[]> {
  const files: ManifestNode[] = []
  for (let pageToken = ''; ;) {
    const page = await session.manifest({ pageToken })
    files.push(...page.nodes.filter((node) => node.fileType === 'VFS_FILE_TYPE_FILE'))
    if (page.nextPageToken === '') return files
    pageToken = page.nextPageToken
  }
}

async function makeAttempts(session: Session, files: readonly ManifestNode[]): Promise<Attempt[]> {
  const forks = await step(`fork the session ${edits.length} times`, () =>
    Promise.all(edits.map((_, index) => session.fork({ newTags: { attempt: String(index + 1) } }))),
  )
  const attempts: Attempt[] = []
  for (const [index, edit] of edits.entries()) {
    const fork = forks[index]!
    const start = performance.now()
    await edit.apply(fork, files)
    const edited = performance.now()
    const { added, removed, modified } = await fork.diff(session).paths()
    const diffed = performance.now()
    attempts.push({
      name: edit.name,
      fork,
      editMs: edited - start,
      diffMs: diffed - edited,
      added: added.length,
      removed: removed.length,
      modified: modified.length,
    })
  }
  return attempts
}

async function breakAndRestore(fork: Session): Promise<void> {
  await step('checkpoint it', () => fork.checkpoint({ label: 'good' }))
  const { manifestHash: before } = await fork.manifest({ pageSize: 1 })
  await step('break it: remove every directory', async () => {
    for (const entry of await fork.fs.promises.readdir('/'))
      await fork.fs.promises.rm(`/${entry}`, { recursive: true })
  })
  const { nodes } = await fork.manifest({ pageSize: 1 })
  console.log(`   ${nodes.length} paths are left`)
  await step('restore the checkpoint', () => fork.restore({ checkpointLabel: 'good' }))
  const { manifestHash: after } = await fork.manifest({ pageSize: 1 })
  console.log(
    `   the tree is ${after === before ? green('the same again') : red('NOT the same')} (${after.slice(0, 19)}…)`,
  )
}

function showRemote({ path, branch }: DemoRepository, branchName: string, commitId: string): void {
  const git = new GitRepository(path)
  console.log(`   native git on the remote, ${dim(`git log --oneline -3 ${branchName}`)}:`)
  console.log(indent(git.git(['log', '--oneline', '-3', branchName])))
  console.log(`   ${dim(`git diff --stat ${branch} ${branchName}`)}:`)
  console.log(indent(git.git(['diff', '--stat=72,40', '--stat-count=8', branch, branchName])))
  git.fsck()
  console.log(`   git fsck --strict: ${green('clean')}; commit ${commitId.slice(0, 12)}`)
}

async function reopen(store: string, { sessionId, bestId, manifestHash }: Remembered): Promise<void> {
  heading('Reopen the LevelDB directory')
  const engine = await step('open the engine', () => openEngine({ storage: levelStorage(store) }))
  try {
    const { sessions } = await engine.sessions.list()
    const best = await step('open the committed fork', () => engine.sessions.open(bestId))
    const { checkpoints } = await best.listCheckpoints()
    const page = await best.manifest({ pageSize: 1 })
    const changes = await best.diff({ sessionId }).paths()
    const forks = sessions.filter(({ tags }) => tags['attempt'] !== undefined)
    console.log(
      `   ${sessions.length} sessions, ${forks.length} of them forks; checkpoints: ${checkpoints.map(({ label }) => label).join(', ')}`,
    )
    console.log(`   ${changes.modified.length} modified paths against the parent, as before`)
    console.log(`   everything is ${page.manifestHash === manifestHash ? green('there') : red('NOT there')}`)
  } finally {
    await engine.close()
  }
}

const edits: readonly Edit[] = [
  {
    name: 'one word in one file',
    apply: (fork, [first]) => fork.fs.promises.appendFile(first!.path, '\nOne more line.\n'),
  },
  {
    name: 'a header on every file',
    async apply(fork, files) {
      const operations = []
      for (const { path, contentHash } of files) {
        const content = Buffer.concat([
          Buffer.from('// Copyright the shop\n'),
          await fork.files.read({ path }),
        ])
        operations.push({ write: { path, content, expectedHash: contentHash } })
      }
      for (let i = 0; i < operations.length; i += 1000) await fork.files.batch(operations.slice(i, i + 1000))
    },
  },
  {
    name: 'rename a directory',
    apply: async (fork) =>
      fork.files.rename({ sourcePath: await firstDirectory(fork), destinationPath: '/renamed' }),
  },
  {
    name: 'remove a directory',
    apply: async (fork) => fork.fs.promises.rm(await firstDirectory(fork), { recursive: true }),
  },
  {
    name: 'add a package',
    async apply(fork) {
      for (const name of ['index', 'types', 'errors']) {
        await fork.files.write({
          path: `/packages/new/src/${name}.ts`,
          content: `export {}\n`,
          expectedHash: '',
        })
      }
    },
  },
  {
    name: 'make a file executable',
    apply: (fork, [first]) => fork.fs.promises.chmod(first!.path, 0o755),
  },
  {
    name: 'a symlink',
    apply: (fork, [first]) => fork.fs.promises.symlink(first!.path, '/latest'),
  },
  {
    name: 'a file of 8 MiB',
    apply: (fork) =>
      fork.files.write({ path: '/assets/video.bin', content: Buffer.alloc(8 << 20, 'forkspace') }),
  },
  {
    name: 'a log of 1,000 lines',
    async apply(fork) {
      for (let i = 0; i < 1000; i++) await fork.files.append({ path: '/run.log', content: `line ${i}\n` })
    },
  },
  {
    name: 'swap two files',
    async apply(fork, [first, second]) {
      const { promises } = fork.fs
      await promises.rename(first!.path, '/swap')
      await promises.rename(second!.path, first!.path)
      await promises.rename('/swap', second!.path)
    },
  },
]

async function firstDirectory(session: Session): Promise<string> {
  const entries = await session.fs.promises.readdir('/', { withFileTypes: true })
  const directory = entries.find((entry) => entry.isDirectory())
  if (directory === undefined) throw new Error('the repository has no directory')
  return `/${directory.name}`
}

await main()
