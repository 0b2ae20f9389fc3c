import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { sessionProvider } from '../../src/adapters/node-vfs/index.js'
import { openEngine } from '../../src/index.js'
import { compileSource } from '../support/compile-source.js'

/** A Node with node:vfs; a missing one is an error when FORKSPACE_REQUIRE_ALL is 1. */
const node = process.env['FORKSPACE_NODE26']
if (node === undefined && process.env['FORKSPACE_REQUIRE_ALL'] === '1') {
  throw new Error('FORKSPACE_NODE26 does not name a Node with node:vfs')
}

test.skipIf(node === undefined)('a mounted session supports node:fs and the module loader', async () => {
  const files = ['index', 'adapters/node-vfs/index', 'adapters/level/index']
  const compiled = await compileSource()
  const program = join(import.meta.dirname, 'node-vfs-program.ts')
  const urls = files.map((file) => compiled.url(`${file}.js`))
  const flags = ['--experimental-vfs', '--disable-warning=ExperimentalWarning']
  const run = promisify(execFile)(node!, [...flags, program, ...urls], { timeout: 50_000 })
  // If a check never ends, the program fails, and its results name the check.
  const { stdout } = await run.catch((error: unknown) => error as { stdout: string })
  const results = JSON.parse(stdout) as [name: string, error: string | null][]
  expect(results.filter(([, error]) => error !== null)).toEqual([])
  expect(results.length).toBeGreaterThan(10)
})

test.skipIf(process.getBuiltinModule('node:vfs') !== undefined)(
  'a Node without node:vfs gets an error that names the missing module',
  async () => {
    const engine = await openEngine()
    const session = await engine.sessions.create({})
    expect(() => sessionProvider(session)).toThrow(
      expect.objectContaining({ reason: 'NO_ADAPTER', details: { module: 'node:vfs' } }),
    )
    await engine.close()
  },
)
