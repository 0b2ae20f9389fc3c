import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { GitRepository } from '../../test/support/git-repository.js'
import { serveGit } from '../../test/support/git-server.js'

export interface DemoRepository {
  /** Where native git finds it. */
  readonly path: string
  /** Where the engine finds it: smart HTTP on loopback. */
  readonly url: string
  readonly branch: string
  readonly about: string
  close(): Promise<void>
}

/**
 * A bare repository in a temporary directory, served by `git http-backend`: made here, or a copy of a given
 * one, so that the demonstration never pushes to anybody's own.
 */
export async function prepareRepository(
  directory: string,
  given: string | undefined,
): Promise<DemoRepository> {
  const path = join(directory, 'remote.git')
  if (given === undefined) makeRepository(path)
  else execFileSync('git', ['clone', '--bare', '--quiet', given, path], { stdio: 'inherit' })
  const git = new GitRepository(path)
  git.git(['config', 'http.receivepack', 'true'])
  const branch = git.git(['symbolic-ref', '--short', 'HEAD'])
  const server = await serveGit(directory)
  return {
    path,
    url: `${server.url}/remote.git`,
    branch,
    about: given === undefined ? 'a repository made by native git for this run' : `a copy of ${given}`,
    close: () => server.close(),
  }
}

const modules = ['auth', 'billing', 'catalog', 'search', 'shipping', 'users', 'mail', 'jobs']
const filesPerModule = 30

function makeRepository(path: string): void {
  const repository = GitRepository.create(path)
  repository.stage([
    ['100644', 'README.md', '# Shop\n\nA small shop.\n'],
    ['100644', 'package.json', '{ "name": "shop", "version": "1.0.0" }\n'],
    ['100755', 'scripts/release.sh', '#!/bin/sh\necho release\n'],
    ['120000', 'docs/index.md', '../README.md'],
  ])
  repository.commit('refs/heads/main', 'Start the shop')
  for (const module of modules) {
    const names = Array.from({ length: filesPerModule }, (_, i) => `part-${String(i).padStart(2, '0')}`)
    repository.stage([
      ...names.map((name) => ['100644', `src/${module}/${name}.ts`, source(module, name)] as const),
      ['100644', `test/${module}.test.ts`, `import '../src/${module}/part-00.js'\n`],
    ])
    repository.commit('refs/heads/main', `Add ${module}`)
  }
}

function source(module: string, name: string): string {
  const constant = name.replace('-', '_').toUpperCase()
  return `// ${module}/${name}\nexport const ${constant} = '${module}'\n\nexport function describe(): string {\n  return 'The ${name} of ${module}'\n}\n`
}
