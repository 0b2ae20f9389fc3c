import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { bundledProject } from '../support/compile-source.js'
import type { Outcome } from './child.js'
import { alone, differences, newerSyntax, notRun } from './expected.js'
import { isLong } from '../support/seed.js'

const directory = resolve(import.meta.dirname, '../fixtures/node-fs')
const files = readdirSync(join(directory, 'parallel'))
/** Every file in `npm run test:long`, every third one in `npm test`. */
const chosen = files.filter((_, index) => index % (isLong ? 1 : 5) === 0)
/** A generous limit: a file that takes longer waits for something that never happens. */
const fileMs = 15_000
const flags = ['--experimental-vm-modules', '--no-warnings', '--expose-gc', '--expose-internals']

/** Runs files in one process in turn. A file that ends the process, or waits too long, fails alone. */
async function run(compiled: string, names: readonly string[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  let left = [...names]
  while (left.length > 0) {
    const { done, started, end } = await runOnce(compiled, left)
    outcomes.push(...done)
    if (done.length < left.length) {
      if (started === undefined) throw new Error(`the process ended before ${left[0]} began`)
      if (!done.some(({ file }) => file === started))
        outcomes.push({
          file: started,
          error: `the process ended while the file ran: ${end}`,
          skipped: false,
        })
    }
    left = left.filter((name) => !outcomes.some(({ file }) => file === name))
  }
  return outcomes
}

function runOnce(
  compiled: string,
  names: string[],
): Promise<{ done: Outcome[]; started: string | undefined; end: string }> {
  const program = join(compiled, 'test/node-fs/child.js')
  const child = spawn(process.execPath, [...flags, program, directory, ...names], {
    cwd: '/',
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  })
  const done: Outcome[] = []
  let [text, started]: [string, string | undefined] = ['', undefined]
  let timer: NodeJS.Timeout | undefined
  let isLate = false
  child.stdio[3]!.on('data', (data: Buffer) => {
    const lines = (text + data.toString()).split('\n')
    text = lines.pop()!
    for (const line of lines) {
      const message = JSON.parse(line) as Outcome | { readonly started: string }
      clearTimeout(timer)
      if ('file' in message) done.push(message)
      else started = message.started
      timer = setTimeout(() => {
        isLate = true
        child.kill('SIGKILL')
      }, fileMs)
    }
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      resolve({ done, started, end: isLate ? `after ${fileMs} ms` : (signal ?? `exit code ${code}`) })
    })
  })
}

test('every file of Node’s own fs tests passes, or fails because of a documented difference', async () => {
  const compiled = await bundledProject()
  const separate = alone.filter((name) => chosen.includes(name))
  const together = chosen.filter((name) => !alone.includes(name) && notRun[name] === undefined)
  const outcomes = (
    await Promise.all([
      run(
        compiled,
        together.filter((_name, index) => index % 2 === 0),
      ),
      run(
        compiled,
        together.filter((_name, index) => index % 2 === 1),
      ),
      ...separate.map((name) => run(compiled, [name])),
    ])
  ).flat()
  const expectedToFail = new Set(Object.values(differences).flat())
  const wrong = outcomes.flatMap(({ file, error }) => {
    if (newerSyntax.has(file) && error?.includes('SyntaxError') === true) return []
    if (error === null) return expectedToFail.has(file) ? [`${file} passes: take it off the list`] : []
    return expectedToFail.has(file) ? [] : [`${file}: ${error.slice(0, 1000)}`]
  })
  expect(wrong).toEqual([])
  expect(outcomes.map(({ file }) => file).sort()).toEqual([...together, ...separate].sort())
  // Ensures that not all of them are skipped.
  expect(outcomes.filter(({ skipped }) => skipped).length).toBeLessThan(20)
}, 100_000)

test('every reason is a row of the table of differences, and every listed file exists once', () => {
  const page = readFileSync(resolve(import.meta.dirname, '../../docs/node-fs.md'), 'utf8')
  const rows = page.split('\n').filter((line) => line.startsWith('| '))
  const documented = new Set(rows.map((line) => line.split('|')[1]!.trim()))
  expect(Object.keys(differences).filter((reason) => !documented.has(reason))).toEqual([])
  const listed = [...Object.values(differences).flat(), ...newerSyntax, ...alone, ...Object.keys(notRun)]
  expect(listed.filter((name) => !files.includes(name))).toEqual([])
  expect(new Set(listed).size).toBe(listed.length)
})
