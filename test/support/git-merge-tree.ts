import { execFile, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inflateSync } from 'node:zlib'
import { gitEnvironment, GitRepository } from './git-repository.js'
import { writeLooseObject } from './loose-object.js'

/** Files and symlinks by their paths, each as its git mode, a space, and its content in latin1. */
export type FileTree = ReadonlyMap<string, string>

/** The result of `git merge-tree`. */
export interface GitMerge {
  readonly files: FileTree
  /** The paths of conflicts, without the suffixes of paths that git moved out of the way. */
  readonly conflicts: readonly string[]
  readonly messages: string
}

/** Whether the installed git has `merge-tree --write-tree`, which came with version 2.38. */
export const hasMergeTree = ((): boolean => {
  const { stdout } = spawnSync('git', ['--version'], { encoding: 'utf8' })
  const [, major = 0, minor = 0] = (/(\d+)\.(\d+)/.exec(stdout ?? '') ?? []).map(Number)
  return major > 2 || (major === 2 && minor >= 38)
})()

/** Files with this ending have few distinct lines. git merges them with `git merge-file`, by the algorithm of Myers. */
export const repetitive = '.rep'

/**
 * Merges commits with git. `git merge-tree` compares lines with the histogram algorithm, which gives other changes for
 * repetitive lines; a merge driver replaces it for these files.
 */
export class MergeRepository {
  readonly #repository: GitRepository
  readonly #objects: string

  constructor(path: string) {
    this.#repository = GitRepository.create(path)
    this.#objects = join(path, 'objects')
    mkdirSync(join(path, 'info'), { recursive: true })
    writeFileSync(join(path, 'info', 'attributes'), `*${repetitive} merge=lines\n`)
  }

  commit(files: FileTree, parents: readonly string[], message = 'a commit'): string {
    const lines = [`tree ${this.#writeTree(files)}`, ...parents.map((parent) => `parent ${parent}`)]
    const person = 'Ada Author <ada@example.org> 1700000000 +0000'
    return this.#write('commit', `${lines.join('\n')}\nauthor ${person}\ncommitter ${person}\n\n${message}`)
  }

  /**
   * Merges pairs of commits. One shell runs git for all of them. The result of a pair is undefined if git ended with a failed
   * assertion, as git 2.39 does for some renames of a file to the path of a directory.
   */
  async mergeAll(pairs: readonly (readonly string[])[]): Promise<(GitMerge | undefined)[]> {
    const { path } = this.#repository
    const settings = [
      'merge.directoryRenames=false',
      'merge.renames=true',
      "'merge.lines.driver=git merge-file -q %A %O %B'",
    ].map((setting) => `-c ${setting}`)
    const git = `git ${settings.join(' ')} merge-tree --write-tree -z`
    const commands = pairs.map(
      (pair, index) => `${git} ${pair.join(' ')} >merged-${index} 2>messages-${index}`,
    )
    const script = join(path, 'script')
    await writeFile(script, `${commands.join('\n')}\nexit 0\n`)
    await promisify(execFile)('sh', [script], { cwd: path, env: gitEnvironment })
    return Promise.all(
      pairs.map(async (pair, index) => {
        const output = await readFile(join(path, `merged-${index}`), 'latin1')
        if (output !== '') return this.#parse(output)
        const messages = await readFile(join(path, `messages-${index}`), 'utf8')
        if (messages.includes('Assertion')) return undefined
        throw new Error(`git merge-tree ${pair.join(' ')}: ${messages}`)
      }),
    )
  }

  #parse(output: string): GitMerge {
    const [tree = '', ...fields] = output.split('\0')
    const end = fields.indexOf('')
    const staged = fields.slice(0, end).flatMap((field) => /^\d+ \w+ \d\t(.*)$/s.exec(field)?.[1] ?? [])
    const conflicts = [...new Set(staged.map((path) => `/${path.replace(/~[^/]*/g, '')}`))].sort()
    const files = new Map<string, string>()
    this.#readTree(tree, '', files)
    return { files, conflicts, messages: fields.slice(end).join('\n') }
  }

  #writeTree(files: FileTree): string {
    const inner = new Map<string, Map<string, string>>()
    const entries: { mode: string; name: string; oid: string }[] = []
    for (const [path, file] of files) {
      const [, name = '', rest] = /^\/([^/]+)(\/.*)?$/.exec(path) ?? []
      if (rest === undefined)
        entries.push({ mode: file.slice(0, 6), name, oid: this.#write('blob', file.slice(7)) })
      else inner.set(name, (inner.get(name) ?? new Map<string, string>()).set(rest, file))
    }
    for (const [name, below] of inner) entries.push({ mode: '40000', name, oid: this.#writeTree(below) })
    const keyOf = ({ mode, name }: { mode: string; name: string }): string =>
      mode === '40000' ? `${name}/` : name
    entries.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
    return this.#repository.rawTree(entries.map(({ mode, name, oid }) => [mode, name, oid] as const))
  }

  #readTree(oid: string, above: string, files: Map<string, string>): void {
    const body = this.#read(oid)
    for (let at = 0; at < body.length;) {
      const end = body.indexOf('\0', at)
      const [mode = '', name] = body.slice(at, end).split(' ')
      const entry = Buffer.from(body.slice(end + 1, end + 21), 'latin1').toString('hex')
      if (mode === '40000') this.#readTree(entry, `${above}/${name}`, files)
      else files.set(`${above}/${name}`, `${mode} ${this.#read(entry)}`)
      at = end + 21
    }
  }

  #read(oid: string): string {
    const file = join(this.#objects, oid.slice(0, 2), oid.slice(2))
    const whole = inflateSync(readFileSync(file)).toString('latin1')
    return whole.slice(whole.indexOf('\0') + 1)
  }

  #write(type: 'blob' | 'commit', body: string): string {
    return writeLooseObject(this.#objects, 'sha1', type, Buffer.from(body, 'latin1'))
  }
}
