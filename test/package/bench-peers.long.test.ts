import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SaxesParser } from 'saxes'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Row } from '../../bench/peers/results.js'
import { BenchCommand, tiny } from '../support/bench-command.js'

const installed = 'forkspace,memfs'

/** Contenders in memory and on disk that each do one thing wrong. */
const wrongContenders = `
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const workspace = (files, change) => ({
  id: 'only',
  write: (path, content) => void files.set(path, Buffer.from(content)),
  read: (path) => Buffer.from(files.get(path)),
  ...change(files),
})
const inMemory = (name, change) => ({
  name, family: name, guarantee: 'memory', settings: '',
  open: async () => ({ create: () => workspace(new Map(), change), close() {} }),
})

export const contenders = [
  inMemory('keeper', (files) => ({ write: (path, content) => void files.set(path, content) })),
  inMemory('loser', (files) => ({
    write: (path, content) => void (files.size === 7 || files.set(path, Buffer.from(content))),
  })),
  inMemory('sharer', (files) => ({ fork: () => workspace(files, () => ({})) })),
  {
    name: 'forgetter', family: 'forgetter', guarantee: 'survives kill -9', settings: '',
    async open(directory) {
      const log = join(directory, 'log')
      const files = new Map()
      if (existsSync(log))
        for (const line of readFileSync(log, 'utf8').trim().split('\\n')) {
          const [path, content] = JSON.parse(line)
          files.set(path, Buffer.from(content, 'base64'))
        }
      let lines = []
      const opened = workspace(files, () => ({
        write(path, content) {
          files.set(path, Buffer.from(content))
          lines.push(JSON.stringify([path, Buffer.from(content).toString('base64')]) + '\\n')
          if (lines.length >= 8) appendFileSync(log, lines.splice(0).join(''))
        },
      }))
      return { create: () => opened, resume: () => opened, close() {} }
    },
  },
]
`

describe('npm run bench -- peers', () => {
  let bench: BenchCommand

  beforeAll(async () => {
    bench = await BenchCommand.create()
  })

  it('is listed with its scenarios', async () => {
    const { stdout } = await bench.run('--list')
    expect(stdout).toMatch(/^peers: write .*\bfork\b.*\bheap$/m)
  })

  it.each([
    [['nothing'], 'no scenario nothing of peers'],
    [['--n', 'many'], '--n takes whole numbers'],
    [['--compare', 'package.json', '--tolerance', '0.5'], '--tolerance takes a number of at least 1'],
    [['--unknown'], "Unknown option '--unknown'"],
    [['--contenders', 'nobody'], 'no contender nobody'],
    [['--tolerance', '2'], '--tolerance needs --compare'],
    [['--compare', 'package.json'], 'package.json is not a file of --save'],
  ])('rejects %j in one line', async (args, message) => {
    const { code, stdout, stderr } = await bench.run('peers', ...args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toContain(message)
    expect(stderr.trimEnd()).not.toContain('\n')
  })

  it('reports plausible figures and no wrong answer of forkspace', { timeout: 600_000 }, async () => {
    const json = join(bench.directory, 'report.json')
    const svg = join(bench.directory, 'report.svg')
    const markdown = join(bench.directory, 'report.md')
    const outputs = ['--save', json, '--svg', svg, '--markdown', markdown]
    const scenarios = ['write', 'restore', 'open', 'heap']
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

  it('shows wrong answers beside the figures', { timeout: 600_000 }, async () => {
    const module = join(bench.directory, 'wrong.mjs')
    await writeFile(module, wrongContenders)
    const json = join(bench.directory, 'wrong.json')
    const chosen = ['--with', module, '--contenders', 'keeper,loser,sharer,forgetter']
    const { code, stdout } = await bench.run('peers', 'write', 'fork', ...tiny, ...chosen, '--json', json)
    expect(code).toBe(0)
    const [write, fork] = (await bench.report(json)).tables
    const notes = (rows: readonly Row[], name: string): readonly string[] =>
      rows.find(({ contender }) => contender === name)!.notes
    expect(notes(write!.rows, 'keeper')).toEqual(["wrong: keeps the caller's buffer"])
    expect(notes(write!.rows, 'loser')).toEqual(['wrong: 13 of 20 files differ'])
    expect(notes(write!.rows, 'forgetter').join()).toMatch(/wrong: lost \d+ of \d+ after kill -9/)
    expect(notes(write!.rows, 'limit: Map')).toEqual([])
    expect(notes(fork!.rows, 'sharer')).toContain('wrong: a parent sees a write of its fork')
    expect(stdout).toMatch(/^keeper .* wrong: keeps the caller's buffer$/m)
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
