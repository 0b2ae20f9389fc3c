import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { runUntilKilled } from './child.js'
import { noKills, type KillOptions, type KillResult } from './kill.js'
import {
  cacheKeys,
  casesOf,
  masterKey,
  secretNames,
  valueOf,
  type Kind,
  type ServiceLine,
  type ServiceWriterArguments,
} from './services-protocol.js'

const roundsPerDirectory = 6
/** Each check adds one message to the 1,000 that are kept. */
const keptMessages = 1000 - roundsPerDirectory

/** Kills writers that use the services of a session, and checks after each kill the data that the next opener reads. */
export async function runServiceKills(options: KillOptions): Promise<KillResult> {
  const random = randomWords(options.seed)
  const result = noKills()
  while (result.kills < options.kills) {
    const parent = await mkdtemp(join(tmpdir(), 'crash-services-'))
    const calls = new Calls()
    let sessionId = ''
    const before = result.lost + result.torn
    for (let round = 0; round < roundsPerDirectory && result.kills < options.kills; round++) {
      const settings: ServiceWriterArguments = {
        directory: join(parent, 'data'),
        report: join(parent, `report-${round}`),
        durability: options.durability,
        seed: random(),
        sessionId,
        firstNumber: round * 1_000_000,
        pending: 1 + (random() % 64),
      }
      const killed = await runUntilKilled('services-writer.js', settings, {
        line: 'ready',
        delayMs: random() % 400,
      })
      if (killed) result.kills++
      sessionId = calls.read(await readFile(settings.report, 'utf8')) ?? sessionId
      await check(settings, sessionId, calls, result, options.onProgress)
      result.acknowledged += calls.takeAcknowledged()
      options.onProgress(`${result.kills}/${options.kills} killed, ${result.acknowledged} acknowledged`)
      if (result.lost + result.torn > before) break
    }
    if (result.lost + result.torn === before) await rm(parent, { recursive: true })
    else options.onProgress(`kept for inspection: ${parent}`)
  }
  return result
}

/** The calls that were made, by kind, in order. */
class Calls {
  readonly #made = new Map<Kind, number[]>()
  readonly #kinds = new Map<number, Kind>()
  readonly #done = new Set<number>()
  #counted = 0

  /** The session of the calls, if the report names it. */
  read(report: string): string | undefined {
    let session: string | undefined
    // Ignores a last line that the kill truncated.
    for (const text of report.split('\n').slice(0, -1)) {
      const line = JSON.parse(text) as ServiceLine
      if ('session' in line) ({ session } = line)
      else if ('done' in line) this.#done.add(line.done)
      else {
        this.#kinds.set(line.call, line.kind)
        this.made(line.kind).push(line.call)
      }
    }
    return session
  }

  takeAcknowledged(): number {
    const since = this.#done.size - this.#counted
    this.#counted = this.#done.size
    return since
  }

  made(kind: Kind): number[] {
    let calls = this.#made.get(kind)
    if (calls === undefined) this.#made.set(kind, (calls = []))
    return calls
  }

  isDone(n: number): boolean {
    return this.#done.has(n)
  }
}

