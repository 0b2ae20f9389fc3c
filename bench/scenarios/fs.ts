import { existsSync } from 'node:fs'
import * as nodeFs from 'node:fs'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { memoryStorage, openEngine, type Engine, type Session, type Storage } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { randomWords } from 'forkspace/testing'
import { memfs } from 'memfs'
import { expect, race, type Contestant, type Timing } from '../support/measure.js'
import { contents } from '../support/project-files.js'
import { RawLevel, type Durability } from '../support/raw-level.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

const blockBytes = 2 ** 20
const largeBytes = 2 ** 30
const patchBytes = 4096
const fileBytes = 200
/** A directory that the operating system keeps in memory, if there is one. */
const diskRoot = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()
const disk = `node:fs on ${diskRoot}`

/** In-place changes: patches of a large file, appends, small files with and without promises, and large directories. */
export const fs: Scenario = {
  name: 'fs',
  title: 'In-place file changes (in memory unless noted)',
  async *run(context) {
    yield* patches(context, 'in memory', memoryStorage())
    for (const durability of ['relaxed', 'full'] as const) {
      const storage = levelStorage(join(context.directory, durability), { durability })
      yield* patches(context, durability, storage, durability)
    }
    yield* calls(context)
  },
}

/** Patches of 4 KiB in a file of 1 GiB. Their cost must not depend on the history of the file. */
async function* patches(
  context: Context,
  where: string,
  storage: Storage,
  durability?: Durability,
): AsyncGenerator<Row> {
  await using engine = await openEngine({ storage })
  const sessions = await largeFiles(context, engine)
  const count = context.count(durability === undefined ? 2000 : durability === 'relaxed' ? 400 : 60)
  const contestants = Object.fromEntries(
    Object.entries(sessions).map(([name, session]) => [name, patch(session, count)]),
  )
  const raw = durability && (await RawLevel.open(join(context.directory, `raw-${durability}`), durability))
  const file = await mkdtemp(join(diskRoot, 'forkspace-bench-'))
  const handle = await open(join(file, 'large'), 'w+')
  try {
    await handle.truncate(largeBytes)
    const peer: Contestant = raw?.contestant(count) ?? {
      count,
      run: async () => {
        const next = randomWords(3)
        for (const content of contents(count, patchBytes)) {
          await handle.write(content, 0, patchBytes, (next() % (largeBytes / patchBytes)) * patchBytes)
        }
      },
    }
    const timings: Record<string, Timing> = await race({ ...contestants, peer }, { rounds: context.rounds })
    const peerName = raw === undefined ? disk : 'raw put of 200 B'
    for (const name of Object.keys(sessions)) {
      const ours = timings[name]!
      const what = `patch of 4 KiB in 1 GiB, ${where}, ${name}`
      yield timingRow({ what, ours, peer: { name: peerName, timing: timings['peer']! } })
      if (name === 'fresh') continue
      yield timingRow({ what, ours, peer: { name: 'a fresh file', timing: timings['fresh']! } })
    }
  } finally {
    await handle.close()
    await rm(file, { recursive: true })
    await raw?.close()
  }
}

async function largeFiles(context: Context, engine: Engine): Promise<Record<string, Session>> {
  const [block] = contents(1, blockBytes)
  const fresh = await engine.sessions.create({ files: { '/block': block! } })
  const { extents } = await fresh.files.getCasExtents({ path: '/block' })
  const segments = Array.from({ length: largeBytes / blockBytes }, (_, number) => ({
    borrowed: { offset: number * blockBytes, length: blockBytes, hash: extents[0]!.hash },
  }))
  await fresh.files.patchSegments({ mutations: [{ path: '/large', segments }] })
  const earlier = context.count(100_000)
  const next = randomWords(5)
  const random = await patched(fresh, earlier, () => next() % (largeBytes - 16), 16)
  const stride = Math.floor(largeBytes / 100_000)
  const strided = await patched(fresh, earlier, (number) => number * stride, 1)
  return {
    fresh,
    [`after ${earlier.toLocaleString('en')} random patches`]: random,
    [`after ${earlier.toLocaleString('en')} one-byte patches, ${stride.toLocaleString('en')} B apart`]:
      strided,
  }
}

async function patched(
  session: Session,
  count: number,
  offsetOf: (number: number) => number,
  bytes: number,
): Promise<Session> {
  const fork = await session.fork()
  const perRequest = 1000
  for (let first = 0; first < count; first += perRequest) {
    const parts = contents(Math.min(perRequest, count - first), Math.max(4, bytes), first)
    const segments = parts.map((content, index) => ({
      data: { offset: offsetOf(first + index), content: content.subarray(0, bytes) },
    }))
    await fork.files.patchSegments({ mutations: [{ path: '/large', segments }] })
  }
  return fork
}

/** Runs each round in its own fork, so that every round starts from the same file. */
function patch(session: Session, count: number): Contestant {
  let fork: Session
  let parts: Buffer[] = []
  let round = 0
  return {
    count,
    prepare: async () => {
      fork = await session.fork()
      parts = contents(count, patchBytes, ++round)
    },
    run: async () => {
      const next = randomWords(round)
      for (const content of parts) {
        const offset = (next() % (largeBytes / patchBytes)) * patchBytes
        await fork.files.patchSegments({
          mutations: [{ path: '/large', segments: [{ data: { offset, content } }] }],
        })
      }
    },
    cleanUp: () => fork.delete(),
  }
}

