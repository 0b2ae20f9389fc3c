import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../support/seed.js'

const root = resolve(import.meta.dirname, '../..')
let directory: string

beforeAll(async () => {
  directory = await mkdtemp(join(root, '.tmp-types-'))
})
afterAll(() => rm(directory, { recursive: true }))

/** The compiler's errors for a program that uses the built package with a package of Node's types. */
async function check(types: string, program: string): Promise<string> {
  await writeFile(join(directory, 'program.ts'), program)
  const config = {
    compilerOptions: { strict: true, noEmit: true, module: 'nodenext', target: 'es2022', lib: ['es2023'] },
    files: ['program.ts'],
  }
  const project = join(directory, 'tsconfig.json')
  const options = {
    ...config.compilerOptions,
    types: [join(root, 'node_modules', types)],
    skipLibCheck: true,
  }
  await writeFile(project, JSON.stringify({ ...config, compilerOptions: options }))
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  return promisify(execFile)(process.execPath, [tsc, '-p', project]).then(
    () => '',
    (error: Error & { readonly stdout: string }) => error.stdout,
  )
}

test.each([...(isLong ? ['@types/node'] : []), 'node-types-current'])(
  'session.fs is assignable to node:fs with the types of %s',
  async (types) => {
    const program = `
    import type { SessionFs } from '../dist/index.js'
    declare const session: SessionFs
    export const fs: typeof import('node:fs') = session
    export const promises: typeof import('node:fs/promises') = session.promises`
    expect(await check(types, program)).toBe('')
    // Confirms that the check detects an incompatible type.
    expect(await check(types, `${program}\nexport const wrong: { readonly none: 1 } = session`)).toContain(
      'none',
    )
  },
)
