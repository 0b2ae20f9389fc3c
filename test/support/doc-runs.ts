import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { GitRepository } from './git-repository.js'
import { serveGit } from './git-server.js'

const root = resolve(import.meta.dirname, '../..')

export interface DocRun {
  readonly path: string
  readonly output: readonly (readonly [line: number, text: string])[]
  readonly failure?: string
}

/** The remote in the examples, and its replacement in tests. */
const exampleRemote = 'https://example.org/app.git'

/** Code of the documentation as a program, for the place of a module of names. */
export interface DocProgram {
  /** Unique, such as `docs/files.md`, or `index.ts:12` for a line of a file. */
  readonly path: string
  readonly program: (moduleOf: (name: string) => string) => string
}

/**
 * Compiles programs against the built package in one run, and executes them in one process in turn. `place` is an
 * existing directory for the compiled files, and `directory` one for the files that the programs write.
 */
export async function compileAndRun(
  programs: readonly DocProgram[],
  { worlds, place, directory }: { worlds: readonly string[]; place: string; directory: string },
): Promise<{ diagnostics: string; runs: Map<string, DocRun> }> {
  GitRepository.create(join(directory, 'app.git')).commitFiles([
    ['100644', 'README.md', '# An app\n'],
    ['100644', 'src/a.ts', 'export const a = 1\n'],
  ])
  const server = await serveGit(directory)
  try {
    return await compileAndRunWith(`${server.url}/app.git`)
  } finally {
    await server.close()
  }

  async function compileAndRunWith(
    remoteUrl: string,
  ): Promise<{ diagnostics: string; runs: Map<string, DocRun> }> {
    const compiled = await mkdtemp(join(place, 'docs-'))
    for (const name of [...worlds.map((world) => `${world}.ts`), 'docs-runner.mjs'])
      await copyFile(join(root, 'test/support', name), join(compiled, name))
    const pages: { path: string; url: string }[] = []
    for (const { path, program } of programs) {
      const name = path.replace(/\.\w+(?=$|:)/, '').replace(':', '-')
      const file = join(compiled, `${name}.ts`)
      await mkdir(dirname(file), { recursive: true })
      const code = program((world) => relative(dirname(file), join(compiled, `${world}.js`)))
      await writeFile(file, code.replaceAll(exampleRemote, remoteUrl))
      pages.push({ path, url: pathToFileURL(file.replace(/\.ts$/, '.js')).href })
    }
    const config = {
      extends: join(root, 'tsconfig.json'),
      compilerOptions: {
        noEmit: false,
        paths: {},
        noUnusedLocals: false,
        rootDir: compiled,
        outDir: compiled,
      },
      include: [compiled],
      exclude: [],
    }
    await writeFile(join(compiled, 'tsconfig.json'), JSON.stringify(config))
    const run = promisify(execFile)
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    const diagnostics = await run(process.execPath, [tsc, '-p', compiled], { cwd: compiled }).then(
      () => '',
      (error: { readonly stdout: string }) => error.stdout,
    )
    const order = JSON.stringify({ pages, directory: join(directory, 'work'), timeoutMs: 30_000 })
    const { stdout } = await run(process.execPath, [join(compiled, 'docs-runner.mjs'), order], {
      maxBuffer: 2 ** 24,
      timeout: 100_000,
    })
    const runs = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as DocRun)
    return { diagnostics, runs: new Map(runs.map((ran) => [ran.path, ran])) }
  }
}