async function check(
  { directory, durability }: ServiceWriterArguments,
  sessionId: string,
  calls: Calls,
  result: KillResult,
  onProgress: (line: string) => void,
): Promise<void> {
  const start = performance.now()
  const engine = await openEngine({
    storage: levelStorage(directory, { durability }),
    secrets: { masterKey },
  })
  try {
    if (sessionId === '') return
    const session = await engine.sessions.open(sessionId)
    result.openMs.push(performance.now() - start)
    const found = await findAll(session, (message) => {
      result.torn++
      onProgress(`TORN ${message}`)
    })
    const lose = (what: string): void => {
      result.lost++
      onProgress(`LOST ${what}`)
    }
    for (const [kind, { numbers, place }] of found) {
      const made = calls.made(kind)
      for (const n of lastOfEachPlace(
        made.filter((one) => calls.isDone(one)),
        place,
      )) {
        // A later call may have replaced it without an acknowledgement before the kill.
        const there = made.some((one) => one >= n && place(one) === place(n) && numbers.has(one))
        const trimmed = kind === 'message' && made.filter((one) => one > n).length >= keptMessages
        if (!there && !trimmed) lose(`${kind} ${n}`)
      }
      for (const n of numbers) {
        if (made.includes(n)) continue
        result.torn++
        onProgress(`TORN ${kind} ${n} was never asked for`)
      }
    }
    const reports = calls.made('report')
    const reported = reports.findLast((n) => calls.isDone(n))
    const { testsPassed } = (await session.health.get()).health
    if (reported !== undefined && !reports.some((n) => n >= reported && casesOf(n) === testsPassed))
      lose(`report ${reported}: ${testsPassed} passed`)
    await session.events.verify()
  } finally {
    await engine.close()
  }
}

/** The last of the calls that replace each other. */
function lastOfEachPlace(calls: readonly number[], place: (n: number) => unknown): number[] {
  const last = new Map<unknown, number>()
  for (const n of calls) last.set(place(n), n)
  return [...last.values()]
}

interface Found {
  readonly numbers: ReadonlySet<number>
  /** Calls with equal places replace each other. */
  readonly place: (n: number) => unknown
}

async function findAll(session: Session, torn: (message: string) => void): Promise<Map<Kind, Found>> {
  const whole = (what: string, value: string): number => {
    const n = Number.parseInt(value, 10)
    if (valueOf(n) !== value) torn(`${what}: ${value.slice(0, 40)}`)
    return n
  }
  const events = new Map<string, number>()
  for await (const { eventType } of session.events) events.set(eventType, (events.get(eventType) ?? 0) + 1)
  const counted = (what: string, count: number, type: string): void => {
    if (count !== (events.get(type) ?? 0)) torn(`${count} ${what}, but ${events.get(type) ?? 0} events`)
  }

  const { annotations } = await session.annotations.list()
  counted('annotations', annotations.length, 'v1.AnnotationService.AddAnnotation')
  const { approvals } = await session.approvals.list()
  counted('approvals', approvals.length, 'v1.OversightService.RequestApproval')
  const { locks } = await session.fileLocks.list()
  counted('locks', locks.length, 'v1.CollaborationService.LockFile')

  const cached = new Set<number>()
  for await (const key of session.cache) {
    const { value } = await session.cache.get({ key })
    cached.add(whole('cache', Buffer.from(value).toString()))
  }
  const secrets = new Set<number>()
  for (const { secretName } of (await session.secrets.list()).secrets)
    secrets.add(whole('secret', (await session.secrets.get({ secretName })).secretValue.reveal()))
  const messages = new Set<number>()
  const { messageId } = await session.bus.publish({ topic: 'end', payload: '' })
  for await (const message of session.bus.subscribe({ replayLimit: 10_000 })) {
    if (message.messageId === messageId) break
    if (message.topic === 'n') messages.add(whole('message', Buffer.from(message.payload).toString()))
  }
  const own = (n: number): number => n
  const numbersOf = (what: string, values: readonly string[]): Set<number> =>
    new Set(values.map((value) => whole(what, value)))
  return new Map<Kind, Found>([
    [
      'annotation',
      {
        numbers: numbersOf(
          'annotation',
          annotations.map(({ comment }) => comment),
        ),
        place: own,
      },
    ],
    [
      'approval',
      {
        numbers: numbersOf(
          'approval',
          approvals.map(({ summary }) => summary),
        ),
        place: own,
      },
    ],
    ['lock', { numbers: new Set(locks.map(({ path }) => Number(path.slice('/lock/'.length)))), place: own }],
    ['cache', { numbers: cached, place: (n) => n % cacheKeys }],
    ['secret', { numbers: secrets, place: (n) => n % secretNames }],
    ['message', { numbers: messages, place: own }],
  ])
}
