import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { EngineError, ImportJobState, openEngine, type Engine } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { GitRepository } from '../support/git-repository.js'
import { serveGit } from '../support/git-server.js'
import { runUntilKilled } from './child.js'
import { noKills, type KillOptions, type KillResult } from './kill.js'
import {
  labelOf,
  promotedFile,
  uploadOf,
  type Kind,
  type SourceIds,
  type SourceLine,
  type SourceWriterArguments,
} from './sources-protocol.js'

const roundsPerDirectory = 6
const filesInRepository = 300

/**
 * Kills writers at any stage of import, refresh, promotion and push, and checks the data that the next opener reads.
 */
export async function runSourceKills(options: KillOptions): Promise<KillResult> {
  const random = randomWords(options.seed)
  const result = noKills()
  while (result.kills < options.kills) {
    const parent = await mkdtemp(join(tmpdir(), 'crash-sources-'))
    const repository = GitRepository.create(join(parent, 'served', 'project.git'))
    repository.commitFiles(
      Array.from({ length: filesInRepository }, (_, i) => [
        '100644',
        `d${i % 9}/f${i}`,
        `${i} ${'y'.repeat(random() % 5000)}`,
      ]),
    )
    const hostDirectory = join(parent, 'host')
    await mkdir(hostDirectory)
    await writeFile(join(hostDirectory, 'first'), 'first')
    const server = await serveGit(join(parent, 'served'))
    const calls = new Calls()
    const before = result.lost + result.torn
    try {
      for (let round = 0; round < roundsPerDirectory && result.kills < options.kills; round++) {
        const settings: SourceWriterArguments = {
          directory: join(parent, 'data'),
          report: join(parent, `report-${round}`),
          durability: options.durability,
          seed: random(),
          firstNumber: round * 1_000_000,
          remoteUrl: `${server.url}/project.git`,
          hostDirectory,
          ...(calls.sources && { sources: calls.sources }),
        }
        const line = `stage ${1 + (random() % 60)}`
        const killed = await runUntilKilled('sources-writer.js', settings, { line, delayMs: random() % 30 })
        if (killed) result.kills++
        calls.read(await readFile(settings.report, 'utf8').catch(() => ''))
        await new Check(calls, repository, result, options.onProgress).run(settings)
        options.onProgress(`${result.kills}/${options.kills} killed, ${result.acknowledged} acknowledged`)
        if (result.lost + result.torn > before) break
      }
    } finally {
      await server.close()
    }
    if (result.lost + result.torn === before) await rm(parent, { recursive: true })
    else options.onProgress(`kept for inspection: ${parent}`)
  }
  return result
}

interface Call {
  readonly n: number
  readonly kind: Kind
  jobId?: string
  result?: string
}

/** The calls in all rounds of a directory. */
class Calls {
  readonly all = new Map<number, Call>()
  sources: SourceIds | undefined
  /** Calls whose success has not been counted yet. */
  readonly fresh = new Set<Call>()

  read(report: string): void {
    // Ignores a last line that the kill truncated.
    for (const text of report.split('\n').slice(0, -1)) {
      const line = JSON.parse(text) as SourceLine
      if ('sources' in line) this.sources = line.sources
      else if ('done' in line) {
        const call = this.all.get(line.done)!
        call.result = line.result
        this.fresh.add(call)
      } else if ('jobId' in line) this.all.get(line.call)!.jobId = line.jobId
      else this.all.set(line.call, { n: line.call, kind: line.kind })
    }
  }
}

class Check {
  readonly #calls: Calls
  readonly #repository: GitRepository
  readonly #result: KillResult
  readonly #onProgress: (line: string) => void

  constructor(
    calls: Calls,
    repository: GitRepository,
    result: KillResult,
    onProgress: (line: string) => void,
  ) {
    this.#calls = calls
    this.#repository = repository
    this.#result = result
    this.#onProgress = onProgress
  }

  async run({ directory, durability, hostDirectory }: SourceWriterArguments): Promise<void> {
    const start = performance.now()
    const engine = await openEngine({
      storage: levelStorage(directory, { durability }),
      git: { allowPrivateAddresses: true },
      hostPaths: { roots: [hostDirectory] },
    })
    this.#result.openMs.push(performance.now() - start)
    try {
      const { sources } = this.#calls
      if (sources === undefined) return
      for (const call of this.#calls.all.values()) await this.#call(engine, sources, call)
      for (const call of this.#calls.fresh) await this.#content(engine, sources, call)
      this.#result.acknowledged += this.#calls.fresh.size
      this.#calls.fresh.clear()
      for (const sourceId of Object.values(sources)) await this.#latest(engine, sourceId)
      this.#repository.fsck()
    } finally {
      await engine.close()
    }
  }

  #lose(message: string): void {
    this.#result.lost++
    this.#onProgress(`LOST ${message}`)
  }

  #tear(message: string): void {
    this.#result.torn++
    this.#onProgress(`TORN ${message}`)
  }