/** The calls that all sides support. */
interface Calls {
  readonly promises: {
    mkdir(path: string, options: { recursive: true }): Promise<unknown>
    writeFile(path: string, content: Uint8Array): Promise<unknown>
    readFile(path: string): Promise<unknown>
    appendFile(path: string, content: Uint8Array): Promise<unknown>
    readdir(path: string): Promise<unknown>
    rename(from: string, to: string): Promise<unknown>
  }
  writeFileSync(path: string, content: Uint8Array): unknown
  readFileSync(path: string): unknown
}

interface Place {
  readonly fs: Calls
  readonly root: string
  remove?(): Promise<void>
}

async function* calls(context: Context): AsyncGenerator<Row> {
  await using engine = await openEngine()
  const sides: Record<string, () => Promise<Place>> = {
    ours: async () => {
      const session = await engine.sessions.create()
      return { fs: session.fs as unknown as Calls, root: '', remove: () => session.delete() }
    },
    memfs: async () => ({ fs: memfs().fs as unknown as Calls, root: '' }),
    [disk]: async () => {
      const root = await mkdtemp(join(diskRoot, 'forkspace-bench-'))
      return { fs: nodeFs as unknown as Calls, root, remove: () => rm(root, { recursive: true }) }
    },
  }
  for (const [what, contestantOf] of Object.entries(operations(context))) {
    const contestants = Object.fromEntries(
      Object.entries(sides).map(([side, openPlace]) => [side, contestantOf(openPlace)]),
    )
    const timings: Record<string, Timing> = await race(contestants, { rounds: context.rounds })
    for (const side of ['memfs', disk])
      yield timingRow({ what, ours: timings['ours']!, peer: { name: side, timing: timings[side]! } })
  }
}

function operations(context: Context): Record<string, (openPlace: () => Promise<Place>) => Contestant> {
  const small = context.count(2000)
  const bodies = contents(small, fileBytes)
  const wide = context.count(10_000)
  const moved = context.count(100_000)
  const appends = context.count(5000)
  const piece = contents(1, 100)[0]!
  const name = (number: number): string => `/d/file-${number}`
  const fill = async ({ fs, root }: Place, count: number): Promise<void> => {
    await fs.promises.mkdir(`${root}/d`, { recursive: true })
    for (let i = 0; i < count; i++) fs.writeFileSync(root + name(i), bodies[i % small]!)
  }
  return {
    [`append of ${piece.length} B`]: inPlace(appends, 0, fill, async ({ fs, root }) => {
      for (let i = 0; i < appends; i++) await fs.promises.appendFile(`${root}/d/log`, piece)
    }),
    [`write of ${fileBytes} B`]: inPlace(small, 0, fill, async ({ fs, root }) => {
      for (let i = 0; i < small; i++) await fs.promises.writeFile(root + name(i), bodies[i]!)
    }),
    [`write of ${fileBytes} B, sync`]: inPlace(small, 0, fill, async ({ fs, root }) => {
      for (let i = 0; i < small; i++) fs.writeFileSync(root + name(i), bodies[i]!)
    }),
    [`read of ${fileBytes} B`]: inPlace(small, small, fill, async ({ fs, root }) => {
      let bytes = 0
      for (let i = 0; i < small; i++)
        bytes += ((await fs.promises.readFile(root + name(i))) as Uint8Array).length
      expect(bytes === small * fileBytes, 'the read returned the wrong number of bytes')
    }),
    [`read of ${fileBytes} B, sync`]: inPlace(small, small, fill, async ({ fs, root }) => {
      let bytes = 0
      for (let i = 0; i < small; i++) bytes += (fs.readFileSync(root + name(i)) as Uint8Array).length
      expect(bytes === small * fileBytes, 'the read returned the wrong number of bytes')
    }),
    [`readdir of ${wide} names`]: kept(10, wide, fill, async ({ fs, root }) => {
      const names = (await fs.promises.readdir(`${root}/d`)) as string[]
      expect(names.length === wide, 'names are missing')
    }),
    [`rename of a directory of ${moved} files`]: kept(2, moved, fill, async ({ fs, root }, number) => {
      const [from, to] = number % 2 === 0 ? ['/d', '/moved'] : ['/moved', '/d']
      await fs.promises.rename(root + from, root + to)
    }),
  }
}

type Fill = (place: Place, count: number) => Promise<void>

/** Runs each round in a new place with `files` files. */
function inPlace(
  count: number,
  files: number,
  fill: Fill,
  run: (place: Place) => Promise<void>,
): (openPlace: () => Promise<Place>) => Contestant {
  return (openPlace) => {
    let place: Place
    return {
      count,
      prepare: async () => {
        place = await openPlace()
        await fill(place, files)
      },
      run: () => run(place),
      cleanUp: async () => place.remove?.(),
    }
  }
}

/** Runs all rounds in one place, which is filled once. It is removed with the process or the engine. */
function kept(
  count: number,
  files: number,
  fill: Fill,
  once: (place: Place, number: number) => Promise<void>,
): (openPlace: () => Promise<Place>) => Contestant {
  return (openPlace) => {
    let place: Place | undefined
    return {
      count,
      prepare: async () => {
        if (place !== undefined) return
        place = await openPlace()
        await fill(place, files)
        if (place.remove !== undefined && place.root !== '') {
          const { root } = place
          process.once('exit', () => nodeFs.rmSync(root, { recursive: true, force: true }))
        }
      },
      run: async () => {
        for (let i = 0; i < count; i++) await once(place!, i)
      },
    }
  }
}
