import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { GitRepository, gitEnvironment } from '../../test/support/git-repository.js'
import { cpuOfChildren } from './cpu-of-children.js'
import type { Contestant } from './measure.js'
import { needle, type Files, type VersionFiles } from './version-files.js'

const run = promisify(execFile)
const hasRipgrep = spawnSync('rg', ['--version']).status === 0
const diffArguments = ['diff', '-U3', 'main', 'theirs']
const identity = 'Ada Author <ada@example.org> 1700000000 +0000'

/** The name of the program that searches. */
export const searchName = hasRipgrep ? 'ripgrep' : 'git grep'

/** The versions as branches of a repository in one pack. The branch `theirs` is checked out. */
export class VersionGit {
  readonly #directory: string

  private constructor(directory: string) {
    this.#directory = directory
  }

  static create(directory: string, files: VersionFiles): VersionGit {
    const repository = GitRepository.create(directory, { bare: false })
    repository.git(['fast-import', '--quiet'], { input: Buffer.concat([...fastImport(files)]) })
    repository.git(['checkout', '-qf', 'theirs'])
    return new VersionGit(directory)
  }

  diff(count: number): Contestant {
    return this.#contestant(count, () => this.#git(diffArguments))
  }

  merge(count: number, ours: string): Contestant {
    return this.#contestant(count, () => this.#git(mergeArguments(ours)))
  }

  show(count: number, path: string, version: number): Contestant {
    return this.#contestant(count, () => this.#git(['show', `v${version}:${path.slice(1)}`]))
  }

  blame(count: number, path: string): Contestant {
    return this.#contestant(count, () => this.#git(blameArguments(path)))
  }

  grep(count: number): Contestant {
    return this.#contestant(count, () => this.#search())
  }

  patch(): Promise<string> {
    return this.#git(diffArguments)
  }

  /** The files of a merged tree that differ from the base. */
  async mergedFiles(ours: string): Promise<Map<string, string>> {
    const tree = (await this.#git(mergeArguments(ours))).trim()
    const names = await this.#git(['diff', '--name-only', '--no-renames', 'main', tree])
    const files = new Map<string, string>()
    for (const name of names.trim().split('\n')) {
      files.set(`/${name}`, await this.#git(['show', `${tree}:${name}`]))
    }
    return files
  }

  /** The version of each line, 0 for the first commit. */
  async blamedVersions(path: string): Promise<number[]> {
    const summaries = new Map<string, number>()
    const versions: string[] = []
    let commit = ''
    for (const line of (await this.#git(blameArguments(path))).split('\n')) {
      const header = /^([0-9a-f]{40}) \d+ \d+/.exec(line)
      if (header?.[1] !== undefined) {
        commit = header[1]
        versions.push(commit)
      }
      if (line.startsWith('summary ')) summaries.set(commit, Number(line.slice('summary '.length)))
    }
    return versions.map((id) => summaries.get(id) ?? -1)
  }

  /** Matching lines as `path:line:text`, sorted. */
  async matches(): Promise<string[]> {
    return (await this.#search())
      .trim()
      .split('\n')
      .map((line) => `/${line}`)
      .toSorted()
  }

  #git(args: readonly string[]): Promise<string> {
    return this.#run('git', args)
  }

  #search(): Promise<string> {
    return hasRipgrep
      ? this.#run('rg', ['--no-heading', '--no-ignore', '-n', needle, 'project'])
      : this.#run('git', ['grep', '-nE', needle, '--', 'project'])
  }

  async #run(command: string, args: readonly string[]): Promise<string> {
    const { stdout } = await run(command, [...args], {
      cwd: this.#directory,
      env: { ...gitEnvironment, HOME: join(this.#directory, '.git') },
      maxBuffer: 2 ** 28,
    })
    return stdout
  }

  /** CPU time is that of the processes, in steps of 10 ms. */
  #contestant(count: number, once: () => Promise<string>): Contestant {
    return {
      count,
      run: async () => {
        const before = cpuOfChildren()
        for (let i = 0; i < count; i++) await once()
        return cpuOfChildren() - before
      },
    }
  }
}

function mergeArguments(ours: string): string[] {
  return ['merge-tree', '--write-tree', ours, 'theirs']
}

function blameArguments(path: string): string[] {
  return ['blame', '--porcelain', 'history', '--', path.slice(1)]
}

/** The input of `git fast-import`: one commit for each branch, and one for each version of the blamed file. */
function* fastImport({ base, theirs, others, same, blamed }: VersionFiles): Generator<Buffer> {
  yield* commit('main', '0', base)
  yield* commit('theirs', '1', theirs, 'main')
  yield* commit('others', '1', others, 'main')
  yield* commit('same', '1', same, 'main')
  for (const [index, text] of blamed.texts.entries()) {
    const parent = index === 0 ? 'main' : 'history'
    yield* commit('history', String(index + 1), new Map([[blamed.path, text]]), parent)
    yield Buffer.from(`reset refs/tags/v${index + 1}\nfrom refs/heads/history\n\n`)
  }
}

function* commit(branch: string, message: string, files: Files, parent?: string): Generator<Buffer> {
  const from = parent === undefined || parent === branch ? '' : `from refs/heads/${parent}\n`
  yield Buffer.from(
    `commit refs/heads/${branch}\ncommitter ${identity}\ndata ${message.length}\n${message}\n${from}`,
  )
  for (const [path, text] of files) {
    yield Buffer.from(`M 644 inline ${path.slice(1)}\ndata ${Buffer.byteLength(text)}\n${text}\n`)
  }
  yield Buffer.from('\n')
}
