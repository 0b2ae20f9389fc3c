import { execFile } from 'node:child_process'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openEngine, type Engine, type Session } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { gitEnvironment, GitRepository, hasGit } from '../../test/support/git-repository.js'
import { serveGit } from '../../test/support/git-server.js'
import { expect, race, type Contestant } from '../support/measure.js'
import { contents, projectPaths, shuffled } from '../support/project-files.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const run = promisify(execFile)
const changedFiles = 10
const author = { name: 'Ada Author', email: 'ada@example.org' }

/** Import and commit through `git http-backend`, against native git with the same server. */
export const git: Scenario = {
  name: 'git',
  title: 'Git over HTTP on loopback',
  async *run(context) {
    if (!hasGit) return
    const size = context.count(2000)
    const repositories = join(context.directory, 'served')
    const repository = GitRepository.create(join(repositories, 'project.git'))
    const paths = projectPaths(size).map((path) => path.slice(1))
    repository.git(['fast-import', '--quiet'], { input: fastImport(paths) })
    const server = await serveGit(repositories)
    try {
      const remoteUrl = `${server.url}/project.git`
      yield* imports(context, remoteUrl, size)
      yield* commits(context, remoteUrl, paths)
    } finally {
      await server.close()
    }
  },
}

async function* imports(context: Context, remoteUrl: string, size: number): AsyncGenerator<Row> {
  const clone = join(context.directory, 'clone')
  const options = { git: { allowPrivateAddresses: true } }
  await using memory = await openEngine(options)
  const storage = levelStorage(join(context.directory, 'store'), { durability: 'relaxed' })
  await using level = await openEngine({ ...options, storage })
  const timings = await race(
    {
      clone: {
        count: 1,
        run: () => runGit(context.directory, ['clone', '-q', '--depth', '1', remoteUrl, clone]),
        cleanUp: () => rm(clone, { recursive: true }),
      },
      memory: importer(memory, remoteUrl, size),
      level: importer(level, remoteUrl, size),
    },
    { rounds: Math.min(context.rounds, 5) },
  )
  const peer = { name: 'git clone --depth 1', timing: timings.clone }
  for (const [name, ours] of [
    ['memory', timings.memory],
    ['disk (relaxed)', timings.level],
  ] as const) {
    yield timingRow({ what: `import of ${size} files, ${name}`, ours, peer, clock: 'none' })
  }
}

function importer(engine: Engine, remoteUrl: string, size: number): Contestant {
  let session: Session
  return {
    count: 1,
    run: async () => {
      session = await importSession(engine, remoteUrl)
    },
    cleanUp: async () => {
      let files = 0
      for (let pageToken = ''; ;) {
        const page = await session.manifest({ pageSize: 10_000, pageToken })
        files += page.nodes.filter(({ contentHash }) => contentHash !== '').length
        if (page.nextPageToken === '') break
        pageToken = page.nextPageToken
      }
      expect(files === size, 'the import is not complete')
    },
  }
}

async function importSession(engine: Engine, remoteUrl: string): Promise<Session> {
  const { sourceId } = await engine.sources.create({ displayName: 'project', gitRemote: { remoteUrl } })
  await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
  return engine.sessions.create({ sourceRef: { sourceId } })
}

async function* commits(context: Context, remoteUrl: string, paths: readonly string[]): AsyncGenerator<Row> {
  const clone = join(context.directory, 'worktree')
  await runGit(context.directory, ['clone', '-q', '--depth', '1', remoteUrl, clone])
  const engine = await openEngine({ git: { allowPrivateAddresses: true } })
  try {
    const session = await importSession(engine, remoteUrl)
    const chosen = shuffled(paths).slice(0, changedFiles)
    let number = 0
    const change = async (write: (path: string, content: string) => Promise<void>): Promise<void> => {
      const content = `changed ${number++}\n`
      for (const path of chosen) await write(path, content)
    }
    const inSession = (path: string, content: string): Promise<void> =>
      session.files.write({ path: `/${path}`, content })
    const inClone = (path: string, content: string): Promise<void> => writeFile(join(clone, path), content)
    const message = 'a change'
    const commitInClone = (): Promise<void> => runGit(clone, ['commit', '-qam', message])
    const timings = await race(
      {
        commit: {
          count: 1,
          prepare: () => change(inSession),
          run: async () => void (await session.commit({ message, author })),
        },
        'git commit': { count: 1, prepare: () => change(inClone), run: commitInClone },
        push: {
          count: 1,
          prepare: () => change(inSession),
          run: async () =>
            void (await session.commit({ message, author, gitBranch: { branchName: 'ours' } })),
        },
        'git push': {
          count: 1,
          prepare: () => change(inClone),
          run: async () => {
            await commitInClone()
            await runGit(clone, ['push', '-q', 'origin', 'HEAD:refs/heads/theirs'])
          },
        },
      },
      { rounds: context.rounds },
    )
    yield timingRow({
      what: `commit of ${changedFiles} files`,
      ours: timings.commit,
      peer: { name: 'git commit -a', timing: timings['git commit'] },
      clock: 'none',
    })
    yield timingRow({
      what: `commit and push of ${changedFiles} files`,
      ours: timings.push,
      peer: { name: 'git commit -a, git push', timing: timings['git push'] },
      clock: 'none',
    })
  } finally {
    await engine.close()
  }
}

async function runGit(cwd: string, args: readonly string[]): Promise<void> {
  await run('git', args, { cwd, env: gitEnvironment })
}

/** One commit of many files, in the language of `git fast-import`. */
function fastImport(paths: readonly string[]): Buffer {
  const { GIT_COMMITTER_NAME: name, GIT_COMMITTER_EMAIL: email, GIT_COMMITTER_DATE: date } = gitEnvironment
  const parts: (string | Buffer)[] = [
    `commit refs/heads/main\ncommitter ${name} <${email}> ${date}\ndata 9\nthe start\n`,
  ]
  const bodies = contents(paths.length, 1500)
  for (const [index, path] of paths.entries()) {
    // Text compresses about as well as source code does.
    const body = Buffer.from(bodies[index]!.toString('hex'))
    parts.push(`M 100644 inline ${path}\ndata ${body.length}\n`, body, '\n')
  }
  return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)))
}
