import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, join, posix, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { compileSource, type CompiledSource } from './support/compile-source.js'

const root = resolve(import.meta.dirname, '../src')

/** From the bottom up. A file imports from its own folder and from the folders before it. */
const layers = [
  'base',
  'text',
  'storage',
  'cas',
  'tree',
  'records',
  'operations',
  'session',
  'fs',
  'services',
  'facade',
] as const

/** The services: no file of the layer imports one of them. */
const services = [
  'analytics',
  'annotations',
  'approvals',
  'bundles',
  'bus',
  'cache',
  'check',
  'checkouts',
  'collection',
  'commit-summary',
  'commits',
  'file-locks',
  'health',
  'merges',
  'posix-locks',
  'repair',
  'secrets',
  'sources',
  'tree-exports',
  'usage',
]

/** Modules that files in other folders of the layer may import too. */
const servicesShare = ['quota', 'host-ports', 'bundle-checks', 'bundle-facts']

/** The packages that the engine loads, each with the only files that wrap it. */
const enginePackages: Readonly<Record<string, readonly string[]>> = {
  mitt: ['engine/base/emitter.ts'],
  'async-mutex': ['engine/base/keyed-mutex.ts'],
  diff: ['engine/text/git-patch.ts'],
  re2js: ['engine/text/regular-expression.ts'],
}

/** The packages that are loaded with the engine. The others are loaded on first use. */
const loadedAtOnce = ['mitt', 'async-mutex']

/** Composes the engine; the engine's index exports it. */
const composition = 'engine/create-engine.ts'

/** The only engine files that import zod. Others import only their types, so that the engine loads without it. */
const schemas = 'engine/operations/schemas/'

/** Also loads the schemas. */
const contract = 'engine/contract.ts'

/** For clients, which have no engine; also loads the schemas. */
const wire = 'engine/client-contract.ts'

/** Composes the package and its adapters, as an embedder does. */
const commandLine = 'adapters/cli/'

/** The parts of `testing.ts`, which opens the engine for them. */
const testing = 'adapters/testing/'

const engineBuiltins = ['crypto', 'buffer', 'events', 'stream', 'zlib', 'diagnostics_channel']

/** Access to clocks, randomness and the process, which must be passed in instead. */
const worldly =
  /\bprocess\s*\.|\bDate\s*\.\s*now\b|\bnew\s+Date\s*\(\s*\)|\bMath\s*\.\s*random\b|\bperformance\s*\./

/** A check of a store's `capabilities.durable`. Other code calls the parts that were chosen by it. */
const asksDurable = /\.\s*durable\b|\bdurable\b[^=;(]*\}\s*=(?!=)/
const mayAskDurable = (name: string): boolean => name.startsWith('engine/storage/') || name === composition

/** Adapters that are loaded on demand. */
const lazyAdapters = ['archive', 'git', 'host', 'junit']

/**
 * Adapters that may import another one: git opens files of local repositories through the host adapter, and adapters of
 * agent frameworks give them the tools, and take checkpoints of their turns.
 */
const adapterOfAdapter: Readonly<Record<string, readonly string[]>> = {
  'adapters/ai-sdk/': ['adapters/tools/index.ts'],
  'adapters/claude/': ['adapters/tools/parts.ts', 'adapters/turns/index.ts'],
  'adapters/deepagents/': ['adapters/tools/parts.ts', 'adapters/turns/index.ts'],
  'adapters/git-server/': ['adapters/git/parts.ts', 'adapters/http/parts.ts'],
  'adapters/git/': ['adapters/host/index.ts'],
  'adapters/inspector/': ['adapters/http/index.ts', 'adapters/http/parts.ts'],
  'adapters/mastra/': ['adapters/tools/parts.ts', 'adapters/turns/index.ts'],
  'adapters/mcp/': ['adapters/tools/parts.ts'],
  'adapters/openai-agents/': ['adapters/tools/index.ts', 'adapters/tools/parts.ts'],
  'adapters/s3/': ['adapters/postgres/blob-bucket.ts'],
  'adapters/tanstack/': ['adapters/tools/index.ts'],
  'adapters/turns/': ['adapters/tools/parts.ts'],
  'adapters/webdav/': ['adapters/http/index.ts', 'adapters/http/parts.ts'],
}

