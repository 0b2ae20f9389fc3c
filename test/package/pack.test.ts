import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, stat, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import type * as Entry from '../../src/adapters/inspector/index.js'
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

  test('has no tabs at the start of lines, which the build removes, so no text in a source may have them', async () => {
    const sources = (await readdir(join(root, 'src'), { recursive: true })).filter((name) =>
      /\.tsx?$/.test(name),
    )
    expect(sources.length).toBeGreaterThan(500)
    const texts = await Promise.all(sources.map((name) => readFile(join(root, 'src', name), 'utf8')))
    expect(sources.filter((_, index) => /^\t/m.test(texts[index]!))).toEqual([])
    const bundles = await filesOf('.js')
    const code = await Promise.all(bundles.map((name) => readFile(name, 'utf8')))
    expect(bundles.filter((_, index) => /^\t/m.test(code[index]!))).toEqual([])
  })

  test('has a declaration for each entry point, and no more files of declarations than bundles', async () => {
    const { exports } = JSON.parse(await readFile(join(packed, 'package.json'), 'utf8')) as {
      exports: Record<string, string | { types: string }>
    }
    const types = Object.values(exports).flatMap((entry) => (typeof entry === 'string' ? [] : [entry.types]))
    expect(types.filter((name) => !existsSync(join(packed, name)))).toEqual([])
    const shared = 12
    expect((await filesOf('.d.ts')).length).toBeLessThan(types.length + shared)
  })

  test('has declarations that need no optional package of another entry point', async () => {
    const { exports, peerDependencies } = JSON.parse(
      await readFile(join(packed, 'package.json'), 'utf8'),
    ) as {
      exports: Record<string, string | { types: string }>
      peerDependencies: Record<string, string>
    }
    const importsOf = async (file: string): Promise<string[]> =>
      [...(await readFile(file, 'utf8')).matchAll(/^(?:import|export) .*?'([^']+)';$/gm)].map(
        ([, name]) => name!,
      )
    const optional = (names: readonly string[]): string[] =>
      names.filter((name) => Object.keys(peerDependencies).some((one) => `${name}/`.startsWith(`${one}/`)))
    const foreign: string[] = []
    for (const entry of Object.values(exports)) {
      if (typeof entry === 'string') continue
      const first = join(packed, entry.types)
      const own = new Set(optional(await importsOf(first)))
      const seen = new Set([first])
      for (const file of seen) {
        const imports = await importsOf(file)
        for (const name of optional(imports)) if (!own.has(name)) foreign.push(`${entry.types}: ${name}`)
        for (const name of imports)
          if (name.startsWith('.')) seen.add(resolve(dirname(file), name.replace(/\.js$/, '.d.ts')))
      }
      expect(seen.size).toBeGreaterThan(1)
    }
    expect(foreign).toEqual([])
  })

  test('maps stack traces to lines of the sources', async () => {
    const lines = [
      `import { openEngine } from ${JSON.stringify(join(root, 'dist/index.js'))}`,
      `await openEngine({ storage: 5 }).catch(({ stack }) => console.log(stack))`,
    ]
    const args = ['--enable-source-maps', '--input-type=module', '-e', lines.join('\n')]
    const { stdout } = await run(process.execPath, args, { cwd: root })
    expect(stdout).toMatch(/src\/engine\/\S+\.ts:\d+:\d+/)
  })

  test('serves a page of the inspector that is complete, small, and loads nothing from other places', async () => {
    // The tarball has no dependencies.
    await symlink(join(root, 'node_modules'), join(directory, 'node_modules'))
    const { inspector } = (await import(
      pathToFileURL(join(packed, 'dist/adapters/inspector/index.js')).href
    )) as typeof Entry
    const nobody = (): never => {
      throw new Error('the page needs no token')
    }
    const handle = inspector({ baseUrl: 'http://127.0.0.1', token: 'none' }, { authenticate: nobody })
    const get = async (path: string): Promise<Uint8Array> => {
      const response = await handle(new Request(`http://localhost${path}`))
      expect([path, response.status]).toEqual([path, 200])
      return new Uint8Array(await response.arrayBuffer())
    }
    const html = Buffer.from(await get('/')).toString()
    const linked = [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, target]) => target!)
    expect(linked.toSorted()).toEqual(['icon.svg', 'page.css', 'page.js'])
    let bytes = 0
    for (const name of ['', ...linked]) {
      const content = await get(`/${name}`)
      // The tests of the page run on the files of the build.
      const built = join(root, 'dist/adapters/inspector/page', name === '' ? 'index.html' : name)
      expect(Buffer.from(content).equals(await readFile(built))).toBe(true)
      bytes += gzipSync(content).byteLength
      const urls =
        Buffer.from(content)
          .toString()
          .match(/(?:https?:)?\/\/[a-z\d-]+\.[a-z\d./-]+/gi) ?? []
      // Names of the namespaces of markup are no addresses to load.
      expect([name, urls.filter((url) => !url.startsWith('http://www.w3.org/'))]).toEqual([name, []])
    }
    expect(bytes).toBeLessThan(60_000)
  })

  test('takes at most 1 MB', async () => {
    const [tarball] = (await readdir(directory)).filter((name) => name.endsWith('.tgz'))
    expect((await stat(join(directory, tarball!))).size).toBeLessThanOrEqual(1_000_000)
  })
})
