import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { execPath } from 'node:process'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface CompiledLoops {
  /** What the command line prints, whether it succeeds or not. */
  run(...args: readonly string[]): Promise<string>
  remove(): Promise<void>
}

/** The command line of the long loops, with the children that it starts: processes of their own know no TypeScript. */
export async function compileLoops(): Promise<CompiledLoops> {
  const root = resolve(import.meta.dirname, '../..')
  const directory = await mkdtemp(join(tmpdir(), 'crash-'))
  const compilerOptions = { noEmit: false, noCheck: true, sourceMap: true, rootDir: root, outDir: directory }
  const names = ['run.ts', 'writer.ts', 'services-writer.ts', 'swapper.ts', 'filler.ts']
  const files = names.map((file) => join(root, 'test/crash', file))
  const config = { extends: join(root, 'tsconfig.json'), compilerOptions, files, include: [] }
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config))
  await writeFile(join(directory, 'package.json'), '{"type":"module"}')
  await symlink(join(root, 'node_modules'), join(directory, 'node_modules'), 'junction')
  await run(execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', directory])
  const script = join(directory, 'test/crash/run.js')
  return {
    run: async (...args) => {
      const { stdout } = await run(execPath, ['--enable-source-maps', script, ...args]).catch(
        (failed: { stdout: string }) => failed,
      )
      return stdout
    },
    remove: () => rm(directory, { recursive: true }),
  }
}