/**
 * A number that looks like a bound: a decimal from 1,000, a power of two from 1,024, or a multiple of 1,024. Bits are
 * written in base 8 and 16.
 */
const large =
  /(?<![\w.])(?:[1-9][\d_]{3,}n?|\d+ \* 1024|\d+n? \*\* \d{2,}n?|\d+(?:\.\d+)?e\d+|\d+n? << \d{2,}n?)(?![\w.])/

/** A constant whose name says that it is a bound, whatever its value. */
const named = /^(?:max|min|most|least|longest)[A-Z]|AtOnce|Per[A-Z]|(?:Ms|Max|Retries|Timeout)$/

/** Large numbers that bound nothing, by their file and name. All other constants that look like bounds are limits. */
const notBounds: Readonly<Record<string, readonly string[]>> = {
  'units of time and size': [
    'adapters/host/host-stat.ts secondNs',
    'adapters/host/host-stat.ts tickNs',
    'engine/base/ids.ts ticksPerMs',
    'engine/services/usage.ts gigabyte',
    'engine/services/usage.ts hourMs',
    'engine/services/usage.ts minuteMs',
    'engine/services/usage.ts monthMs',
    'engine/session/usage/usage-rollup.ts hourMs',
    'engine/storage/metered-store.ts hourMs',
    'engine/storage/metered-store.ts minuteMs',
  ],
  'the values that a type or format can have': [
    'adapters/archive/tar-reader.ts latestMs',
    'adapters/archive/tar-writer.ts latestHeaderSeconds',
    'adapters/git/pack/pack-index.ts largeOffset',
    'adapters/git/work-tree.ts longestName',
    'adapters/http/operations/json-bounds.ts hashSeed',
    'engine/fs/arguments.ts int32Max',
    'engine/fs/ranges.ts int32Max',
    'engine/fs/values.ts uint32Max',
    'engine/operations/schemas/wire-types.ts maxInt64',
    'engine/text/base85.ts bytesPerLine',
    'engine/services/bundles/bundle-checks.ts lastTime',
    'engine/services/locks/posix-lock-ranges.ts endOfRanges',
    'engine/storage/keys.ts maxSeq',
  ],
  'sizes that a format fixes': [
    'adapters/git/pack/pack-entry.ts maxEntryHeaderBytes',
    'adapters/level/format-1/level-log.ts blockBytes',
    'adapters/level/index/index-file.ts mostOperationBytes',
    'adapters/level/log/segment-format.ts blobPieceBytes',
  ],
  'values that calls of node:fs return': [
    'engine/fs/open-files.ts firstNumber',
    'engine/fs/stats.ts blockSize',
  ],
  'the memory that something takes, or takes at first': [
    'engine/base/digest-cache.ts firstCapacity',
    'engine/services/gc/mark.ts bytesPerVisit',
    'engine/session/table/live.ts ownBytes',
    'engine/tree/node-cache.ts bytesPerCharacter',
  ],
  'parts of an algorithm': ['engine/base/digest-set.ts bitsPerDigest'],
  'syntax of a command': ['adapters/cli/diff-verbs.ts maxLabels'],
}

