import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { execPath } from 'node:process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { seed } from '../model/seed.js'

const run = promisify(execFile)
let directory: string

beforeAll(async () => {
  // Processes of their own know no TypeScript.
  const root = resolve(import.meta.dirname, '../..')
  directory = await mkdtemp(join(tmpdir(), 'crash-'))
  const compilerOptions = { noEmit: false, noCheck: true, sourceMap: true, rootDir: root, outDir: directory }
  const files = ['run.ts', 'writer.ts', 'services-writer.ts'].map((file) => join(root, 'test/crash', file))
  const config = { extends: join(root, 'tsconfig.json'), compilerOptions, files, include: [] }
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config))
  await writeFile(join(directory, 'package.json'), '{"type":"module"}')
  await symlink(join(root, 'node_modules'), join(directory, 'node_modules'), 'junction')
  await run(execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', directory])
})

afterAll(() => rm(directory, { recursive: true }))

test.each([
  ['kill', 'relaxed', 8],
  ['kill', 'full', 4],
  ['services', 'relaxed', 4],
  ['services', 'full', 2],
])(
  `what was acknowledged survives kill -9, whole (%s, %s, FORKSPACE_SEED=${seed})`,
  async (loop, durability, kills) => {
    const args = [loop, '--n', String(kills), '--seed', String(seed), '--durability', durability]
    const script = join(directory, 'test/crash/run.js')
    const { stdout } = await run(execPath, ['--enable-source-maps', script, ...args]).catch(
      (failed: { stdout: string }) => failed,
    )
    expect(stdout).toMatch(/^kill: \d+ kills, [\d,]+ acknowledged, 0 lost, 0 torn, slowest open \d+ ms$/m)
  },
)
