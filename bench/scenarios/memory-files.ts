import { openEngine, type FsPromises } from 'forkspace'
import { memfs } from 'memfs'
import { expect, race, type Contestant } from '../support/measure.js'
import { contents, projectPaths, shuffled } from '../support/project-files.js'
import { timingRow } from '../support/rows.js'
import type { Scenario } from '../support/scenario.js'

const fileBytes = 200
const sizes = [2000, 20_000]
const targets = { write: 2.5, overwrite: undefined, read: 4, stat: 5 }

/** The calls that both sides support. */
type Promises = Pick<FsPromises, 'mkdir' | 'writeFile'> & {
  readFile(path: string): Promise<unknown>
  stat(path: string): Promise<{ size: unknown }>
}

/** Both sides make and await the same calls, on a fresh tree in every round. */
export const memoryFiles: Scenario = {
  name: 'memory-files',
  title: `Files of ${fileBytes} B in memory: fs.promises compared with that of memfs`,
  clock: 'cpu',
  async *run(context) {
    for (const size of sizes.map((full) => context.count(full))) {
      await using engine = await openEngine()
      const paths = projectPaths(size)
      const ours = operations(paths, async () => (await engine.sessions.create()).fs.promises)
      const theirs = operations(paths, async () => memfs().fs.promises as unknown as Promises)
      for (const name of ['write', 'overwrite', 'read', 'stat'] as const) {
        const timings = await race({ ours: ours[name], theirs: theirs[name] }, { rounds: context.rounds })
        const speedAtLeast = targets[name]
        yield timingRow({
          what: `${name}, ${size} files`,
          ours: timings.ours,
          peer: { name: 'memfs', timing: timings.theirs },
          clock: 'cpu',
          target: speedAtLeast === undefined ? undefined : { speedAtLeast },
        })
      }
    }
  },
}

type Operation = 'write' | 'overwrite' | 'read' | 'stat'

function operations(paths: readonly string[], open: () => Promise<Promises>): Record<Operation, Contestant> {
  const directories = [...new Set(paths.map((path) => path.slice(0, path.lastIndexOf('/'))))]
  const order = shuffled(paths)
  const bodies = contents(paths.length, fileBytes)
  const otherBodies = contents(paths.length, fileBytes, 2)
  let fs: Promises
  const writeAll = async (all: readonly Buffer[]): Promise<void> => {
    for (let i = 0; i < order.length; i++) await fs.writeFile(order[i]!, all[i]!)
  }
  const start = async (): Promise<void> => {
    fs = await open()
    for (const directory of directories) await fs.mkdir(directory, { recursive: true })
  }
  const startFilled = async (): Promise<void> => {
    await start()
    await writeAll(bodies)
  }
  const count = paths.length
  return {
    write: { count, prepare: start, run: () => writeAll(bodies) },
    overwrite: { count, prepare: startFilled, run: () => writeAll(otherBodies) },
    read: {
      count,
      prepare: startFilled,
      run: async () => {
        let bytes = 0
        for (const path of paths) bytes += ((await fs.readFile(path)) as Uint8Array).length
        expect(bytes === count * fileBytes, 'the reads returned the wrong number of bytes')
      },
    },
    stat: {
      count,
      prepare: startFilled,
      run: async () => {
        let bytes = 0
        for (const path of paths) bytes += Number((await fs.stat(path)).size)
        expect(bytes === count * fileBytes, 'the sizes are wrong')
      },
    },
  }
}
