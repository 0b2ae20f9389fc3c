import { fork, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rename, rm, stat, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { backupStore, checkStore, levelStorage } from '../../src/adapters/level/index.js'
import { openEngine } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { filesOf } from '../support/store-files.js'
import type { AttackOptions, AttackResult } from './attacks.js'
import type { Response, Request } from './moved-stores-child.js'
import { compiledAttacks } from './compiled-attacks.js'

/** An operation on the directory of an open store. */
interface Fate {
  act(place: Place): Promise<void>
  /** The location of the store afterwards; undefined if it was deleted. */
  readonly left: 'moved' | 'inPlace' | undefined
  /** Whether another process can open a store at the path. */
  readonly another: boolean
  /** Cleans up after the operation. */
  undo?(place: Place): Promise<void>
}

interface Place {
  readonly directory: string
  readonly moved: string
  readonly other: string
}

const fates: Readonly<Record<string, Fate>> = {
  'moved aside': {
    act: ({ directory, moved }) => rename(directory, moved),
    left: 'moved',
    another: true,
  },
  'replaced by its backup': {
    act: async ({ directory, moved, other }) => {
      await backupStore(directory, other)
      await rename(directory, moved)
      await rename(other, directory)
    },
    left: 'moved',
    another: false,
  },
  'replaced by a link to another store': {
    act: async ({ directory, moved, other }) => {
      await mkdir(other)
      await rename(directory, moved)
      await symlink(other, directory)
    },
    left: 'moved',
    another: true,
  },
  'moved, and back again': {
    act: async ({ directory, moved }) => {
      await rename(directory, moved)
      await sleep(20)
      await rename(moved, directory)
    },
    left: 'inPlace',
    another: false,
  },
  'moved with its parent': {
    act: async ({ directory, moved }) => {
      await rename(join(directory, '..'), `${moved}.parent`)
      await rename(join(`${moved}.parent`, 'data'), moved)
    },
    left: 'moved',
    another: true,
  },
  deleted: { act: ({ directory }) => deleted(directory), left: undefined, another: false },
  'deleted, and made again': { act: ({ directory }) => deleted(directory), left: undefined, another: true },
  'robbed of its lock': {
    act: ({ directory }) => deleted(join(directory, 'index')),
    left: 'inPlace',
    another: true,
  },
  'covered by a mount': {
    act: async ({ directory, other }) => {
      await mkdir(other)
      mount('mount', '--bind', other, directory)
    },
    left: 'inPlace',
    another: true,
    undo: async ({ directory }) => mount('umount', directory),
  },
}

/** Moves, replaces and deletes the directories of stores while processes write to them. */
export async function moveStores({ n, seed, onProgress }: AttackOptions): Promise<AttackResult> {
  const random = randomWords(seed)
  const names = Object.keys(fates).filter((name) => name !== 'covered by a mount' || canMount())
  const [writer, other] = [await Process.start(), await Process.start()]
  let [acknowledged, rejected, failures] = [0, 0, 0]
  try {
    for (let tries = 0; tries < n; tries++) {
      const name = names[tries % names.length]!
      const hold = tries % (2 * names.length) < names.length ? 'descriptor' : 'identity'
      const directory = await mkdtemp(join(tmpdir(), 'moved-'))
      try {
        const outcome = await new Try(writer, other, random, directory).run(fates[name]!, hold)
        acknowledged += outcome.acknowledged
        rejected += outcome.rejected
        onProgress(
          `${tries + 1}/${n} ${name} (${hold}): ${outcome.acknowledged}, ${outcome.rejected} rejected`,
        )
      } catch (error) {
        failures++
        onProgress(`FAILED ${name} (${hold}), kept in ${directory}: ${(error as Error).message}`)
        await Promise.all([writer.ask({ ask: 'close' }), other.ask({ ask: 'close' })])
        continue
      }
      await rm(directory, { recursive: true })
    }
  } finally {
    writer.end()
    other.end()
  }
  const line = `${n} stores, ${acknowledged} writes acknowledged, ${rejected} rejected, ${failures} stores or writes lost`
  return { line, failed: failures > 0 }
}

class Try {
  readonly #writer: Process
  readonly #other: Process
  readonly #random: () => number
  readonly #place: Place
  readonly #acknowledged = new Set<number>()
  #rejected = 0

  constructor(writer: Process, other: Process, random: () => number, parent: string) {
    this.#writer = writer
    this.#other = other
    this.#random = random
    const directory = join(parent, 'parent/data')
    this.#place = { directory, moved: join(parent, 'moved'), other: join(parent, 'other') }
  }

  async run(
    fate: Fate,
    hold: 'descriptor' | 'identity',
  ): Promise<{ acknowledged: number; rejected: number }> {
    const { directory } = this.#place
    expectNothing(await this.#writer.ask({ ask: 'open', directory, hold }))
    await this.#write(0, 60)
    // Acts in the middle of writes.
    const writing = this.#write(100, 100)
    await sleep(this.#random() % 20)
    await fate.act(this.#place)
    await writing
    if (fate.left === undefined) this.#acknowledged.clear()
    await (fate.another ? this.#beside() : this.#alone(fate))
    await fate.undo?.(this.#place)
    const left = fate.left === 'moved' ? this.#place.moved : directory
    if (fate.left !== undefined) await requireWhole(left, this.#acknowledged)
    return { acknowledged: this.#acknowledged.size, rejected: this.#rejected }
  }

  /** Another process opens a store at the path, and both write. */
  async #beside(): Promise<void> {
    const { directory } = this.#place
    expectNothing(await this.#other.ask({ ask: 'open', directory, hold: undefined }))
    const [mine, answer] = await Promise.all([
      this.#write(300, 100),
      this.#other.ask({ ask: 'write', from: 1000, count: 100 }),
      this.#writer.ask({ ask: 'collect' }),
    ])
    if (mine.length === 0) throw new Error('no write was rejected')
    expectNothing(answer)
    await this.#writer.ask({ ask: 'close' })
    expectNothing(await this.#other.ask({ ask: 'write', from: 1200, count: 20 }))
    expectNothing(await this.#other.ask({ ask: 'collect' }))
    expectNothing(await this.#other.ask({ ask: 'close' }))
    const theirs = new Set([...range(1000, 100), ...range(1200, 20)])
    await requireWhole(directory, theirs)
  }

  /** No other process opens the path; a store that was put there must stay unchanged. */
  async #alone({ left }: Fate): Promise<void> {
    const { directory } = this.#place
    const before = left === 'moved' ? await filesOf(directory) : undefined
    if (left === 'inPlace') {
      // The store is back in place, so the same engine must continue. It retries a failed recovery within a second.
      for (let times = 0; times < 100 && (await this.#write(300 + times, 1)).length > 0; times++)
        await sleep(20)
      if ((await this.#write(500, 20)).length > 0) throw new Error('the engine did not go on')
    } else if ((await this.#write(300, 40)).length === 0) throw new Error('no write was rejected')
    await this.#writer.ask({ ask: 'collect' })
    await this.#writer.ask({ ask: 'close' })
    if (left === undefined && (await exists(directory))) throw new Error('the directory came back')
    if (before === undefined) return
    const after = await filesOf(directory)
    if (JSON.stringify(before) !== JSON.stringify(after)) throw new Error('the other store was changed')
  }

  /** Returns the reasons of rejected writes. */
  async #write(from: number, count: number): Promise<readonly string[]> {
    const { acknowledged, reasons } = await this.#writer.ask({ ask: 'write', from, count })
    for (const n of acknowledged) this.#acknowledged.add(n)
    this.#rejected += count - acknowledged.length
    const odd = reasons.filter((reason) => reason !== 'STORE_MOVED' && reason !== 'STORE_FAILED')
    if (odd.length > 0) throw new Error(`writes were rejected with ${odd.join(', ')}`)
    return reasons
  }
}

/** Requires that a store has no damage and contains the files whose writes were acknowledged. */
async function requireWhole(directory: string, numbers: ReadonlySet<number>): Promise<void> {
  const { findings } = await checkStore(directory, { readData: true })
  if (findings.length > 0) throw new Error(`${directory}: ${JSON.stringify(findings.slice(0, 3))}`)
  const engine = await openEngine({ storage: levelStorage(directory, { durability: 'relaxed' }) })
  try {
    const { sessions } = await engine.sessions.list()
    const found = new Set<number>()
    for (const { id } of sessions) {
      const session = await engine.sessions.open(id)
      for (const name of await session.fs.promises.readdir('/')) {
        const text = await session.fs.promises.readFile(`/${name}`, 'utf8')
        if (text === `content ${name} `.repeat(200)) found.add(Number(name))
      }
    }
    const missing = [...numbers].filter((number) => !found.has(number))
    if (missing.length > 0) throw new Error(`${directory}: ${missing.length} acknowledged writes are lost`)
  } finally {
    await engine.close()
  }
}

class Process {
  readonly #child: ChildProcess
  readonly #asked = new Map<number, (answer: Response) => void>()
  #next = 0

  private constructor(child: ChildProcess) {
    this.#child = child
    child.on('message', ([id, answer]: [number, Response]) => this.#asked.get(id)!(answer))
    // The attack ends when the process dies, which is worse than a failed write.
    child.once('exit', (code) => {
      for (const answered of this.#asked.values()) answered({ acknowledged: [], reasons: [`exit ${code}`] })
    })
  }

  static async start(): Promise<Process> {
    const child = fork(join(await compiledAttacks(), 'moved-stores-child.js'))
    await once(child, 'spawn')
    return new Process(child)
  }

  async ask(request: Request): Promise<Response> {
    const id = this.#next++
    const answered = new Promise<Response>((resolve) => this.#asked.set(id, resolve))
    this.#child.send([id, request])
    const answer = await answered
    this.#asked.delete(id)
    return answer
  }

  end(): void {
    this.#child.kill('SIGKILL')
  }
}

function expectNothing({ reasons }: Response): void {
  if (reasons.length > 0) throw new Error(`rejected with ${reasons.join(', ')}`)
}

function* range(from: number, count: number): Generator<number> {
  for (let n = from; n < from + count; n++) yield n
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

/** Also deletes files that are created meanwhile. */
async function deleted(path: string): Promise<void> {
  await rm(path, { recursive: true, maxRetries: 10, retryDelay: 1 })
}

function mount(...[command, ...args]: [string, ...string[]]): void {
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command}: ${stderr}`)
}

function canMount(): boolean {
  return process.platform === 'linux' && process.getuid?.() === 0 && canBind()
}

function canBind(): boolean {
  const directory = tmpdir()
  try {
    mount('mount', '--bind', directory, directory)
    mount('umount', directory)
    return true
  } catch {
    return false
  }
}
