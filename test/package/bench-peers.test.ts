import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Row } from '../../bench/peers/results.js'
import { BenchCommand, tiny } from '../support/bench-command.js'

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
    [['peers', '--contenders', 'nobody'], 'no contender nobody'],
    [['peers', '--tolerance', '2'], '--tolerance needs --compare'],
    [['peers', '--compare', 'package.json'], 'package.json is not a file of --save'],
    [['smoke', 'peers'], 'peers runs alone'],
  ])('rejects %j in one line', async (args, message) => {
    const { code, stdout, stderr } = await bench.run(...args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toContain(message)
    expect(stderr.trimEnd()).not.toContain('\n')
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
})