  /** Requires that the job of a call has the outcome that was reported. */
  async #call(engine: Engine, sources: SourceIds, { n, kind, jobId, result }: Call): Promise<void> {
    const what = `${kind} ${n}`
    if (jobId === undefined) return
    const sourceId = kind === 'refresh' ? sources.git : kind === 'scan' ? sources.host : sources.upload
    const job = await engine.sources.getJob({ sourceId, jobId }).catch(() => undefined)
    if (job === undefined) return this.#lose(`${what}: its job`)
    const { state, revisionId, errorCode } = job
    if (state === ImportJobState.SUCCEEDED) {
      if (result !== undefined && result !== revisionId) this.#tear(`${what}: another revision`)
    } else {
      if (state !== ImportJobState.FAILED || errorCode !== 'INTERRUPTED')
        this.#tear(`${what}: the job is ${state} ${errorCode}`)
      if (result !== undefined) this.#lose(`${what}: its success`)
    }
    if (kind !== 'promote') return
    const labelled = await this.#files(engine, sources.upload, labelOf(n))
    if ((labelled !== undefined) !== (state === ImportJobState.SUCCEEDED))
      this.#tear(`${what}: the label and the job say different things`)
    if (labelled !== undefined && labelled.get('/promoted') !== promotedFile(n))
      this.#tear(`${what}: another content`)
  }

  /** Requires that an acknowledged result is complete. */
  async #content(engine: Engine, sources: SourceIds, { n, kind, result }: Call): Promise<void> {
    if (kind === 'push') {
      if (!this.#isOnBranch(result!)) this.#lose(`push ${n}`)
      return
    }
    if (kind === 'scan') return
    const sourceId = kind === 'refresh' ? sources.git : sources.upload
    const files = await this.#files(engine, sourceId, result!)
    if (files === undefined) return this.#lose(`${kind} ${n}: its revision`)
    if (kind === 'refresh') return this.#compareWithGit(files, result!)
    if (kind === 'promote') return
    const wanted = Object.entries(uploadOf(n))
    if (files.size !== wanted.length || wanted.some(([path, text]) => files.get(path) !== text))
      this.#tear(`upload ${n}: other files`)
  }

  /** Requires that a source has a revision that can be read to the last byte. */
  async #latest(engine: Engine, sourceId: string): Promise<void> {
    const { latestRevisionId } = await engine.sources.get(sourceId)
    if (latestRevisionId === '') return
    if ((await this.#files(engine, sourceId, latestRevisionId)) === undefined)
      this.#tear(`the latest revision of ${sourceId}`)
  }

  async #files(
    engine: Engine,
    sourceId: string,
    revisionId: string,
  ): Promise<Map<string, string> | undefined> {
    try {
      const session = await engine.sessions.create({ sourceRef: { sourceId, revisionId } })
      const files = new Map<string, string>()
      const { nodes } = await session.manifest({ pageSize: 10_000 })
      for (const { path, contentHash } of nodes) {
        if (contentHash === '') continue
        const content = await session.fs.promises.readFile(path)
        const hash = `sha256:${createHash('sha256').update(content).digest('hex')}`
        if (hash !== contentHash) this.#tear(`${path} of ${revisionId}`)
        files.set(path, content.toString())
      }
      return files
    } catch (error) {
      if (error instanceof EngineError && error.reason === 'REVISION_NOT_FOUND') return undefined
      throw error
    }
  }

  #compareWithGit(files: ReadonlyMap<string, string>, commitId: string): void {
    const listed = this.#repository.git(['ls-tree', '-r', '-z', commitId]).split('\0')
    let count = 0
    for (const line of listed) {
      if (line === '') continue
      count++
      const [, , oid] = line.slice(0, line.indexOf('\t')).split(' ')
      const content = Buffer.from(files.get(`/${line.slice(line.indexOf('\t') + 1)}`) ?? 'missing')
      const id = createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex')
      if (id !== oid) this.#tear(`${line} of ${commitId}`)
    }
    if (count !== files.size) this.#tear(`${commitId}: ${files.size} files instead of ${count}`)
  }

  #isOnBranch(commitId: string): boolean {
    try {
      this.#repository.git(['merge-base', '--is-ancestor', commitId, 'refs/heads/main'])
      return true
    } catch {
      return false
    }
  }
}
