import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rename, writeFile } from 'node:fs/promises'
import { isAbsolute, join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { inject } from 'vitest'

declare module 'vitest' {
  interface ProvidedContext {
    /** A directory for what test files of one run share. */
    readonly runDirectory: string
  }
}

export interface CompiledSource {
  /** URL of the compiled form of a file, named relative to `src` with its .js ending. */
  url(file: string): string
  /** Of the caller alone; what stands there finds the packages of the project, and goes with the run. */
  readonly directory: string
}

/** What of the project is compiled, for child processes and workers, which know no TypeScript. */
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

/** The directory with the compiled form of the project, file by file. */
export function compiledProject(): Promise<string> {
  return madeOnce('compiled', compile)
}

/** Programs and entry points that many child processes load; each is a file or few in `bundledProject`. */
const bundled = [
  'src/index',
  'src/adapters/level/index',
  'src/adapters/level/open-level-store',
  'test/crash/filler',
  'test/crash/run',
  'test/crash/services-writer',
  'test/crash/sources-writer',
  'test/crash/swapper',
  'test/crash/writer',
  'test/node-fs/child',
]

/** The directory with `bundled`, which load several times as fast as from `compiledProject`. */
export function bundledProject(): Promise<string> {
  return madeOnce('bundled', bundle)
}

/** Calls a function once in a run, with a directory of its own. The first caller makes it, later ones share the result. */
async function madeOnce(name: string, make: (directory: string) => Promise<string>): Promise<string> {
  const directory = join(inject('runDirectory'), name)
  const told = join(directory, 'complaints')
  const isFirst = await mkdir(directory).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return false
      throw error
    },
  )
  if (isFirst) {
    await writeFile(`${told}.part`, await make(directory))
    await rename(`${told}.part`, told)
  }
  for (;;) {
    const complaints = await readFile(told, 'utf8').catch(() => undefined)
    if (complaints === '') return directory
    if (complaints !== undefined) throw new Error(complaints)
    await setTimeout(20)
  }
}

/** What the bundler has to say; '' when it is content. */
async function bundle(directory: string): Promise<string> {
  const root = resolve(import.meta.dirname, '../..')
  const { build } = await import('rolldown')
  return build({
    cwd: root,
    input: Object.fromEntries(bundled.map((name) => [name, `${name}.ts`])),
    external: (id) => !id.startsWith('.') && !isAbsolute(id) && !id.startsWith('@oxc-project/runtime'),
    platform: 'node',
    transform: { target: 'node20.19' },
    // Modules of `test/crash` find programs beside themselves.
    output: { dir: directory, chunkFileNames: 'test/crash/[name]-[hash].js', sourcemap: true },
  }).then(
    () => '',
    (error: unknown) => String(error),
  )
}

/** What the compiler has to say; '' when it is content. */
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
