import { expect, test } from 'vitest'
import { openPlainLog, type Defect } from './plain-log.js'
import { runSimulations } from './sim.js'

/** What is tested here is the simulation: always the same histories. */
const seed = 3

test('the simplest log keeps what it acknowledged on a simulated disk', async () => {
  const lines: string[] = []
  const onProgress = (line: string): void => void lines.push(line)
  const { failed } = await runSimulations({ seeds: 200, seed, open: openPlainLog, onProgress })
  expect(failed, lines.join('\n')).toEqual([])
})

test.each<Defect>(['sync', 'directory', 'tail', 'fence', 'rewrite'])(
  'a log that leaves out a step is found (%s)',
  async (defect) => {
    const open: typeof openPlainLog = (options) => openPlainLog(options, defect)
    const { failed } = await runSimulations({ seeds: 500, seed, open, onProgress: () => undefined })
    expect(failed.length).toBeGreaterThan(0)
  },
)
