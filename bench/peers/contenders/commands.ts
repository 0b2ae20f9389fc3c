import { execFile } from 'node:child_process'
import { mkdir, rm } from 'node:fs/promises'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Contender, Files, Store, Workspace } from '../contender.js'
import { NotInstalled } from '../packages.js'
import { numbered, promiseWorkspace } from './fs-calls.js'

const run = promisify(execFile)

/** Programs that copy a directory. Their CPU time counts, as that of child processes. */
export const commands: readonly Contender[] = [
  {
    name: 'git worktree add',
    family: 'git',
    guarantee: 'host',
    settings: 'The command git worktree add --detach. Preparations commit the files.',
    only: ['fork'],
    async open(directory) {
      const { gitEnvironment, hasGit } = await import('../../../test/support/git-repository.js')
      if (!hasGit) throw new NotInstalled('git')
      return openStore(directory, (root, next) => inRepository(root, next, gitEnvironment))
    },
  },
  {
    name: 'cp -r',
    family: 'cp',
    guarantee: 'host',
    settings: 'The command cp -r.',
    only: ['fork'],
    open: async (directory) => openStore(directory, inDirectory),
  },
]

function openStore(directory: string, of: (root: string, next: () => string) => Workspace): Store {
  const next = numbered(directory)
  return {
    async create() {
      const root = next()
      await mkdir(root)
      return of(root, next)
    },
    close: () => {},
  }
}

/** Only the calls that a fork needs. node:fs has the others. */
function filesIn(root: string) {
  const { write, read, dispose } = promiseWorkspace(fs.promises, root)
  return { write, read, dispose }
}

async function fill(root: string, files: Files): Promise<void> {
  for (const [path, content] of files) {
    await mkdir(dirname(join(root, path)), { recursive: true })
    fs.writeFileSync(join(root, path), content)
  }
}

function inDirectory(root: string, next: () => string): Workspace {
  return {
    ...filesIn(root),
    fill: (files) => fill(root, files),
    async fork() {
      const to = next()
      await run('cp', ['-r', root, to])
      return inDirectory(to, next)
    },
  }
}

function inRepository(root: string, next: () => string, env: NodeJS.ProcessEnv): Workspace {
  const git = (...args: string[]): Promise<unknown> => run('git', args, { cwd: root, env })
  return {
    ...filesIn(root),
    async fill(files) {
      await fill(root, files)
      await git('init', '-q')
      await git('add', '-A')
      await git('commit', '-q', '-m', 'files')
    },
    async fork() {
      const to = next()
      await git('worktree', 'add', '-q', '--detach', to)
      return {
        ...filesIn(to),
        async dispose() {
          await git('worktree', 'remove', '--force', to)
        },
      }
    },
    dispose: () => rm(root, { recursive: true }),
  }
}
