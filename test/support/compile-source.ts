import { mkdir, mkdtemp, readFile, rename, writeFile } from 'node:fs/promises'
import { isAbsolute, join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { inject } from 'vitest'

declare module 'vitest' {
  interface ProvidedContext {
    /** A directory that the test files of one run share. */
    readonly runDirectory: string
  }
}

export interface CompiledSource {
  /** URL of the compiled form of a file, named relative to `src` with its .js ending. */
  url(file: string): string
  /** The caller's own directory. Files in it can import the packages of the project; it is removed after the run. */
  readonly directory: string
}

/** The parts of the project to compile, for child processes and workers that cannot load TypeScript. */
const parts = [
  'src',
  'bench',
  'examples',
  'test/attack',
  'test/crash',
  'test/model',
  'test/node-fs',
  'test/support',
]

/** The sources as JavaScript, file by file. */
export async function compileSource(): Promise<CompiledSource> {
  return sourceIn(await compiledProject())
}

/** The sources among `bundled` as JavaScript. */
export async function bundleSource(): Promise<CompiledSource> {
  return sourceIn(await bundledProject())
}

async function sourceIn(directory: string): Promise<CompiledSource> {
  return {
    url: (file) => pathToFileURL(join(directory, 'src', file)).href,
    directory: await mkdtemp(join(directory, 'scripts-')),
  }
}

/** The directory with the compiled project, file by file. */
export function compiledProject(): Promise<string> {
  return madeOnce('compiled', compile)
}

/** Programs and entry points that many child processes load; `bundledProject` builds each into one or a few files. */
const bundled = [
  'src/index',
  'src/adapters/level/index',
  'src/adapters/level/open-level-store',
  'test/crash/collecting-writer',
  'test/crash/filler',
  'test/crash/s3-process',
  'test/crash/run',
  'test/crash/services-writer',
  'test/crash/shared-writer',
  'test/crash/sources-writer',
  'test/crash/swapper',
  'test/crash/versions-writer',
  'test/crash/writer',
  'test/node-fs/child',
]

/** The directory with the bundles, which load several times as fast as those of `compiledProject`. */
export function bundledProject(): Promise<string> {
  return madeOnce('bundled', bundle)
}

/** Calls a function once per run, with its own directory. The first caller runs it, later callers share the result. */
async function madeOnce(name: string, make: (directory: string) => Promise<string>): Promise<string> {
  const directory = join(inject('runDirectory'), name)
  const report = join(directory, 'diagnostics')
  const isFirst = await mkdir(directory).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return false
      throw error
    },
  )
  if (isFirst) {
    await writeFile(`${report}.part`, await make(directory))
    await rename(`${report}.part`, report)
  }
  for (;;) {
    const diagnostics = await readFile(report, 'utf8').catch(() => undefined)
    if (diagnostics === '') return directory
    if (diagnostics !== undefined) throw new Error(diagnostics)
    await setTimeout(20)
  }
}

/** The errors of the bundler; '' if there are none. */
async function bundle(directory: string): Promise<string> {
  const root = resolve(import.meta.dirname, '../..')
  const { build } = await import('rolldown')
  return build({
    cwd: root,
    input: Object.fromEntries(bundled.map((name) => [name, `${name}.ts`])),
    external: (id) => !id.startsWith('.') && !isAbsolute(id) && !id.startsWith('@oxc-project/runtime'),
    platform: 'node',
    transform: { target: 'node20.19' },
    // Modules of `test/crash` expect programs in their own directory.
    output: { dir: directory, chunkFileNames: 'test/crash/[name]-[hash].js', sourcemap: true },
  }).then(
    () => '',
    (error: unknown) => String(error),
  )
}

/**
 * The errors of the compiler; '' if there are none. Each file is compiled by itself: a compiler that knows types would
 * read the declarations of every package first.
 */
async function compile(directory: string): Promise<string> {
  const root = resolve(import.meta.dirname, '../..')
  const { build } = await import('esbuild')
  const { globSync } = await import('tinyglobby')
  return build({
    absWorkingDir: root,
    entryPoints: globSync(
      parts.map((part) => `${part}/**/*.ts`),
      { cwd: root, ignore: ['**/*.test.ts', '**/node_modules/**'] },
    ),
    outdir: directory,
    outbase: root,
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    sourcemap: true,
    logLevel: 'silent',
  }).then(
    () => '',
    (error: unknown) => String(error),
  )
}
