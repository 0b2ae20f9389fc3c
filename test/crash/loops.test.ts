import { expect, test } from 'vitest'
import { isLong, runs, seed } from '../support/seed.js'
import { loops, type LoopName } from './loops.js'

test.each<[LoopName, number]>([
  ['sim', 100],
  ['iofault', 8],
  ['bitrot', 100],
  ...(isLong ? [['files', 1] as [LoopName, number]] : []),
  ['close', 25],
])(
  `keeps acknowledged data or reports its loss (%s, FORKSPACE_SEED=${seed})`,
  { timeout: 120_000 },
  async (name, n) => {
    const lines: string[] = []
    const onProgress = (line: string): number => lines.push(line)
    const { line, failed } = await loops[name].run({
      n: runs(n),
      minutes: 1,
      seed,
      engines: 1,
      collect: false,
      blobs: false,
      onProgress,
    })
    expect(failed, [...lines.slice(-20), line].join('\n')).toBe(false)
  },
)
