import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { copyFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { execPath } from 'node:process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GitRepository, hasGit } from '../support/git-repository.js'

const root = resolve(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/bundling.md'), 'utf8')
const run = promisify(execFile)

/** Every part of the package that a bundler could break: both storages, a git repository, an archive, a commit. */
const program = `
import { readFileSync } from 'node:fs'
import { openEngine } from 'forkspace'
import { openApiDocument } from 'forkspace/http'
import { levelStorage } from 'forkspace/level'

const [store, repository, archive] = process.argv.slice(2)

async function main() {
  for (const storage of [undefined, levelStorage(store)]) {
    const engine = await openEngine({ ...(storage && { storage }), hostPaths: { roots: [repository] } })
    const imported = async (kind, input) => {
      const { sourceId } = await engine.sources.create({ displayName: 'x', ...kind })
      const { revisionId } = await engine.sources.waitForJob(await engine.sources.startImport(sourceId, input))
      return engine.sessions.create({ sourceRef: { sourceId, revisionId } })
    }
    const git = await imported({ gitRepository: { path: repository } }, { git: { gitRef: 'main' } })
    const tar = await imported({ uploadedSnapshot: {} }, { uploadedSnapshot: { content: readFileSync(archive) } })
    await git.files.write({ path: '/written', content: 'w' })
    const { commitId } = await git.commit({ message: 'Write' })
    console.log((await git.diff(tar).paths()).added.join(), tar.fs.readFileSync('/f', 'utf8'), commitId.length)
    await engine.close()
  }
  console.log(openApiDocument().openapi)
}
main()
`

describe.runIf(hasGit)('a bundle built as in docs/bundling.md', { timeout: 300_000 }, () => {
  let directory: string
  let repository: GitRepository
  beforeAll(async () => {
    // In the project, so that the packages are found.
    directory = mkdtempSync(join(root, '.tmp-bundling-'))
    repository = GitRepository.create(join(directory, 'repository'), { bare: false })
    await writeFile(join(repository.path, 'f'), 'in git')
    repository.git(['add', 'f'])
    repository.git(['commit', '-qm', 'One'])
    await run('tar', ['-cf', join(directory, 'x.tar'), '-C', repository.path, 'f'])
    await writeFile(join(directory, 'main.mjs'), program)
  })
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  const scripts = [...page.matchAll(/```js file=(\S+)\n([\s\S]*?)```/g)].map(
    ([, name, script]) =>
      [name!, script!, /\bout\/\S+?\.[cm]js|\b(?:rollup|webpack)\.mjs(?=')/.exec(script!)![0]] as const,
  )
  test.each(scripts)('by %s', async (name, script, bundle) => {
    await writeFile(join(directory, name), script)
    await run(execPath, [name], { cwd: directory })
    const made = join(directory, bundle.startsWith('out/') ? bundle : `out/${bundle}`)
    await copyFile(join(root, 'src/adapters/http/openapi.json'), join(made, '../openapi.json'))
    const store = join(directory, `store-of-${name}`)
    const { stdout } = await run(execPath, [made, store, repository.path, join(directory, 'x.tar')])
    expect(stdout).toBe(`${'/written in git 40\n'.repeat(2)}3.1.0\n`)
  })

  test('the page covers every bundler', () => {
    expect(scripts.map(([name]) => name)).toEqual([
      'esbuild.mjs',
      'esbuild-cjs.mjs',
      'rollup.mjs',
      'webpack.mjs',
    ])
  })
})
