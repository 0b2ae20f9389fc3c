import { expect, test } from 'vitest'
import { seed } from '../support/seed.js'
import { runLoop } from './compiled.js'

test(`memory and files do not grow over time (FORKSPACE_SEED=${seed})`, async () => {
  const stdout = await runLoop('soak', '--minutes', '0.1', '--seed', String(seed))
  expect(stdout).toMatch(/^soak: [\d,]+ operations, 0 rejections that nobody handles, nothing grows$/m)
})

test(`resumes on a disk that was full (FORKSPACE_SEED=${seed})`, async () => {
  const stdout = await runLoop('enospc', '--n', '4', '--seed', String(seed))
  // Not every system lets a process mount a file system.
  expect(stdout).toMatch(/^enospc: (skipped: .*|\d fills, .*, 0 lost, 0 torn, \d resumed, 0 stuck)$/m)
})

test(`loses nothing in power cuts (FORKSPACE_SEED=${seed})`, async () => {
  const stdout = await runLoop('power', '--n', '2', '--seed', String(seed))
  expect(stdout).toMatch(/^power: (skipped: .*|\d cuts, [\d,]+ acknowledged, 0 lost, 0 torn)$/m)
})
