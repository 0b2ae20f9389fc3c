/**
 * The process that is killed. It carries out random operations on a store and reports each one before the
 * call and after its acknowledgement, by synchronous writes to a file: what a killed process has written to a
 * file stays written.
 */
import { openSync, writeSync } from 'node:fs'
import { argv, stdout } from 'node:process'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import type { TreeStep } from '../model/model-tree.js'
import { outcomeOf, runStep, type Outcome } from '../model/run-step.js'
import { forkTag, type Line, type Step, type WriterArguments } from './protocol.js'

const maxSessions = 8
const names = ['a', 'b', 'c', 'd', 'e', '\u{1f600}', '\ue000']
const settings = JSON.parse(argv[2]!) as WriterArguments
const report = openSync(settings.report, 'a')
const random = randomWords(settings.seed)
const closeAt =
  settings.closeAfterMs === undefined ? Number.POSITIVE_INFINITY : Date.now() + settings.closeAfterMs

stdout.write('opening\n')
const { directory, durability } = settings
const engine = await openEngine({ storage: levelStorage(directory, { durability }) })
const sessions: { session: Session; labels: string[] }[] = []
await openSessions(engine)
tell({ kind: 'opened' })
stdout.write('ready\n')
await work().catch((error: unknown) => tell({ kind: 'broken', message: String((error as Error).stack) }))
stdout.write('closing\n')
await engine.close()
stdout.write('closed\n')

async function openSessions({ sessions: all }: Engine): Promise<void> {
  const { sessions: known } = await all.list({ pageSize: 10_000 })
  for (const { id } of known) {
    const session = await all.open(id)
    const { checkpoints } = await session.listCheckpoints({ pageSize: 10_000 })
    sessions.push({ session, labels: checkpoints.slice(-50).map(({ label }) => label) })
  }
  while (sessions.length < 3) sessions.push({ session: await all.create(), labels: [] })
}

async function work(): Promise<void> {
  const pending = new Set<Promise<void>>()
  for (let n = settings.firstNumber; Date.now() < closeAt; n++) {
    const { session, labels } = sessions[random() % sessions.length]!
    const step = chooseStep(n, labels)
    tell({ kind: 'call', n, session: session.id, step })
    const settled = start(session, step).then(({ outcome, fork }) => {
      tell({ kind: 'settled', n, outcome, ...(fork && { forkId: fork.id }) })
      if (fork !== undefined) sessions.push({ session: fork, labels: [] })
      if (outcome === 'ok' && step.op === 'checkpoint') labels.push(step.label)
      pending.delete(settled)
    })
    pending.add(settled)
    // Whether calls take effect in the order in which they were made is for the model tests to say.
    for (let i = 0; i < 8; i++) await Promise.resolve()
    if (pending.size >= settings.pending) await Promise.race(pending)
    if (n % 64 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
}

/** The call is made before this returns, with nothing of a later one before it. */
function start(session: Session, step: Step): Promise<{ outcome: Outcome; fork?: Session }> {
  if (step.op === 'checkpoint') return settle(session.checkpoint({ label: step.label }))
  if (step.op === 'restore') return settle(session.restore({ checkpointLabel: step.label }))
  if (step.op !== 'fork') return settle(runStep(session, step))
  const sourceCheckpointLabel = step.label ?? ''
  const forked = session.fork({ sourceCheckpointLabel, newTags: { [forkTag]: step.tag } })
  return forked.then((fork) => ({ outcome: 'ok', fork }))
}

async function settle(call: Promise<unknown>): Promise<{ outcome: Outcome }> {
  return { outcome: await outcomeOf(call) }
}

function chooseStep(n: number, labels: readonly string[]): Step {
  const kind = random() % 100
  const label = labels[random() % Math.max(labels.length, 1)]
  if (kind < 8) return { op: 'checkpoint', label: `c${n}` }
  if (kind < 14 && label !== undefined) return { op: 'restore', label }
  if (kind < 16 && sessions.length < maxSessions) {
    return { op: 'fork', tag: `f${n}`, ...(label !== undefined && random() % 2 === 0 && { label }) }
  }
  return chooseTreeStep(n, kind)
}

function chooseTreeStep(n: number, kind: number): TreeStep {
  const content = { size: random() % 20 === 0 ? random() % 200_000 : random() % 300, seed: n }
  if (kind < 30) return { op: 'append', path: path(), content: { size: random() % 50, seed: n } }
  if (kind < 45) {
    // The same content everywhere: a torn batch shows. Sometimes the last part fails, and all is refused.
    const steps: (TreeStep & { op: 'write' | 'delete' })[] = []
    for (let i = random() % 12; i >= 0; i--)
      steps.push({ op: 'write', path: `/batch/${random() % 40}`, content })
    if (random() % 3 === 0) steps.push({ op: 'delete', path: path() })
    return { op: 'batch', steps }
  }
  if (kind < 55) return { op: 'rename', from: path(), to: path() }
  if (kind < 62) return { op: 'delete', path: path() }
  if (kind < 66) return { op: 'mkdir', path: path() }
  if (kind < 68) return { op: 'rmdir', path: path() }
  if (kind < 71)
    return { op: 'chmod', path: random() % 4 === 0 ? '/' : path(), mode: 0o600 + (random() % 64) }
  if (kind < 73) return { op: 'symlink', path: path(), target: path() }
  return { op: 'write', path: path(), content }
}

function path(): string {
  let text = ''
  for (let depth = random() % 3; depth >= 0; depth--) text += `/${names[random() % names.length]!}`
  return text
}

function tell(line: Line): void {
  writeSync(report, `${JSON.stringify(line)}\n`)
}
