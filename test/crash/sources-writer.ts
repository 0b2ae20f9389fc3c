/** The process that is killed while it imports, refreshes, promotes and pushes; see `writer.ts`. */
import { openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { argv, stdout } from 'node:process'
import { levelStorage } from '../../src/adapters/level/index.js'
import { EngineError, openEngine, type Engine, type ImportJob } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import {
  kinds,
  labelOf,
  promotedFile,
  uploadOf,
  type Kind,
  type SourceIds,
  type SourceLine,
  type SourceWriterArguments,
} from './sources-protocol.js'

const settings = JSON.parse(argv[2]!) as SourceWriterArguments
const report = openSync(settings.report, 'a')
const random = randomWords(settings.seed)
const { directory, durability, remoteUrl, hostDirectory } = settings
const engine = await openEngine({
  storage: levelStorage(directory, { durability }),
  git: { allowPrivateAddresses: true },
  hostPaths: { roots: [hostDirectory] },
})
let stage = 0
// The parent waits for one of these lines before it kills this process.
engine.sources.onJob(() => stdout.write(`stage ${++stage}\n`))
const sources = settings.sources ?? (await makeSources(engine))
writeLine({ sources })

const author = { name: 'Ada Author', email: 'ada@example.org' }

async function makeSources({ sources }: Engine): Promise<SourceIds> {
  const git = await sources.create({ displayName: 'git', gitRemote: { remoteUrl, defaultRef: 'main' } })
  const upload = await sources.create({ displayName: 'upload', uploadedSnapshot: {} })
  const host = await sources.create({ displayName: 'host', hostPath: { path: hostDirectory } })
  return { git: git.sourceId, upload: upload.sourceId, host: host.sourceId }
}

async function jobOf(n: number, started: Promise<ImportJob>): Promise<[result: string, jobId: string]> {
  const queued = await started
  writeLine({ call: n, jobId: queued.jobId })
  const { revisionId, jobId } = await engine.sources.waitForJob(queued)
  return [revisionId, jobId]
}

const calls: Record<Kind, (n: number) => Promise<[result: string, jobId: string]>> = {
  async push(n) {
    await engine.sources.waitForJob(await engine.sources.startImport(sources.git))
    const session = await engine.sessions.create({ sourceRef: { sourceId: sources.git } })
    for (let i = 0; i < 5; i++)
      await session.files.write({ path: `/pushed/${n % 7}/${i}`, content: `${n} ${i}` })
    stdout.write(`stage ${++stage}\n`)
    const { commitId } = await session.commit({
      message: `push ${n}`,
      author,
      gitBranch: { branchName: 'main' },
    })
    return [commitId, '']
  },
  refresh: (n) => jobOf(n, engine.sources.refresh(sources.git)),
  upload: (n) =>
    jobOf(n, engine.sources.startImport(sources.upload, { uploadedSnapshot: { files: uploadOf(n) } })),
  async promote(n) {
    const session = await engine.sessions.create({ files: uploadOf(n) })
    await session.files.write({ path: '/promoted', content: promotedFile(n) })
    return jobOf(
      n,
      engine.sources.promoteSession(sources.upload, {
        sessionId: session.id,
        revisionLabel: labelOf(n),
      }),
    )
  },
  scan(n) {
    for (let i = 0; i < 5; i++) writeFileSync(join(hostDirectory, `f${random() % 50}`), `${n} ${i}`)
    return jobOf(n, engine.sources.refresh(sources.host))
  },
}

for (let n = settings.firstNumber; ; n++) {
  const kind = kinds[random() % kinds.length]!
  writeLine({ call: n, kind })
  try {
    const [result, jobId] = await calls[kind](n)
    writeLine({ done: n, kind, result, jobId })
  } catch (error) {
    // A push from an earlier, killed process may have arrived.
    if (!(error instanceof EngineError) || error.reason !== 'BRANCH_MOVED') throw error
  }
}

function writeLine(line: SourceLine): void {
  writeSync(report, `${JSON.stringify(line)}\n`)
}
