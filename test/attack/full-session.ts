import type { Engine, Session } from '../../src/index.js'

/** A directory with a path of about 3.5 KB. */
export const directory = `/${'d'.repeat(250)}`.repeat(14)
export const content = { file: '/large', text: '/text', key: 'large', checkpoint: 'newest' } as const

/** The ids in the paths of requests, by the names of their parameters. */
export interface FullIds {
  readonly sourceId: string
  readonly jobId: string
  readonly secretName: string
  /** A session with an open merge. */
  readonly conflictedSessionId: string
}

/** Fills an engine with as many records of each kind as a session or a page may have, times `share`. */
export async function fillEngine(
  engine: Pick<Engine, 'sessions' | 'sources'>,
  session: Session,
  share: number,
): Promise<FullIds> {
  const times = timesOf(share)
  await fillSession(session, share)
  await times(10_000, (index) =>
    session.fileLocks.lock({ path: `${directory}/${index}`, timeoutSeconds: 3600 }),
  )
  const secretName = 'n'.repeat(124)
  await times(1000, (index) =>
    session.secrets.put({ secretName: `${secretName}${index}`, secretValue: 'v'.repeat(1000) }),
  )
  await times(200, (index) =>
    session.health.report({ reportFormat: 'junit-xml/v1', reportContent: junitReport(index) }),
  )
  await times(2000, (index) => engine.sessions.create({ initialTags: { tag: `${index}`.padEnd(250, 't') } }))
  const create = () => engine.sources.create({ displayName: 'd'.repeat(200), uploadedSnapshot: {} })
  await times(2000, create)
  const { sourceId } = await create()
  let jobId = ''
  await times(4000, async () => {
    const job = await engine.sources.startImport(sourceId, { uploadedSnapshot: { files: {} } })
    ;({ jobId } = await engine.sources.waitForJob(job))
  })
  const conflictedSessionId = await conflicted(engine, Math.ceil(1900 * share))
  return { sourceId, jobId, secretName: `${secretName}0`, conflictedSessionId }
}

/** Calls a function as often as given, times the share. */
function timesOf(share: number) {
  return async (most: number, add: (index: number) => Promise<unknown>): Promise<void> => {
    for (let index = 0; index < most * share; index++) await add(index)
  }
}

function junitReport(index: number): string {
  const failure = `<failure message="${'m'.repeat(1000)}"/>`
  const cases = Array.from(
    { length: 100 },
    (_, at) => `<testcase name="${index}-${at}">${failure}</testcase>`,
  )
  return `<testsuite>${cases.join('')}</testsuite>`
}

/** A session in whose merge each of as many files with long paths conflicts. */
async function conflicted({ sessions }: Pick<Engine, 'sessions'>, count: number): Promise<string> {
  const write = (session: Session, content: string): Promise<unknown> =>
    session.files.batch(
      Array.from({ length: count }, (_, index) => ({ write: { path: `${directory}/${index}`, content } })),
    )
  const session = await sessions.create()
  await write(session, 'base')
  const fork = await session.fork()
  await write(session, 'ours')
  await write(fork, 'theirs')
  await session.merge(fork)
  return session.id
}

/** Fills a session with large contents, long names and large records. */
async function fillSession(session: Session, share: number): Promise<void> {
  const times = timesOf(share)
  const write = (
    path: string,
    bytes: string | Uint8Array,
  ): { write: { path: string; content: typeof bytes } } => ({
    write: { path, content: bytes },
  })
  const files = Array.from({ length: 3000 * share }, (_, index) => write(`${directory}/${index}`, `${index}`))
  await session.files.batch(files)
  const lines = Array.from({ length: 10_000 }, (_, index) => `${'x'.repeat(60)}${index}\n`).join('')
  await session.files.batch([write(content.file, new Uint8Array(12 * 2 ** 20)), write(content.text, lines)])
  await session.files.setXattr({ path: content.text, name: 'user.large', value: new Uint8Array(2 ** 16) })
  await times(500, (index) =>
    session.files.createSymlink({ linkPath: `${directory}/link${index}`, target: 't'.repeat(4000) }),
  )
  await session.cache.put({ key: content.key, value: new Uint8Array(8 * 2 ** 20) })
  await times(1000, (index) => session.cache.put({ key: `${index}`.padEnd(1000, 'k'), value: 'x' }))
  const { contentHash: expectedContentHash } = await session.files.stat({
    path: content.text,
    includeContentHash: true,
  })
  await times(100, async () => {
    await session.approvals.request({ details: { summary: 's'.repeat(60_000) } })
    await session.annotations.add({
      filePath: content.text,
      expectedContentHash,
      comment: 'c'.repeat(60_000),
    })
    await session.checkpoint({ metadata: { note: 'm'.repeat(4000) } })
  })
  await session.checkpoint({ checkpointLabel: content.checkpoint })
}
