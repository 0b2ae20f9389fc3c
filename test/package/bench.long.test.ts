import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { compiledProject } from '../support/compile-source.js'
import { hasGit } from '../support/git-repository.js'

interface Figures {
  readonly median: number
  readonly best: number
  readonly cpu?: number
}

interface Row extends Figures {
  readonly what: string
  readonly peer?: Figures
  readonly speed?: number
  readonly growing?: { readonly axis: string; readonly operation: string }
}

interface Report {
  readonly scenarios: readonly { readonly scenario: string; readonly rows: readonly Row[] }[]
}

const run = promisify(execFile)
const scenarios = [
  'import',
  'memory-files',
  'fs',
  'durable',
  'postgres',
  'heap',
  'memory-bounds',
  'trees',
  'trees-on-disk',
  'growth',
  'versions',
  'collection',
  'pauses',
  'git',
  'git-server',
  'services',
  'http',
  'agents',
  'checkouts',
  'inspector',
]
const needGit = new Set(['git', 'git-server', 'versions'])

describe('npm run bench', () => {
  let directory: string

  beforeAll(async () => {
    directory = await compiledProject()
  })

  const short = async (...names: readonly string[]): Promise<Report['scenarios']> => {
    const args = ['--expose-gc', join(directory, 'bench/run.js'), 'smoke', ...names, '--json']
    const { stdout } = await run(process.execPath, args, { maxBuffer: 2 ** 24 })
    return (JSON.parse(stdout) as Report).scenarios
  }

  it.each(scenarios)(
    'reports plausible figures in every row of the short form of %s',
    { timeout: 600_000 },
    async (name) => {
      const [{ scenario, rows }] = (await short(name)) as [Report['scenarios'][number]]
      expect(scenario).toBe(name)
      expect(rows.length > 0).toBe(hasGit || !needGit.has(scenario))
      for (const { what, median, best, cpu = 0, peer, speed = 0 } of rows) {
        const figures = [
          median,
          best,
          cpu,
          speed,
          ...(peer === undefined ? [] : [peer.median, peer.best, peer.cpu ?? 0]),
        ]
        expect({
          what,
          unusable: figures.filter((figure) => !(Number.isFinite(figure) && figure >= 0)),
        }).toEqual({
          what,
          unusable: [],
        })
      }
    },
  )

  it('draws a line for each operation that it measures at several sizes', async () => {
    const chart = join(directory, 'growth.svg')
    const [{ rows }] = (await short('growth', '--chart', chart)) as [Report['scenarios'][number]]
    const growing = rows.flatMap((row) => row.growing ?? [])
    const lines = new Set(growing.map(({ axis, operation }) => `${axis} ${operation}`))
    expect(lines.size).toBeGreaterThan(10)
    expect((await readFile(chart, 'utf8')).match(/<polyline /g)).toHaveLength(lines.size)
  })

  it('lists its scenarios', async () => {
    const { stdout } = await run(process.execPath, [join(directory, 'bench/run.js'), '--list'])
    expect(stdout).toContain(`core: ${scenarios.join(' ')}\n`)
    expect(stdout).toMatch(/^smoke: /m)
  })

  it.each([
    [['nothing'], 'no group or scenario nothing'],
    [['smoke', '--n', 'many'], '--n takes whole numbers'],
    [['--unknown'], "Unknown option '--unknown'"],
    [['smoke', 'peers'], 'peers runs alone'],
  ])('rejects %j in one line', async (args, message) => {
    const failed: unknown = await run(process.execPath, [join(directory, 'bench/run.js'), ...args]).catch(
      (error: unknown) => error,
    )
    expect(failed).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(message) as string })
    expect((failed as { stderr: string }).stderr.trimEnd()).not.toContain('\n')
  })
})
