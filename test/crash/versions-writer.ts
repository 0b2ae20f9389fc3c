/** The process that is killed while it merges, resolves, aborts, undoes, rebases and restores; see `writer.ts`. */
import { openSync, writeSync } from 'node:fs'
import { argv, stdout } from 'node:process'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import {
  closedKinds,
  filesOf,
  filesPerGroup,
  groups,
  openKinds,
  type Group,
  type Kind,
  type VersionLine,
  type VersionState,
  type VersionWriterArguments,
} from './versions-protocol.js'

const settings = JSON.parse(argv[2]!) as VersionWriterArguments
const report = openSync(settings.report, 'a')
const random = randomWords(settings.seed)
const { directory, durability, firstNumber } = settings
const engine = await openEngine({ storage: levelStorage(directory, { durability }) })
const ids = settings.ids ?? (await create())
writeLine(ids)
const session = await engine.sessions.open(ids.session)
const fork = await engine.sessions.open(ids.fork)
stdout.write('ready\n')

async function create(): Promise<NonNullable<VersionWriterArguments['ids']>> {
  const { sourceId } = await engine.sources.create({ displayName: 'files', uploadedSnapshot: {} })
  await importFiles(sourceId, 0)
  const created = await engine.sessions.create({ sourceRef: { sourceId } })
  for (const group of groups) await edit(created, group, 0)
  await created.checkpoint({ checkpointLabel: 'start' })
  return { session: created.id, fork: (await created.fork()).id, source: sourceId }
}

async function importFiles(sourceId: string, n: number): Promise<void> {
  const files = filesOf('base', n)
  await engine.sources.waitForJob(await engine.sources.startImport(sourceId, { uploadedSnapshot: { files } }))
}

async function edit({ files }: Session, group: Group, n: number): Promise<void> {
  await files.batch(
    Object.entries(filesOf(group, n)).map(([path, content]) => ({ write: { path, content } })),
  )
}

const undoable: readonly Kind[] = ['edit', 'merge', 'paths', 'restore']

const pick = <T>(items: readonly T[]): T => items[random() % items.length]!

const calls: Record<Kind, (n: number) => Promise<unknown>> = {
  async edit(n) {
    await edit(session, pick(['ours', 'both']), n)
  },
  async merge(n) {
    await edit(fork, pick(['theirs', 'both']), n)
    await session.merge(fork, { policies: n % 3 === 0 ? [{ glob: '**', policy: 'theirs' }] : [] })
  },
  async resolve() {
    const { conflicts } = await session.conflicts.list({ pageSize: 1 })
    await session.conflicts.resolve({ path: conflicts[0]!.path, use: 'theirs' })
  },
  async resolveAll() {
    const { conflicts } = await session.conflicts.list()
    // The other conflicts of a group were resolved in the same way.
    const isWhole = conflicts.length % filesPerGroup === 0
    await session.conflicts.resolveAll({ use: isWhole ? pick(['ours', 'theirs', 'base']) : 'theirs' })
  },
  abort: () => session.conflicts.abort(),
  undo: () => session.undo(),
  redo: () => session.redo(),
  async rebase(n) {
    await importFiles(ids.source, n)
    await session.rebase({ policies: [{ glob: '**', policy: pick(['ours', 'theirs'] as const) }] })
  },
  async paths() {
    await session.restore({
      from: { checkpointLabel: 'start' },
      paths: [pick(groups)].map((group) => `/${group}`),
    })
  },
  restore: () => session.restore({ checkpointLabel: 'start' }),
}

let last: Kind | undefined
let before = await stateOf()
for (let n = firstNumber; ; n++) {
  const kind = next()
  writeLine({ call: n, kind })
  try {
    await calls[kind](n)
  } catch (error) {
    writeLine({ failed: n, message: String(error) })
    throw error
  }
  const state = await stateOf()
  writeLine({ done: n, state })
  last = state.manifestHash === before.manifestHash ? undefined : kind
  before = state
}

/** Files that were resolved one by one are also undone one by one, so only other changes are undone. */
function next(): Kind {
  if (before.conflicts.length > 0) return pick(openKinds)
  const kind = pick(closedKinds)
  const isPossible =
    kind === 'undo' ? last !== undefined && undoable.includes(last) : kind !== 'redo' || last === 'undo'
  return isPossible ? kind : 'merge'
}

async function stateOf(): Promise<VersionState> {
  const { conflicts } = await session.conflicts.list()
  using view = await session.at()
  const { manifestHash } = await view.manifest()
  return { eventId: view.eventId, manifestHash, conflicts: conflicts.map(({ path }) => path) }
}

function writeLine(line: VersionLine): void {
  writeSync(report, `${JSON.stringify(line)}\n`)
}
