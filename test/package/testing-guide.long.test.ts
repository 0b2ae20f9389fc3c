import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, inject, test } from 'vitest'

const root = resolve(import.meta.dirname, '../..')
const page = await readFile(join(root, 'docs/guides/tests.md'), 'utf8')
/** The blocks for test runners. Blocks without that comment are run by the test of the documentation. */
const blocks = [...page.matchAll(/<!-- not run: needs a test runner -->\n\n```[jt]s\n([^]*?)```/g)].map(
  ([, code]) => code ?? '',
)

/** The module of the guide's example. */
const load = `import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
export const load = () => JSON.parse(readFileSync('/config.json', 'utf8'))
export const loadLater = async () => JSON.parse(await readFile('/config.json', 'utf8'))
`

let directory: string

beforeAll(async () => {
  directory = await mkdtemp(join(inject('runDirectory'), 'guide-'))
})

test('has blocks for Vitest, node:test and Jest', () => {
  const runners = blocks.map((code) => /from '(vitest|node:test)'/.exec(code)?.[1] ?? 'jest')
  expect(runners).toEqual(['vitest', 'node:test', 'jest', 'vitest'])
})

test('the blocks for Vitest pass in Vitest', async () => {
  const place = join(directory, 'vitest')
  await mkdir(place)
  await writeFile(join(place, 'load.ts'), load)
  await writeFile(
    join(place, 'vitest.config.mjs'),
    `export default { test: { root: ${JSON.stringify(place)} } }\n`,
  )
  for (const [index, code] of blocks.filter((block) => block.includes("from 'vitest'")).entries())
    await writeFile(join(place, `${index}.test.ts`), code)
  const { stdout } = await run(
    join(root, 'node_modules/vitest/vitest.mjs'),
    ['run', '--config', join(place, 'vitest.config.mjs'), '--reporter=json'],
    place,
  )
  expect(JSON.parse(stdout)).toMatchObject({ success: true, numPassedTests: 4, numFailedTests: 0 })
})

test('the block for node:test passes in node:test', async () => {
  const place = join(directory, 'node-test')
  await mkdir(place)
  const program = join(place, 'guide.test.mjs')
  await writeFile(program, blocks.find((block) => block.includes("from 'node:test'")) ?? '')
  const { stdout } = await run('--test', ['--test-reporter=tap', program], place)
  expect(stdout).toMatch(/^# pass 1$/m)
  expect(stdout).toMatch(/^# fail 0$/m)
})

async function run(first: string, args: readonly string[], cwd: string): Promise<{ stdout: string }> {
  const { NODE_TEST_CONTEXT: _, VITEST: __, ...env } = process.env
  return promisify(execFile)(process.execPath, [first, ...args], { cwd, env, maxBuffer: 2 ** 24 }).catch(
    (error: { stdout: string; stderr: string }) => {
      throw new Error(`${error.stdout}\n${error.stderr}`)
    },
  )
}
