import { expect, test } from 'vitest'
import { runs, seed } from '../support/seed.js'
import { openPlainLog, type Defect } from './plain-log.js'
import { runSimulations } from './sim.js'

test(
  `a minimal log keeps acknowledged commits on a simulated disk (FORKSPACE_SEED=${seed})`,
  { timeout: 120_000 },
  async () => {
    const lines: string[] = []
    const onProgress = (line: string): void => void lines.push(line)
    const { failed } = await runSimulations({ seeds: runs(800), seed, open: openPlainLog, onProgress })
    expect(failed, lines.join('\n')).toEqual([])
  },
)

test.each<Defect>(['sync', 'directory', 'tail', 'fence', 'rewrite', 'space'])(
  'detects a log that omits a step (%s)',
  async (defect) => {
    const open: typeof openPlainLog = (options) => openPlainLog(options, defect)
    // The histories are fixed: each defect shows in some of them.
    const options = { seeds: 500, seed: 3, open, onProgress: () => undefined, mostFailures: 1 }
    expect((await runSimulations(options)).failed).toHaveLength(1)
  },
)
