/** The demonstration of the main job with a client, unchanged except for the origin of its engine. */
import { afterAll, expect, test, vi } from 'vitest'
import type { EngineOptions } from '../../src/index.js'
import type * as Package from '../../src/index.js'
import { hasGit } from '../support/git-repository.js'
import { openRemote } from '../support/remote.js'

// Replaces `openEngine` with a client's `connect` to a server that is started for it.
vi.mock('forkspace', async (original) => ({
  ...(await original<typeof Package>()),
  openEngine: async (options: EngineOptions) => {
    const remote = await openRemote(options)
    const { sessions, sources } = remote.client
    return { sessions, sources, close: () => remote.close() }
  },
}))

afterAll(() => vi.restoreAllMocks())

test.skipIf(!hasGit)(
  'runs the main job through a client, in memory and on LevelDB',
  { timeout: 240_000 },
  async () => {
    const lines: string[] = []
    vi.spyOn(console, 'log').mockImplementation((line: string) => {
      lines.push(line)
    })
    const failed = vi.spyOn(console, 'error')
    // The demonstration reads a repository from this argument.
    process.argv.length = 2
    await import('../../examples/main-job.js')
    expect(failed).not.toHaveBeenCalled()
    const text = lines.join('\n')
    expect(text.match(/the tree is the same again/g)).toHaveLength(2)
    expect(text.match(/git fsck --strict: clean/g)).toHaveLength(2)
    expect(text).toContain('11 sessions, 10 of them forks; checkpoints: good')
    expect(text).toContain('everything is there')
    expect(text).not.toContain('NOT')
  },
)
