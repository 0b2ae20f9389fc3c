/**
 * The process that is killed. It makes random changes to a store and reports each one before the call and after its
 * acknowledgement. The reports are written synchronously to a file, because data that a killed process wrote to a file
 * stays written.
 */
import { openSync, writeSync } from 'node:fs'
import { argv, kill, pid, stdout } from 'node:process'
import { EngineError, openEngine, type Engine, type LogEntry, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { postgresStorage } from '../../src/adapters/postgres/index.js'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import { PhaseWatch } from './collect-phases.js'
import { blobsOf } from './killed-bucket.js'
import { killingDisk } from './killing-disk.js'
import { probeTag, type Line, type WriterArguments } from './protocol.js'
import { start } from './start.js'
import { Steps } from './steps.js'
import { storageOn } from './storage-on.js'

const maxSessions = 8
const settings = JSON.parse(argv[2]!) as WriterArguments
const report = openSync(settings.report, 'a')
const random = randomWords(settings.seed)
const closeAt =
  settings.closeAfterMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + settings.closeAfterMs

stdout.write('opening\n')
const { directory, durability, killAt, killIn, collects } = settings
const steps = new Steps(random, { deletes: collects !== undefined })
const watch = new PhaseWatch(killIn, {
  onPhase: (phase) => writeLine({ kind: 'phase', ...(phase && { phase }) }),
  kill: () => kill(pid, 'SIGKILL'),
})
const storage = settings.postgres
  ? postgresStorage({
      ...settings.postgres,
      durability,
      ...(settings.bucket && { blobs: blobsOf(settings.bucket) }),
    })
  : storageOn(directory, {
      durability,
      ...(killAt && { disk: killingDisk(killAt) }),
      ...(collects && { segmentBytes: 2 ** 18, disk: watch.disk(killAt ? killingDisk(killAt) : nodeDisk) }),
    })
const engine = await openEngine(
  collects
    ? {
        storage: watch.storage(storage),
        memoryBudgetBytes: 2 ** 20,
        automaticCollection: collects === 'automatic' && { garbageShare: 0.01, garbageBytes: 2 ** 16 },
        log,
      }
    : { storage },
)
const sessions: { session: Session; labels: string[] }[] = []
await openSessions(engine)
writeLine({ kind: 'opened' })
stdout.write('ready\n')
const collecting = collects === 'called' ? collect().catch(broken) : undefined
await work().catch(broken)
await collecting
stdout.write('closing\n')
await engine.close()
stdout.write('closed\n')

async function openSessions({ sessions: all }: Engine): Promise<void> {
  const { sessions: known } = await all.list({ pageSize: 10_000 })
  for (const { id, tags } of known) {
    if (probeTag in tags || settings.unchanged?.includes(id) === true) continue
    const session = await all.open(id)
    const { checkpoints } = await session.listCheckpoints({ pageSize: 10_000 })
    sessions.push({ session, labels: checkpoints.slice(-50).map(({ checkpointLabel }) => checkpointLabel) })
  }
  while (sessions.length < 3) sessions.push({ session: await all.create(), labels: [] })
}

async function work(): Promise<void> {
  const pending = new Set<Promise<void>>()
  /** The number of running calls that use each label. */
  const uses = new Map<string, number>()
  for (let n = settings.firstNumber; Date.now() < closeAt; n++) {
    const { session, labels } = sessions[random() % sessions.length]!
    const step = steps.next(n, labels, sessions.length < maxSessions)
    if (step.op === 'deleteCheckpoint') {
      // A running call may need it.
      if ((uses.get(step.label) ?? 0) > 0) continue
      labels.splice(labels.indexOf(step.label), 1)
    }
    const label = 'label' in step ? step.label : undefined
    const use = (more: number): void => {
      if (label !== undefined) uses.set(label, (uses.get(label) ?? 0) + more)
    }
    use(1)
    writeLine({ kind: 'call', n, session: session.id, step })
    const settled = start(session, step)
      .then(({ outcome, fork }) => {
        writeLine({ kind: 'settled', n, outcome, ...(fork && { forkId: fork.id }) })
        if (fork !== undefined) sessions.push({ session: fork, labels: [] })
        if (outcome === 'ok' && step.op === 'checkpoint') labels.push(step.label)
        if (outcome === 'ok' && step.op === 'deleteCheckpoint') watch.checkpointDeleted()
        use(-1)
        pending.delete(settled)
      })
      .catch(broken)
    pending.add(settled)
    // The model tests cover whether calls take effect in the order in which they were made.
    for (let i = 0; i < 8; i++) await Promise.resolve()
    if (pending.size >= settings.pending) await Promise.race(pending)
    if (n % 64 === 0) await new Promise((resolve) => setImmediate(resolve))
    // Slows the calls down, so that more collections run during them.
    if (collects !== undefined && n % 2 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
  }
}

/** Runs one collection after another. */
async function collect(): Promise<void> {
  while (Date.now() < closeAt) {
    await engine.collect({ keepRedo: random() % 4 === 0 })
    await new Promise((resolve) => setTimeout(resolve, random() % 20))
  }
}

/** No call receives the error of an automatic collection. */
function log({ level, message, details }: LogEntry): void {
  if (level === 'error') broken(new Error(`${message} ${JSON.stringify(details)}`))
}

function broken(error: unknown): void {
  if (settings.mayFail === true && error instanceof EngineError && error.reason !== 'INTERNAL') return
  writeLine({ kind: 'broken', message: String((error as Error).stack) })
}

function writeLine(line: Line): void {
  writeSync(report, `${JSON.stringify(line)}\n`)
}