/** Modules from which only types may be imported, and the files that may do so. */
const typesOnly: Readonly<Record<string, RegExp>> = { 'node:fs': /^engine\/fs\// }

interface Import {
  readonly specifier: string
  readonly dynamic: boolean
  readonly types?: boolean
}

interface SourceFile {
  /** Relative to src, with forward slashes. */
  readonly name: string
  readonly code: string
  readonly imports: readonly Import[]
}

const sources: readonly SourceFile[] = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .map((name) => name.replaceAll('\\', '/'))
  .filter((name) => /\.tsx?$/.test(name))
  .sort()
  .map((name) => parse(name, readFileSync(join(root, name), 'utf8')))

describe('every file of src', () => {
  test('is found', () => {
    const names = sources.map(({ name }) => name)
    expect(names).toContain('index.ts')
    expect(names).toContain('engine/ports.ts')
    const empty = layers.filter((layer) => !names.some((name) => name.startsWith(`engine/${layer}/`)))
    expect(empty).toEqual([])
  })

  test('of the engine belongs to a layer', () => {
    const engine = sources.filter(({ name }) => name.startsWith('engine/'))
    expect(engine.filter(({ name }) => place(name) === undefined).map(({ name }) => name)).toEqual([])
  })

  test('imports only what its layer allows', () => {
    expect(sources.flatMap(violations)).toEqual([])
  })

  test('is in no import cycle, not even for a type', () => {
    expect(importCircles(sources)).toEqual([])
  })

  test('of the engine does not use clocks, randomness or the process directly', () => {
    const found = sources.filter(({ name, code }) => name.startsWith('engine/') && worldly.test(code))
    expect(found.map(({ name }) => name)).toEqual([])
  })

  test('of the engine does not check for a durable store, except in composition', () => {
    const asking = sources.filter(({ name, code }) => name.startsWith('engine/') && asksDurable.test(code))
    expect(asking.map(({ name }) => name).filter((name) => !mayAskDurable(name))).toEqual([])
    expect(asking.map(({ name }) => name)).toContain(composition)
  })

  test('has its bounds in the limits of its component', () => {
    expect(sources.flatMap(boundsOf).sort()).toEqual(Object.values(notBounds).flat().sort())
  })

  test('has only static imports: no computed import, no require', () => {
    const hidden = /\brequire\s*\(|\bcreateRequire\b|(?:await|return|=>|=|[(,:])\s*import\s*\((?!\s*['"])/
    expect(sources.filter(({ code }) => hidden.test(code)).map(({ name }) => name)).toEqual([])
  })
})

describe('the rules', () => {
  test.each([
    ['an import of a higher layer', 'engine/base/x.ts', "import { a } from '../storage/keys.js'"],
    ['a type of a higher layer', 'engine/tree/x.ts', "import type { A } from '../session/core.js'"],
    ['an inline type of a higher layer', 'engine/cas/x.ts', "let a: import('../tree/node.js').Node"],
    ['a re-export of a higher layer', 'engine/session/x.ts', "export * from '../fs/stats.js'"],
    ['an import over several lines', 'engine/fs/x.ts', "import {\n  a,\n  b,\n} from '../facade/files.js'"],
    ['an import for its effects', 'engine/storage/x.ts', "import '../cas/blob.js'"],
    ['the entry point of the engine, from inside', 'engine/facade/x.ts', "import { a } from '../index.js'"],
    ['the ports from inside', 'engine/services/x.ts', "import type { A } from '../ports.js'"],
    ['a service from another', 'engine/services/sources/commits.ts', "import { a } from './sources.js'"],
    ['a service from a helper', 'engine/services/sources/jobs.ts', "import { a } from './sources.js'"],
    [
      'what another service rests on',
      'engine/services/bus/bus.ts',
      "import { a } from '../cache/cache-content.js'",
    ],
    [
      'schemas for more than types',
      'engine/facade/x.ts',
      "import { a } from '../operations/schemas/index.js'",
    ],
    ['schemas in the entry point', 'engine/index.ts', "export { a } from './operations/schemas/index.js'"],
    ['a service in the contract', 'engine/contract.ts', "export { a } from './services/jobs.js'"],
    ['the contract from inside', 'engine/facade/x.ts', "import type { A } from '../contract.js'"],
    ['the contract from the package', 'index.ts', "export { a } from './engine/contract.js'"],
    ['zod outside of schemas', 'engine/operations/x.ts', "import * as z from 'zod'"],
    ['an adapter from the engine', 'engine/base/x.ts', "import { a } from '../../adapters/system/index.js'"],
    ['a worldly builtin', 'engine/base/x.ts', "import { a } from 'node:fs'"],
    ['a builtin of the disk for more than types', 'engine/fs/x.ts', "import { a } from 'node:fs'"],
    ['types of the disk elsewhere', 'engine/session/x.ts', "import type { A } from 'node:fs'"],
    ['a builtin without its prefix', 'engine/base/x.ts', "import { a } from 'fs'"],
    ['a promise builtin', 'engine/base/x.ts', "import { a } from 'node:stream/promises'"],
    ['another package', 'engine/base/x.ts', "import a from 'level'"],
    ['a wrapped package elsewhere', 'engine/tree/x.ts', "import a from 'mitt'"],
    ['more than types of services in the ports', 'engine/ports.ts', "export { a } from './services/jobs.js'"],
    ['a session in the ports', 'engine/ports.ts', "export type { Core } from './session/core.js'"],
    [
      'the inside of the engine from an adapter',
      'adapters/git/x.ts',
      "import { a } from '../../engine/base/hash.js'",
    ],
    ['an adapter from another', 'adapters/git/x.ts', "import { a } from '../system/index.js'"],
    ['the inside of the host adapter', 'adapters/git/x.ts', "import { a } from '../host/roots.js'"],
    ['the command line from an adapter', 'adapters/git/x.ts', "import { a } from '../cli/main.js'"],
    ['the package from the command line, at once', 'adapters/cli/x.ts', "import { a } from '../../index.js'"],
    ['an adapter from the command line, at once', 'adapters/cli/x.ts', "import '../http/index.js'"],
    ['the inside of an adapter', 'adapters/cli/x.ts', "await import('../level/marker.js')"],
    ['the package from an adapter', 'adapters/level/x.ts', "import { a } from '../../index.js'"],
    ['an adapter at once', 'index.ts', "import { a } from './adapters/git/index.js'"],
    ['the reader of reports at once', 'index.ts', "import { a } from './adapters/junit/index.js'"],
    ['archives at once', 'index.ts', "import { a } from './adapters/archive/index.js'"],
    ['bundles at once', 'index.ts', "import { a } from './adapters/car/index.js'"],
    ['types of an adapter', 'index.ts', "import type { A } from './adapters/git/index.js'"],
    ['LevelDB', 'index.ts', "await import('./adapters/level/index.js')"],
    ['a package', 'index.ts', "import 'level'"],
    ['the inside of the engine', 'index.ts', "import { a } from './engine/base/hash.js'"],
    ['the inside of the engine for tests', 'testing.ts', "import { a } from './engine/base/hash.js'"],
  ])('reject %s', (_case, name, code) => {
    expect(violations(parse(name, code))).toHaveLength(1)
  })

  test.each([
    ['engine/tree/x.ts', "import { a } from '../base/hash.js'"],
    ['engine/tree/x.ts', "import type { A } from './node.js'"],
    ['engine/services/sources/sources.ts', "import { a } from './jobs.js'"],
    ['engine/services/checkouts/checkouts.ts', "import { a } from '../sources/host-ports.js'"],
    ['engine/ports.ts', "export type { A } from './services/sources/git-ports.js'"],
    ['engine/index.ts', "export { A } from './facade/engine.js'"],
    ['engine/base/emitter.ts', "import a from 'mitt'"],
    ['engine/operations/schemas/x.ts', "import * as z from 'zod'\nimport { a } from './y.js'"],
    ['engine/facade/x.ts', "import type { A } from '../operations/schemas/index.js'"],
    ['engine/contract.ts', "export { a } from './operations/schemas/index.js'"],
    ['adapters/cli/x.ts', "const { a } = await import('../level/index.js')"],
    ['adapters/cli/x.ts', "import type { A } from '../../index.js'\nimport 'commander'"],
    ['adapters/http/x.ts', "import { a } from '../../engine/contract.js'\nimport 'zod'"],
    ['engine/base/x.ts', "import { a } from 'node:crypto'"],
    ['engine/base/x.ts', "// import { a } from 'node:fs'\n/* import 'level' */"],
    [
      'adapters/git/x.ts',
      "import type { A } from '../../engine/ports.js'\nimport 'node:fs'\nimport 'isomorphic-git'",
    ],
    ['adapters/git/x.ts', "import { a } from '../host/index.js'"],
    ['index.ts', "const { a } = await import('./adapters/git/index.js')"],
    ['index.ts', "const { a } = await import('./adapters/junit/index.js')"],
    ['index.ts', "const { a } = await import('./adapters/archive/index.js')"],
    ['index.ts', "const { a } = await import('./adapters/car/index.js')"],
    ['index.ts', "import { a } from './adapters/system/index.js'"],
  ])('accept the import in %s', (name, code) => {
    expect(violations(parse(name, code))).toEqual([])
  })

  test.each([
    [
      'two files',
      { 'engine/base/a.ts': './b.js', 'engine/base/b.ts': './a.js' },
      'engine/base/a.ts → engine/base/b.ts → engine/base/a.ts',
    ],
    [
      'three files in two folders',
      {
        'engine/base/a.ts': './b.js',
        'engine/base/b.ts': '../tree/c.js',
        'engine/tree/c.ts': '../base/b.js',
      },
      'engine/base/b.ts → engine/tree/c.ts → engine/base/b.ts',
    ],
  ])('find a cycle of %s', (_case, imported, circle) => {
    const files = Object.entries(imported).map(([name, from]) =>
      parse(name, `import type { A } from '${from}'`),
    )
    expect(importCircles(files)).toEqual([circle])
  })

  test.each(['process.env', 'Date.now()', 'new Date()', 'Math.random()', 'performance.now()'])(
    'detect %s',
    (code) => {
      expect(worldly.test(code)).toBe(true)
      expect(worldly.test(parse('x.ts', `// ${code}\n/** ${code} */`).code)).toBe(false)
    },
  )
})

describe('a bound outside of limits', () => {
  test.each([
    'const windowBytes = 2 ** 20',
    'export const windowBytes = 64 * 1024',
    'const waiting: number = 10_000',
    'const pageBytes = { smallest: 64, largest: 8192 }',
    'const buffer = Buffer.alloc(16 * 1024)',
    'const maxLooks = 10',
    'const readsAtOnce = 16',
    'const giveBackMs = 500',
    'const waitingBytes = 4 * 2 ** 20',
  ])('is detected in %s', (code) => {
    expect(boundsOf(parse('engine/base/x.ts', `${code}\n`))).toHaveLength(1)
    expect(boundsOf(parse('adapters/git/limits.ts', code))).toEqual([])
  })

  test.each([
    'const headerBytes = 16',
    'const magic = 0x32_46_4b_46',
    'const modes = { directory: 0o700, file: 0o600 }',
    'const windowBytes = limits.windowBytes',
    "const maxText = 'at most 1000'",
    '// const windowBytes = 2 ** 20',
    '  const seconds = 1000',
  ])('is not detected in %s', (code) => {
    expect(boundsOf(parse('engine/base/x.ts', code))).toEqual([])
  })
})

describe('a check for a durable store', () => {
  test.each([
    'core.store.capabilities.durable',
    'const { durable } = store.capabilities',
    'if (a.durable) b()',
  ])('is detected in %s', (code) => {
    expect(asksDurable.test(code)).toBe(true)
    expect(asksDurable.test(parse('x.ts', `// ${code}`).code)).toBe(false)
  })

  test.each(['new Pins({ durable: true })', 'constructor({ durable }: { durable: boolean }) {}'])(
    'is not detected in %s',
    (code) => expect(asksDurable.test(code)).toBe(false),
  )
})

describe('loading the package', () => {
  let compiled: CompiledSource
  let nothing: Loaded

  beforeAll(async () => {
    compiled = await compileSource()
    nothing = await load('')
  })

  test('index.js and testing.js load no database, no git, no XML, no network and no addon', async () => {
    const entries = ['index.js', 'testing.js'].map((entry) => `import ${JSON.stringify(compiled.url(entry))}`)
    const loaded = await load(entries.join('\n'))
    expect(loaded.modules.some((url) => url.endsWith('/engine/index.js'))).toBe(true)
    expect(heavyParts(loaded)).toEqual([])
  })

  test('the built index.js with bundled chunks loads none of these either', async () => {
    const built = pathToFileURL(resolve(root, '../dist/index.js')).href
    const loaded = await load(`import ${JSON.stringify(built)}`)
    expect(loaded.modules.some((url) => url.includes('/dist/chunks/engine-'))).toBe(true)
    expect(heavyParts(loaded)).toEqual([])
  })

  test('detects each of these when it is loaded', async () => {
    const specifiers = ['classic-level', 'isomorphic-git', 'zod', 'saxes', 'multiformats', 'node:http']
    const parts = heavyParts(
      await load(specifiers.map((name) => `import ${JSON.stringify(name)}`).join('\n')),
    )
    for (const name of specifiers.slice(0, -1)) expect(parts).toContain(`package ${name}`)
    expect(parts).toEqual(expect.arrayContaining(['addon', 'builtin http']))
  })

  test('detects each adapter when it is loaded', async () => {
    const adapters = [...lazyAdapters, 'level']
    const entries = adapters.map(
      (name) => `import ${JSON.stringify(compiled.url(`adapters/${name}/index.js`))}`,
    )
    const parts = heavyParts(await load(entries.join('\n')))
    expect(parts).toEqual(expect.arrayContaining(adapters.map((name) => `adapter ${name}`)))
  })

  /** Runs an entry in a separate process and lists everything that it loaded. */
  async function load(code: string): Promise<Loaded> {
    const { directory } = compiled
    const files = { hooks: join(directory, 'hooks.mjs'), entry: join(directory, `entry-${++entries}.mjs`) }
    await writeFile(files.hooks, hooks)
    await writeFile(files.entry, `${code}\n;${report}`)
    const register = `import { register } from 'node:module'
      globalThis.loaded = []
      const { port1, port2 } = new MessageChannel()
      port1.on('message', (url) => globalThis.loaded.push(url)).unref()
      register(${JSON.stringify(pathToFileURL(files.hooks).href)}, { data: port2, transferList: [port2] })`
    const args = ['--import', `data:text/javascript,${encodeURIComponent(register)}`, files.entry]
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      cwd: dirname(files.entry),
      maxBuffer: 2 ** 26,
    })
    return JSON.parse(stdout) as Loaded
  }

  function heavyParts({ modules, builtins, addons }: Loaded): string[] {
    const parts = new Set<string>()
    for (const url of modules) {
      const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/.exec(url)?.[1]
      if (name !== undefined && !loadedAtOnce.includes(name) && name !== 'tslib') parts.add(`package ${name}`)
      const adapter = /\/adapters\/([^/]+)\//.exec(url)?.[1]
      if (adapter !== undefined && adapter !== 'system' && adapter !== 'testing')
        parts.add(`adapter ${adapter}`)
    }
    for (const id of builtins) {
      if (nothing.builtins.includes(id)) continue
      const network = /^NativeModule (?:internal\/)?_?(https?2?|net|tls|dns|dgram)(?:_|$)/.exec(id)?.[1]
      if (network !== undefined) parts.add(`builtin ${network.startsWith('http') ? 'http' : network}`)
    }
    if (addons.length > 0) parts.add('addon')
    return [...parts].sort()
  }
})

let entries = 0

interface Loaded {
  /** URLs of ES modules and of their imports, and paths of CommonJS modules. */
  readonly modules: string[]
  readonly builtins: string[]
  readonly addons: string[]
}

const hooks = `
  let port
  export function initialize(data) { port = data }
  export function load(url, context, next) {
    port.postMessage(url)
    return next(url, context)
  }`

/** Runs last in the entry, after all imports have been evaluated. */
const report = `
  setTimeout(async () => {
    // The hooks run in another thread. Their messages arrive in order, so that of this module is the last one.
    const last = 'data:text/javascript,0'
    await import(last)
    while (!globalThis.loaded.includes(last)) await new Promise((resolve) => setTimeout(resolve, 1))
    const { _cache } = (await import('node:module')).default
    // Not process.stdout, which loads a part of the network.
    const { writeFileSync } = await import('node:fs')
    writeFileSync(1, JSON.stringify({
      modules: [...globalThis.loaded, ...Object.keys(_cache)],
      builtins: process.moduleLoadList,
      addons: process.report.getReport().sharedObjects.filter((path) => path.endsWith('.node')),
    }))
  }, 50)`

function parse(name: string, text: string): SourceFile {
  // No line in src that contains an import has either kind of comment inside a string.
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/(^|[\s;])\/\/.*$/gm, '$1')
  const imports: Import[] = []
  for (const [, types, specifier] of code.matchAll(
    /^\s*(?:import|export)\b(\s+type\b)?[^'"`;()]*?\bfrom\s*['"]([^'"]+)['"]/gm,
  )) {
    imports.push({ specifier: specifier!, dynamic: false, types: types !== undefined })
  }
  for (const [, specifier] of code.matchAll(/^\s*import\s*['"]([^'"]+)['"]/gm)) {
    imports.push({ specifier: specifier!, dynamic: false })
  }
  for (const [, specifier] of code.matchAll(/\bimport\s*\(\s*['"]([^'"]+)['"]/g)) {
    imports.push({ specifier: specifier!, dynamic: true })
  }
  return { name, code, imports }
}

/** The constants of a module that look like bounds, outside of the files for limits. Constants over several lines count by their first line. */
function boundsOf({ name, code }: SourceFile): string[] {
  if (posix.basename(name) === 'limits.ts') return []
  const constants = [...code.matchAll(/^(?:export )?const (\w+)(?:: [^=]+)? = (.*)$/gm)]
  return constants
    .filter(([, constant, value]) => {
      const numbers = value!.replaceAll(/'[^']*'|\/.+\/[a-z]*/g, '')
      return large.test(numbers) || (named.test(constant!) && /^[\d(]/.test(numbers))
    })
    .map(([, constant]) => `${name} ${constant!}`)
}

/** One line for each import cycle that a depth-first search finds. */
function importCircles(files: readonly SourceFile[]): string[] {
  const byName = new Map(files.map((file) => [file.name, file]))
  const done = new Set<string>()
  const path: string[] = []
  const circles: string[] = []
  const visit = ({ name, imports }: SourceFile): void => {
    if (done.has(name)) return
    if (path.includes(name)) {
      circles.push([...path.slice(path.indexOf(name)), name].join(' → '))
      return
    }
    path.push(name)
    for (const { specifier } of imports) {
      const imported = byName.get(targetOf(name, specifier))
      if (imported !== undefined) visit(imported)
    }
    path.pop()
    done.add(name)
  }
  for (const file of files) visit(file)
  return circles
}

function targetOf(name: string, specifier: string): string {
  return posix.join(posix.dirname(name), specifier).replace(/\.js$/, '.ts')
}

function violations({ name, imports }: SourceFile): string[] {
  return imports.filter((one) => !allowed(name, one)).map(({ specifier }) => `${name} imports ${specifier}`)
}

function allowed(name: string, { specifier, dynamic, types = false }: Import): boolean {
  if (types && typesOnly[specifier]?.test(name) === true) return true
  if (!specifier.startsWith('.')) return allowedPackage(name, specifier)
  const target = targetOf(name, specifier)
  const inEngine = target.startsWith('engine/')
  if (target.startsWith(schemas) && !types && !name.startsWith(schemas) && ![contract, wire].includes(name))
    return false
  if (name.startsWith('engine/')) return inEngine && allowedInEngine(name, target)
  if (name.startsWith(commandLine)) {
    // A static import may load none of them, so that the command starts fast when it needs none.
    const isEntry = target === 'index.ts' || /^adapters\/[a-z-]+\/index\.ts$/.test(target)
    if (isEntry || isEngineEntryPoint(target)) return dynamic || types || target === 'engine/ports.ts'
    return target.startsWith(commandLine)
  }
  if (name.startsWith('adapters/')) {
    const own = `${name.split('/').slice(0, 2).join('/')}/`
    return (
      isEngineEntryPoint(target) || target.startsWith(own) || adapterOfAdapter[own]?.includes(target) === true
    )
  }
  if (name === 'index.ts') {
    if (lazyAdapters.some((name) => target === `adapters/${name}/index.ts`)) return dynamic
    if (/^adapters\/(git|junit|car)\/index\.ts$/.test(target)) return dynamic
    return target === 'engine/index.ts' || target === 'adapters/system/index.ts'
  }
  if (target.startsWith(testing)) return true
  return target === 'engine/index.ts' || target === 'index.ts'
}

function allowedInEngine(name: string, target: string): boolean {
  if (name === composition) return place(target) !== 'entry point'
  if (name === 'engine/index.ts') return place(target) !== 'entry point' || target === composition
  if (name === 'engine/ports.ts')
    return (
      /^engine\/(base|storage)\//.test(target) ||
      /^engine\/services\/([a-z]+\/)?[a-z]+-ports\.ts$/.test(target)
    )
  if (name === contract) return /^engine\/(operations|facade)\//.test(target)
  if (name === wire) {
    return /^engine\/(operations\/|base\/(errors|abort|present|shape)|services\/secrets\/secret\.|fs\/(argument-errors|constants|copy-options|copy-walk|errors|flags|resolve-path|stats|values)\.)/.test(
      target,
    )
  }
  const from = layers.indexOf(place(name) as (typeof layers)[number])
  const to = layers.indexOf(place(target) as (typeof layers)[number])
  if (to < 0 || to > from) return false
  return place(name) !== 'services' || from !== to || allowedInServices(name, target)
}

function allowedInServices(name: string, target: string): boolean {
  const base = posix.basename(target, '.ts')
  if (services.includes(base)) return false
  return posix.dirname(name) === posix.dirname(target) || servicesShare.includes(base)
}

function allowedPackage(name: string, specifier: string): boolean {
  if (name.startsWith('adapters/')) return specifier !== 'forkspace' && !specifier.startsWith('forkspace/')
  if (!name.startsWith('engine/')) return false
  if (specifier.startsWith('node:')) return engineBuiltins.includes(specifier.slice('node:'.length))
  return (
    enginePackages[specifier]?.includes(name) === true || (specifier === 'zod' && name.startsWith(schemas))
  )
}

function isEngineEntryPoint(target: string): boolean {
  return (
    target === 'engine/index.ts' || target === 'engine/ports.ts' || target === contract || target === wire
  )
}

function place(name: string): (typeof layers)[number] | 'entry point' | undefined {
  if (isEngineEntryPoint(name) || name === composition) return 'entry point'
  const [, folder, ...rest] = name.split('/')
  return rest.length > 0 ? layers.find((layer) => layer === folder) : undefined
}
