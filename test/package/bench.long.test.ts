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
const needGit = new Set(['git', 'git-server', 'versions'])

describe('npm run bench', () => {
  let directory: string

  beforeAll(async () => {
    directory = await compiledProject()
  })

  it('reports plausible figures in every row of the short form', { timeout: 600_000 }, async () => {
    const chart = join(directory, 'growth.svg')
    const args = ['--expose-gc', join(directory, 'bench/run.js'), 'smoke', '--json', '--chart', chart]
    const { stdout } = await run(process.execPath, args, { maxBuffer: 2 ** 24 })
    const { scenarios } = JSON.parse(stdout) as Report
    expect(scenarios.length).toBeGreaterThan(0)
    const growing = scenarios.flatMap(({ rows }) => rows.flatMap((row) => row.growing ?? []))
    const lines = new Set(growing.map(({ axis, operation }) => `${axis} ${operation}`))
    expect(lines.size).toBeGreaterThan(10)
    expect((await readFile(chart, 'utf8')).match(/<polyline /g)).toHaveLength(lines.size)
    for (const { scenario, rows } of scenarios) {
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
    }
  })

  it('lists its scenarios', async () => {
    const { stdout } = await run(process.execPath, [join(directory, 'bench/run.js'), '--list'])
    expect(stdout).toMatch(/^core: .*\bmemory-files\b.*\bversions\b.*\bgit\b/m)
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
