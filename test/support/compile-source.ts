import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rename, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
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

/** The sources as JavaScript. */
export async function compileSource(): Promise<CompiledSource> {
  const directory = await compiledProject()
  return {
    url: (file) => pathToFileURL(join(directory, 'src', file)).href,
    directory: await mkdtemp(join(directory, 'scripts-')),
  }
}

/** The directory with the compiled form of the project. Whoever asks first in a run compiles it, once for all. */
export async function compiledProject(): Promise<string> {
  const directory = join(inject('runDirectory'), 'compiled')
  const told = join(directory, 'complaints')
  const isFirst = await mkdir(directory).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return false
      throw error
    },
  )
  if (isFirst) {
    await writeFile(`${told}.part`, await compile(directory))
    await rename(`${told}.part`, told)
  }
  for (;;) {
    const complaints = await readFile(told, 'utf8').catch(() => undefined)
    if (complaints === '') return directory
    if (complaints !== undefined) throw new Error(complaints)
    await setTimeout(20)
  }
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
