import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SaxesParser } from 'saxes'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Row } from '../../bench/peers/results.js'
import { BenchCommand, tiny } from '../support/bench-command.js'

const installed = 'forkspace,memfs,node:fs on disk,classic-level'

describe('npm run bench -- peers', () => {
  let bench: BenchCommand

  beforeAll(async () => {
    bench = await BenchCommand.create()
  })

  it.each([
    [['nothing'], 'no scenario nothing of peers'],
    [['--n', 'many'], '--n takes whole numbers'],
    [['--compare', 'package.json', '--tolerance', '0.5'], '--tolerance takes a number of at least 1'],
    [['--unknown'], "Unknown option '--unknown'"],
  ])('rejects %j', async (args, message) => {
    const { code, stderr } = await bench.run('peers', ...args)
    expect(code).toBe(1)
    expect(stderr).toContain(message)
  })

  it('reports plausible figures and no wrong answer of forkspace', { timeout: 600_000 }, async () => {
    const json = join(bench.directory, 'report.json')
    const svg = join(bench.directory, 'report.svg')
    const markdown = join(bench.directory, 'report.md')
    const outputs = ['--save', json, '--svg', svg, '--markdown', markdown]
    const scenarios = ['write', 'read', 'batch', 'fork', 'restore', 'open', 'heap']
    const ended = await bench.run('peers', ...scenarios, ...tiny, '--contenders', installed, ...outputs)
    expect(ended).toMatchObject({ code: 0 })
    const { tables } = await bench.report(json)
    expect(tables.map(({ scenario }) => scenario)).toEqual(scenarios)
    for (const { scenario, unit, rows } of tables) {
      const own = rows.filter(({ family }) => family === 'forkspace')
      expect(own.map(({ notes }) => notes).flat()).toEqual([])
      const measured = rows.filter(({ outcome }) => outcome === 'measured')
      expect([scenario, measured.length >= 2]).toEqual([scenario, true])
      for (const row of measured)
        expect([scenario, row.contender, unusable(row, unit)]).toEqual([scenario, row.contender, []])
      expect(rows.filter(({ outcome }) => outcome === 'failed')).toEqual([])
    }
    expect(tagsOf(await readFile(svg, 'utf8'))).toContain('rect')
    expect(await readFile(markdown, 'utf8')).toMatch(/^\| forkspace memory \| memory \|/m)

    const chart = join(bench.directory, 'chart.svg')
    expect(await bench.run('peers', '--from', json, '--chart', chart)).toMatchObject({ code: 0, stdout: '' })
    expect(tagsOf(await readFile(chart, 'utf8'))).toContain('circle')
  })

  it('compares ratios to the limits with an earlier run', { timeout: 600_000 }, async () => {
    const before = join(bench.directory, 'before.json')
    const stat = ['stat', ...tiny, '--contenders', 'memfs']
    expect(await bench.run('peers', ...stat, '--save', before)).toMatchObject({ code: 0 })
    const times = async (factor: number): Promise<string> => {
      const { tables, node } = await bench.report(before)
      const scaled = tables.map((table) => ({
        ...table,
        rows: table.rows.map((row) => ({
          ...row,
          ...(row.toLimit !== undefined && { toLimit: row.toLimit * factor }),
        })),
      }))
      const file = join(bench.directory, `times-${factor}.json`)
      await writeFile(file, JSON.stringify({ node, tables: scaled }))
      return file
    }
    const same = await bench.run('peers', ...stat, '--compare', await times(1000))
    expect(same).toMatchObject({ code: 0, stdout: expect.stringContaining('No row is slower') as string })
    const worse = await bench.run('peers', ...stat, '--compare', await times(0.001), '--tolerance', '2')
    expect(worse).toMatchObject({ code: 1 })
    expect(worse.stdout).toMatch(/^stat, .*, memfs: .*x of the limit instead of .*x$/m)
  })
})

/** The figures of a row that are missing or impossible. */
function unusable(row: Row, unit: 'time' | 'bytes'): string[] {
  const figures = unit === 'bytes' ? (['bytes'] as const) : (['cold', 'coldCpu', 'wall', 'cpu'] as const)
  return figures.filter((figure) => {
    const value = row[figure]
    return value === undefined || !Number.isFinite(value) || value < 0
  })
}

/** Throws if the text is not well-formed XML. */
function tagsOf(xml: string): string[] {
  const tags: string[] = []
  const parser = new SaxesParser({ xmlns: true })
  parser.on('opentag', ({ name }) => tags.push(name))
  parser.on('error', (error) => {
    throw error
  })
  parser.write(xml).close()
  return tags
}
