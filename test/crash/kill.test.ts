import { afterAll, beforeAll, expect, test } from 'vitest'
import { seed } from '../model/seed.js'
import { compileLoops, type CompiledLoops } from './compiled.js'

let loops: CompiledLoops

beforeAll(async () => {
  loops = await compileLoops()
})

afterAll(() => loops.remove())

test.each([
  ['kill', 'relaxed', 8],
  ['kill', 'full', 4],
  ['services', 'relaxed', 4],
  ['services', 'full', 2],
  ['collect', 'relaxed', 6],
  ['collect', 'full', 2],
])(
  `what was acknowledged survives kill -9, whole (%s, %s, FORKSPACE_SEED=${seed})`,
  async (loop, durability, kills) => {
    const args = ['--n', String(kills), '--seed', String(seed), '--durability', durability]
    const stdout = await loops.run(loop, ...args)
    expect(stdout).toMatch(
      /^kill: \d+ kills, [\d,]+ acknowledged, 0 lost, 0 torn, opened in \d+ ms, at most \d+ ms$/m,
    )
  },
)
