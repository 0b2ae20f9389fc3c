import fastGlob from 'fast-glob'
import { glob, globIterate, globStream, globSync } from 'glob'
import { glob as tinyGlob, globSync as tinyGlobSync } from 'tinyglobby'
import { describe, expect, test } from 'vitest'
import { inBoth, writeTree, type Place } from './places.js'

const tree = {
  'package.json': '{}',
  'src/index.ts': '1',
  'src/a/one.ts': '22',
  'src/a/two.js': '333',
  'src/a/deep/er/three.ts': '4444',
  'src/b/four.test.ts': '55555',
  'src/b/[x].ts': '6',
  'src/.hidden/five.ts': '7',
  'src/Ünïcode/日本.ts': '8',
  'node_modules/dep/index.ts': '9',
  'empty/dir': null,
  'src/file-link.ts': '-> a/one.ts',
  linked: '-> src/a',
  dangling: '-> nowhere',
  'src/a/loop': '-> ..',
}

/** Options by the names that all three libraries share. */
interface Case {
  readonly patterns: string | string[]
  readonly ignore?: string[]
  readonly dot?: boolean
  readonly absolute?: boolean
}

const cases: Readonly<Record<string, Case>> = {
  'every file of a kind': { patterns: '**/*.ts', ignore: ['src/a/loop/**'] },
  'one directory': { patterns: 'src/*' },
  braces: { patterns: 'src/{a,b}/*.{ts,js}' },
  'several patterns': { patterns: ['src/a/*.ts', '*.json'] },
  ignored: { patterns: '**/*.ts', ignore: ['**/node_modules/**', '**/*.test.ts', '**/loop/**'] },
  'hidden files': { patterns: 'src/.hidden/**', dot: true },
  'escaped characters': { patterns: String.raw`src/b/\[x\].ts` },
  'names beyond ASCII': { patterns: 'src/Ü*/*.ts' },
  'absolute paths': { patterns: 'src/a/**/*.ts', ignore: ['**/loop/**'], absolute: true },
  'no match': { patterns: 'nothing/**' },
}

/** Each library in each of its forms; they return relative paths with forward slashes, in any order. */
const libraries: Readonly<Record<string, (place: Place, one: Case) => Promise<string[]>>> = {
  'fast-glob, promises': ({ fs, root }, { patterns, ...options }) =>
    fastGlob(patterns, { ...options, fs, cwd: root, followSymbolicLinks: false }),
  'fast-glob, sync': ({ fs, root }, { patterns, ...options }) =>
    Promise.resolve(fastGlob.sync(patterns, { ...options, fs, cwd: root, followSymbolicLinks: false })),
  'fast-glob, stream': ({ fs, root }, { patterns, ...options }) =>
    collect(fastGlob.stream(patterns, { ...options, fs, cwd: root, followSymbolicLinks: false })),
  'fast-glob, symlinks followed': ({ fs, root }, { patterns, ...options }) =>
    fastGlob(patterns, { ...options, fs, cwd: root, deep: 5 }),
  'fast-glob, with stats': async ({ fs, root }, { patterns, ...options }) => {
    const entries = await fastGlob(patterns, { ...options, fs, cwd: root, stats: true, deep: 3 })
    return entries.map(({ path, stats }) => `${path} ${stats?.size} ${stats?.isFile()}`)
  },
  'fast-glob, directories': ({ fs, root }, { patterns, ...options }) =>
    fastGlob(patterns, { ...options, fs, cwd: root, onlyFiles: false, markDirectories: true, deep: 3 }),
  'tinyglobby, promises': ({ fs, root }, { patterns, ...options }) =>
    tinyGlob(patterns, { ...options, fs, cwd: root, followSymbolicLinks: false }),
  'tinyglobby, sync': ({ fs, root }, { patterns, ...options }) =>
    Promise.resolve(tinyGlobSync(patterns, { ...options, fs, cwd: root, followSymbolicLinks: false })),
  'tinyglobby, symlinks followed': ({ fs, root }, { patterns, ...options }) =>
    tinyGlob(patterns, { ...options, fs, cwd: root, onlyFiles: false }),
  'glob, promises': ({ fs, root }, { patterns, ...options }) => glob(patterns, { ...options, fs, cwd: root }),
  'glob, sync': ({ fs, root }, { patterns, ...options }) =>
    Promise.resolve(globSync(patterns, { ...options, fs, cwd: root, mark: true })),
  'glob, stream': ({ fs, root }, { patterns, ...options }) =>
    collect(globStream(patterns, { ...options, fs, cwd: root, nodir: true })),
  'glob, symlinks followed, with stats': async ({ fs, root }, { patterns, ...options }) => {
    const found: string[] = []
    const settings = { ...options, fs, cwd: root, follow: true, stat: true, withFileTypes: true } as const
    const { absolute: _, ...typed } = settings
    for await (const path of globIterate(patterns, typed)) {
      found.push(
        `${path.relativePosix()} ${path.isFile() ? path.size : 'no file'} ${(await path.realpath())?.name}`,
      )
    }
    return found
  },
}

describe.each(Object.keys(libraries))('%s', (library) => {
  test.each(Object.keys(cases))('finds the same in a session as on the host: %s', async (name) => {
    const { host, session } = await inBoth(async (place) => {
      await writeTree(place, tree)
      const found = await libraries[library]!(place, cases[name]!)
      return found.map((path) => path.replace(place.root, '<root>')).sort()
    })
    expect(session).toEqual(host)
    expect(host.length > 0).toBe(name !== 'no match')
  })
})

async function collect(stream: AsyncIterable<unknown>): Promise<string[]> {
  const found: string[] = []
  for await (const path of stream) found.push(String(path))
  return found
}
