import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

export interface CompiledSource {
  /** URL of the compiled form of a file, named relative to `src` with its .js ending. */
  url(file: string): string
  remove(): Promise<void>
}

/** Compiles source files and what they import, for child processes and workers, which know no TypeScript. */
export async function compileSource(...names: readonly string[]): Promise<CompiledSource> {
  const root = resolve(import.meta.dirname, '../..')
  const directory = await mkdtemp(join(tmpdir(), 'compiled-'))
  const compilerOptions = { noEmit: false, noCheck: true, rootDir: join(root, 'src'), outDir: directory }
  const files = names.map((name) => join(root, 'src', name))
  const config = { extends: join(root, 'tsconfig.json'), compilerOptions, files, include: [] }
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config))
  await writeFile(join(directory, 'package.json'), '{"type":"module"}')
  await symlink(join(root, 'node_modules'), join(directory, 'node_modules'), 'junction')
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  await promisify(execFile)(process.execPath, [tsc, '-p', directory])
  return {
    url: (file) => pathToFileURL(join(directory, file)).href,
    remove: () => rm(directory, { recursive: true }),
  }
}
