import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rename, writeFile } from 'node:fs/promises'
import { isAbsolute, join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
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
const parts = ['src', 'bench', 'examples', 'test/attack', 'test/crash', 'test/node-fs']

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
  'test/crash/filler',
  'test/crash/run',
  'test/crash/services-writer',
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

/** The errors of the compiler; '' if there are none. */
async function compile(directory: string): Promise<string> {
  const root = resolve(import.meta.dirname, '../..')
  const config = {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: { noEmit: false, noCheck: true, sourceMap: true, rootDir: root, outDir: directory },
    include: parts.map((part) => join(root, part)),
    exclude: [join(root, 'test/**/*.test.ts')],
  }
  const project = join(directory, 'tsconfig.json')
  await writeFile(project, JSON.stringify(config))
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  return promisify(execFile)(process.execPath, [tsc, '-p', project]).then(
    () => '',
    (error: Error & { readonly stdout?: string }) => error.stdout || error.message,
  )
}
