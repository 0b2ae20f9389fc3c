import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { GitRepository } from '../../test/support/git-repository.js'
import { serveGit } from '../../test/support/git-server.js'

export interface DemoRepository {
  /** The path for native git. */
  readonly path: string
  /** The URL for the engine: smart HTTP on loopback. */
  readonly url: string
  /** The branch to import; undefined in an empty repository. */
  readonly branch: string | undefined
  readonly about: string
  /** Whether `git fsck --strict` finds no problems. Old repositories often have some. */
  readonly sound: boolean
  close(): Promise<void>
}

/**
 * Prepares a bare repository in a temporary directory, served by `git http-backend`. It is new, or a copy of a given
 * repository, so that the demonstration never pushes to the original.
 */
export async function prepareRepository(
  directory: string,
  given: string | undefined,
): Promise<DemoRepository> {
  const path = join(directory, 'remote.git')
  if (given === undefined) makeRepository(path)
  else await copyRepository(given, path)
  const repository = new GitRepository(path)
  if (repository.git(['rev-parse', '--show-object-format']) !== 'sha1') {
    throw new Error('the repository has SHA-256 ids, which forkspace does not import')
  }
  repository.git(['config', 'http.receivepack', 'true'])
  const branch = branchOf(repository)
  const sound = isSound(repository)
  const server = await serveGit(directory)
  return {
    path,
    url: `${server.url}/remote.git`,
    branch,
    about:
      given === undefined
        ? 'a repository that native git created for this run'
        : `a copy of ${withoutCredentials(given)}`,
    sound,
    close: () => server.close(),
  }
}

/** A path or URL without user, password and query. */
export function withoutCredentials(pathOrUrl: string): string {
  const [scheme] = /^[a-z][a-z\d+.-]*:\/\//i.exec(pathOrUrl) ?? []
  if (scheme === undefined) return pathOrUrl
  // In an invalid URL, the end of the credentials is unknown.
  if (!URL.canParse(pathOrUrl)) return `${scheme}…`
  return pathOrUrl.replace(/^([^/]*\/\/)[^/]*@/, '$1').replace(/[?#].*/s, '')
}

async function copyRepository(given: string, path: string): Promise<void> {
  const shown = withoutCredentials(given)
  console.log(`copying ${shown} with git clone…`)
  // Git asks for passwords on the terminal itself; its messages may repeat the URL.
  const args = ['clone', '--bare', '--quiet', '--', given, path]
  const child = spawn('git', args, { stdio: ['inherit', 'ignore', 'pipe'] })
  const kill = (): void => void child.kill()
  process.once('exit', kill)
  const closed = once(child, 'close')
  const messages = await text(child.stderr)
  const [status] = (await closed) as [number | null]
  process.off('exit', kill)
  if (status === 0) return
  const fatal = /^fatal: (.*)$/m.exec(messages)?.[1] ?? 'git clone failed'
  // Git repeats a URL in more than one form.
  const reason = fatal
    .replaceAll(given, shown)
    .replace(/[a-z][a-z\d+.-]*:\/\/[^\s']*/gi, (url) => withoutCredentials(url))
  throw new Error(`cannot copy ${shown}: ${reason}`)
}

/** The branch of HEAD, or else the first branch. If there is none, creates `main` at the newest commit. */
function branchOf(repository: GitRepository): string | undefined {
  const listed = repository.git(['for-each-ref', '--format=%(refname:lstrip=2) %(HEAD)', 'refs/heads'])
  const branches = listed.split('\n').filter((line) => line !== '')
  const line = branches.find((branch) => branch.endsWith('*')) ?? branches[0]
  if (line !== undefined) return line.replace(/ .*/, '')
  const commit = repository.git(['rev-list', '--max-count=1', '--all'])
  if (commit === '') return undefined
  repository.git(['update-ref', 'refs/heads/main', commit])
  return 'main'
}

function isSound(repository: GitRepository): boolean {
  try {
    repository.fsck()
    return true
  } catch {
    return false
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
