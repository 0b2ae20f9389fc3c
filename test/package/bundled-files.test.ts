import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { compileFunction } from 'node:vm'
import { build } from 'esbuild'
import { expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '../..')

test('a CommonJS bundle without import.meta.url says what to define', async () => {
  const contents = `
    import { openApiDocument } from './src/adapters/http/openapi-document.ts'
    import { pageFile } from './src/adapters/inspector/page-files.ts'
    export const work = { openApiDocument, pageFile: () => pageFile('/') }`
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: root, loader: 'ts' },
    bundle: true,
    platform: 'node',
    format: 'cjs',
    packages: 'external',
    write: false,
    logLevel: 'silent',
  })
  const module = { exports: {} as { work: Record<string, () => unknown> } }
  compileFunction(outputFiles[0]?.text ?? '', ['module', 'require'])(module, createRequire(import.meta.url))
  const { openApiDocument, pageFile } = module.exports.work
  const expected = {
    reason: 'INTERNAL',
    message: expect.stringContaining('define it as "esbuild" in docs/bundling.md shows'),
  }
  await expect((async () => openApiDocument?.())()).rejects.toMatchObject(expected)
  await expect((async () => pageFile?.())()).rejects.toMatchObject(expected)
})
