import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { compiledProject } from '../support/compile-source.js'

const examples = resolve(import.meta.dirname, '../../examples')
const names = readdirSync(examples).filter((name) => name.endsWith('.ts') && name !== 'main-job.ts')

test.concurrent.each(names)('examples/%s prints what its last comment shows', async (name) => {
  const source = await readFile(join(examples, name), 'utf8')
  const comment = /\n\/\/ Prints:\n((?:\/\/.*\n)+)$/.exec(source)?.[1] ?? ''
  const shown = comment.replaceAll(/^\/\/ ?/gm, '')
  const program = join(await compiledProject(), 'examples', name.replace(/\.ts$/, '.js'))
  const { stdout } = await promisify(execFile)(process.execPath, [program])
  expect(stdout).toBe(shown)
})
