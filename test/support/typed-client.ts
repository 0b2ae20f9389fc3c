import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import openapiTypescript, { type OpenAPI3 } from 'openapi-typescript'

const run = promisify(execFile)

/** A program that uses types generated from the contract. */
export interface TypedProgram {
  /** The errors of the compiler; '' if there are none. */
  readonly diagnostics: string
  /** Runs the program and parses its output as JSON. */
  run(env: Readonly<Record<string, string>>): Promise<unknown>
  remove(): Promise<void>
}

/** Compiles a program that imports the types of a contract from './contract.js'. */
export async function compileWithTypes(contract: object, program: string): Promise<TypedProgram> {
  const root = resolve(import.meta.dirname, '../..')
  const directory = await mkdtemp(join(tmpdir(), 'typed-client-'))
  const compilerOptions = {
    target: 'es2022',
    lib: ['es2023', 'dom', 'dom.iterable', 'dom.asynciterable'],
    module: 'nodenext',
    strict: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
    outDir: join(directory, 'out'),
    rootDir: directory,
  }
  await writeFile(join(directory, 'contract.ts'), await openapiTypescript(contract as OpenAPI3))
  await writeFile(join(directory, 'program.ts'), program)
  await writeFile(join(directory, 'package.json'), '{"type":"module"}')
  const config = { compilerOptions, files: ['program.ts', 'contract.ts'] }
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config))
  await symlink(join(root, 'node_modules'), join(directory, 'node_modules'), 'junction')
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const diagnostics = await run(process.execPath, [tsc, '-p', directory]).then(
    () => '',
    (error: { readonly stdout: string }) => error.stdout,
  )
  return {
    diagnostics,
    run: async (env) => {
      const { stdout } = await run(process.execPath, [join(directory, 'out/program.js')], {
        env: { ...process.env, ...env },
      })
      return JSON.parse(stdout)
    },
    remove: () => rm(directory, { recursive: true }),
  }
}
