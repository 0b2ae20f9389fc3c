/**
 * The main job from end to end, once in memory and once on disk. It imports a git repository, forks it ten times,
 * changes and compares the forks, undoes a mistake and commits the best fork. On disk, it then reopens the store and
 * checks that everything is still there.
 *
 *   npm start [-- <git url or path>]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEngine, type Engine, type EngineOptions, type ManifestNode, type Session } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { GitRepository, hasGit } from '../test/support/git-repository.js'
import {
  bold,
  count,
  counter,
  dim,
  duration,
  green,
  heading,
  indent,
  red,
  size,
  step,
  table,
} from './support/output.js'
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
    throw new Error('the demonstration needs native git to create the repository and read the result')
  const directory = mkdtempSync(join(tmpdir(), 'forkspace-demo-'))
  process.once('exit', () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }))
  process.once('SIGINT', () => process.exit(130))
  process.once('SIGTERM', () => process.exit(143))
  const repository = await prepareRepository(directory, process.argv[2])
  try {
    console.log(`Remote: ${bold(repository.url)} ${dim(`(${repository.about})`)}`)
    if (repository.branch === undefined)
      console.log('The repository is empty, so the job starts without files.')
    await mainJob('in memory', repository, {})
    const store = join(directory, 'store')
    const remembered = await mainJob('over LevelDB, durable', repository, { storage: levelStorage(store) })
    await reopen(store, remembered)
  } finally {
    await repository.close()
  }
  heading('Three lines to start with')
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
  // The remote of the demonstration is on loopback, which the engine refuses by default.
  const engine = await step('open the engine', () =>
    openEngine({ ...options, git: { allowPrivateAddresses: true } }),
  )
  try {
    const session = await importSession(engine, repository)
    const files = await allFiles(session)
    const attempts = await makeAttempts(session, files)
    table(
      ['fork', 'added', 'removed', 'changed', 'edit', 'diff'],
      attempts.map((attempt) => [
        attempt.name,
        String(attempt.added),
        String(attempt.removed),
        String(attempt.modified),
        duration(attempt.editMs),
        duration(attempt.diffMs),
      ]),
    )
    const best = attempts.toSorted((a, b) => b.modified - a.modified || b.added - a.added)[0]!
    console.log(`   The attempt with the most changes is "${bold(best.name)}".`)
    await breakAndRestore(best.fork)
    const branchName = `forkspace-demo/${where.split(' ').at(-1)!}`
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

async function importSession(engine: Engine, { url, branch = '' }: DemoRepository): Promise<Session> {
  const source = await engine.sources.create({
    displayName: 'demo',
    gitRemote: { remoteUrl: url, defaultRef: branch },
  })
  const received = (job: { filesProcessed: number; bytesTransferred: number }): string =>
    `${count(job.filesProcessed, 'file')}, ${size(job.bytesTransferred)} received`
  const job = await step('import the repository over smart HTTP', async () => {
    const line = counter('waiting for the remote')
    try {
      const queued = await engine.sources.startImport(source.sourceId)
      return await engine.sources.waitForJob(queued, { onProgress: (job) => line.update(received(job)) })
    } finally {
      line.stop()
    }
  })
  console.log(`   ${received(job)}, revision ${job.revisionId.slice(0, 12)}`)
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
  await step('checkpoint it', () => fork.checkpoint({ checkpointLabel: 'good' }))
  const { manifestHash: before } = await fork.manifest({ pageSize: 1 })
  await step('break it: remove everything', async () => {
    for (const entry of await fork.fs.promises.readdir('/'))
      await fork.fs.promises.rm(`/${entry}`, { recursive: true })
  })
  const { nodes } = await fork.manifest({ pageSize: 1 })
  console.log(`   ${count(nodes.length, 'path')} left`)
  await step('restore the checkpoint', () => fork.restore({ checkpointLabel: 'good' }))
  const { manifestHash: after } = await fork.manifest({ pageSize: 1 })
  console.log(
    `   the tree is ${after === before ? green('the same again') : red('NOT the same')} (${after.slice(0, 19)}…)`,
  )
}

function showRemote({ path, branch, sound }: DemoRepository, branchName: string, commitId: string): void {
  const git = new GitRepository(path)
  // Reads bytes, because `git` would trim the spaces that align the first line.
  const output = (args: readonly string[]): string => indent(git.gitBytes(args).toString('utf8'))
  const ref = `refs/heads/${branchName}`
  console.log(`   native git on the remote, ${dim(`git log --oneline -3 ${branchName}`)}:`)
  console.log(output(['log', '--oneline', '-3', ref, '--']))
  const base =
    branch === undefined ? git.git(['hash-object', '-t', 'tree', '/dev/null']) : `refs/heads/${branch}`
  console.log(`   ${dim(`git diff --stat ${branch ?? 'the empty tree'} ${branchName}`)}:`)
  console.log(output(['diff', '--stat=72,40', '--stat-count=8', base, ref, '--']))
  if (sound) git.fsck()
  const verdict = sound
    ? green('clean')
    : 'skipped, because it already finds problems in the imported repository'
  console.log(`   git fsck --strict: ${verdict}; commit ${commitId.slice(0, 12)}`)
  // The next import must find the repository empty too.
  if (branch === undefined) git.git(['update-ref', '-d', ref])
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
      `   ${sessions.length} sessions, ${forks.length} of them forks; checkpoints: ${checkpoints.map(({ checkpointLabel }) => checkpointLabel).join(', ')}`,
    )
    console.log(`   ${count(changes.modified.length, 'changed path')} against the parent, as before`)
    console.log(`   everything is ${page.manifestHash === manifestHash ? green('there') : red('NOT there')}`)
  } finally {
    await engine.close()
  }
}

/** Each edit works on any tree, even if names are taken or files are missing. */
const edits: readonly Edit[] = [
  {
    name: 'one more line in a file',
    async apply(fork, files) {
      const [first] = await paths(fork, files)
      await fork.fs.promises.appendFile(first, '\nOne more line.\n')
    },
  },
  {
    name: 'a header on every file',
    async apply(fork, files) {
      const header = Buffer.from('// Copyright the shop\n')
      for (let i = 0; i < files.length; i += 1000) {
        const operations = []
        for (const { path, contentHash } of files.slice(i, i + 1000)) {
          const content = Buffer.concat([header, await fork.files.read({ path })])
          operations.push({ write: { path, content, expectedHash: contentHash } })
        }
        await fork.files.batch(operations)
      }
    },
  },
  {
    name: 'rename a directory',
    async apply(fork) {
      const destinationPath = await freePath(fork, 'renamed')
      await fork.files.rename({ sourcePath: await directory(fork), destinationPath })
    },
  },
  {
    name: 'remove a directory',
    apply: async (fork) => fork.fs.promises.rm(await directory(fork), { recursive: true }),
  },
  {
    name: 'add a package',
    async apply(fork) {
      const root = await freePath(fork, 'new-package')
      for (const name of ['index', 'types', 'errors']) {
        await fork.files.write({ path: `${root}/src/${name}.ts`, content: `export {}\n`, expectedHash: '' })
      }
    },
  },
  {
    name: 'make a file executable',
    async apply(fork, files) {
      const [first] = await paths(
        fork,
        files.filter(({ mode }) => (mode & 0o111) === 0),
      )
      await fork.fs.promises.chmod(first, 0o755)
    },
  },
  {
    name: 'a symlink',
    async apply(fork, files) {
      const [first] = await paths(fork, files)
      await fork.fs.promises.symlink(first, await freePath(fork, 'latest'))
    },
  },
  {
    name: 'a file of 8 MiB',
    async apply(fork) {
      const path = await freePath(fork, 'video.bin')
      await fork.files.write({ path, content: Buffer.alloc(8 << 20, 'forkspace') })
    },
  },
  {
    name: 'a log of 100 lines',
    async apply(fork) {
      const path = await freePath(fork, 'run.log')
      for (let i = 0; i < 100; i++) await fork.files.append({ path, content: `line ${i}\n` })
    },
  },
  {
    name: 'swap two files',
    async apply(fork, files) {
      const { promises } = fork.fs
      const [first, second] = await paths(fork, files)
      const between = await freePath(fork, 'swap')
      await promises.rename(first, between)
      await promises.rename(second, first)
      await promises.rename(between, second)
    },
  },
]

/** Two files to edit. Creates those that are missing. */
async function paths(fork: Session, files: readonly ManifestNode[]): Promise<[string, string]> {
  const made = async (): Promise<string> => {
    const path = await freePath(fork, 'notes.md')
    await fork.files.write({ path, content: `# Notes in ${path}\n` })
    return path
  }
  return [files[0]?.path ?? (await made()), files[1]?.path ?? (await made())]
}

/** The first directory of the root. Creates one if there is none. */
async function directory(fork: Session): Promise<string> {
  const entries = await fork.fs.promises.readdir('/', { withFileTypes: true })
  const found = entries.find((entry) => entry.isDirectory())
  if (found !== undefined) return `/${found.name}`
  const path = await freePath(fork, 'docs')
  await fork.fs.promises.mkdir(path)
  return path
}

async function freePath(fork: Session, name: string): Promise<string> {
  const taken = new Set(await fork.fs.promises.readdir('/'))
  let free = name
  for (let number = 2; taken.has(free); number++) free = `${number}-${name}`
  return `/${free}`
}

try {
  await main()
} catch (error) {
  const [line] = (error instanceof Error ? error.message : String(error)).split('\n')
  console.error(`forkspace demo: ${line}`)
  process.exitCode = 1
}
