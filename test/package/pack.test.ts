import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '../..')
const run = promisify(execFile)

describe('the packed tarball', () => {
  let directory: string
  let packed: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'pack-'))
    const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', directory]
    const { stdout } = await run('npm', args, { cwd: root, maxBuffer: 2 ** 26 })
    const [{ filename }] = JSON.parse(stdout) as [{ filename: string }]
    await run('tar', ['-xf', join(directory, filename), '-C', directory])
    packed = join(directory, 'package')
  })
  afterAll(() => rm(directory, { recursive: true }))

  const filesOf = async (ending: string): Promise<string[]> =>
    (await readdir(packed, { recursive: true }))
      .filter((name) => name.endsWith(ending))
      .map((name) => join(packed, name))

  test('has no dead relative links', async () => {
    const pages = await filesOf('.md')
    expect(pages).toContain(join(packed, 'README.md'))
    const dead: string[] = []
    for (const page of pages) {
      const text = await readFile(page, 'utf8')
      for (const [, target] of text.matchAll(/\]\((?!https?:|#)([^)#\s]+)/g))
        if (!existsSync(resolve(dirname(page), target!))) dead.push(`${page}: ${target!}`)
    }
    expect(dead).toEqual([])
  })

  test('contains the sources that its declaration maps and source maps name', async () => {
    const maps = await filesOf('.map')
    expect(maps.some((name) => name.endsWith('.d.ts.map'))).toBe(true)
    const missing: string[] = []
    for (const map of maps) {
      const { sources, sourceRoot = '' } = JSON.parse(await readFile(map, 'utf8')) as {
        sources: string[]
        sourceRoot?: string
      }
      for (const source of sources)
        if (!existsSync(resolve(dirname(map), sourceRoot, source))) missing.push(`${map}: ${source}`)
    }
    expect(missing).toEqual([])
  })
})
