import { expect, test } from 'vitest'
import { runs, seed } from '../support/seed.js'
import { runLoop } from './compiled.js'
import { loops, type LoopName } from './loops.js'

test.each<[LoopName, number]>([
  ['sim', 100],
  ['iofault', 8],
  ['bitrot', 100],
  ['files', 1],
  ['close', 25],
])(
  `a store keeps what it acknowledged, or tells (%s, FORKSPACE_SEED=${seed})`,
  { timeout: 120_000 },
  async (name, n) => {
    const lines: string[] = []
    const onProgress = (line: string): number => lines.push(line)
    const { line, failed } = await loops[name].run({ n: runs(n), minutes: 1, seed, onProgress })
    expect(failed, [...lines.slice(-20), line].join('\n')).toBe(false)
  },
)

test(`nothing grows (FORKSPACE_SEED=${seed})`, async () => {
  const stdout = await runLoop('soak', '--minutes', '0.1', '--seed', String(seed))
  expect(stdout).toMatch(/^soak: [\d,]+ operations, 0 rejections that nobody handles, nothing grows$/m)
})

test(`a disk that was full is used again (FORKSPACE_SEED=${seed})`, async () => {
  const stdout = await runLoop('enospc', '--n', String(runs(4)), '--seed', String(seed))
  // Not every system lets a process mount something, and none can be made to.
  expect(stdout).toMatch(/^enospc: (skipped: .*|\d fills, .*, 0 lost, 0 torn, \d resumed, 0 stuck)$/m)
})

test(`power cuts lose nothing (FORKSPACE_SEED=${seed})`, async () => {
  const stdout = await runLoop('power', '--n', String(runs(2)), '--seed', String(seed))
  expect(stdout).toMatch(/^power: (skipped: .*|\d cuts, [\d,]+ acknowledged, 0 lost, 0 torn)$/m)
})
