import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type ObjectFormat, writeLooseObject } from './loose-object.js'

/** What git does in passing, and each time in a process of its own. Its files need not survive a power cut. */
const speedUps = { 'maintenance.auto': 'false', 'receive.autoGC': 'false', 'core.fsync': 'none' }

/** The environment of every git process in tests: no user configuration, fixed identities and dates. */
export const gitEnvironment: NodeJS.ProcessEnv = {
  PATH: process.env['PATH'],
  LC_ALL: 'C.UTF-8',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_COUNT: String(Object.keys(speedUps).length),
  ...Object.fromEntries(
    Object.entries(speedUps).flatMap(([key, value], at) => [
      [`GIT_CONFIG_KEY_${at}`, key],
      [`GIT_CONFIG_VALUE_${at}`, value],
    ]),
  ),
  GIT_TERMINAL_PROMPT: '0',
  GIT_AUTHOR_NAME: 'Ada Author',
  GIT_AUTHOR_EMAIL: 'ada@example.org',
  GIT_COMMITTER_NAME: 'Carl Committer',
  GIT_COMMITTER_EMAIL: 'carl@example.org',
  GIT_AUTHOR_DATE: '1700000000 +0000',
  GIT_COMMITTER_DATE: '1700000000 +0000',
}

const people = ['AUTHOR', 'COMMITTER']
  .map((role) => {
    const [name, email, date] = ['NAME', 'EMAIL', 'DATE'].map(
      (field) => gitEnvironment[`GIT_${role}_${field}`],
    )
    return `${role.toLowerCase()} ${name} <${email}> ${date}\n`
  })
  .join('')

const gitSettings = ['init.defaultBranch=main', 'protocol.file.allow=always', 'advice.nestedTag=false']

/** Whether native git is installed. A missing git is an error when FORKSPACE_REQUIRE_ALL is 1. */
export const hasGit = spawnSync('git', ['--version']).status === 0
if (!hasGit && process.env['FORKSPACE_REQUIRE_ALL'] === '1') throw new Error('native git is missing')

export interface RunOptions {
  readonly input?: string | Uint8Array
  readonly env?: NodeJS.ProcessEnv
}

/** An entry to stage: mode, name (bytes if it is not UTF-8) and content, or an id if it is not a blob. */
export type StagedEntry = readonly [mode: string, name: string | Uint8Array, content: string | Uint8Array]

/** A file to commit: mode, path and content; null removes the path. */
type FileEntry = readonly [mode: string, path: string, content: string | null]

export interface NewRepository {
  /** Default true. */
  readonly bare?: boolean
  readonly format?: ObjectFormat
}

/** Entries by name, one character per byte of the name; a file has its mode and id. */
type StagedTree = Map<string, readonly [mode: string, oid: string] | StagedTree>

/**
 * A repository operated by native git. Empty repositories, objects, commits and refs, each of which would take git a
 * process, are written as files in git's own formats.
 */
export class GitRepository {
  readonly path: string
  readonly #format: ObjectFormat
  readonly #staged: StagedTree = new Map()

  constructor(path: string, format: ObjectFormat = 'sha1') {
    this.path = path
    this.#format = format
  }

  static create(path: string, options: NewRepository = {}): GitRepository {
    const { bare = true, format = 'sha1' } = options
    const directory = bare ? path : join(path, '.git')
    for (const name of ['info', 'objects/info', 'objects/pack', 'refs/heads', 'refs/tags']) {
      mkdirSync(join(directory, name), { recursive: true })
    }
    writeFileSync(join(directory, 'HEAD'), 'ref: refs/heads/main\n')
    const version = format === 'sha1' ? 0 : 1
    const extensions = format === 'sha1' ? '' : `[extensions]\n\tobjectformat = ${format}\n`
    const core = `[core]\n\trepositoryformatversion = ${version}\n\tfilemode = true\n\tbare = ${bare}\n`
    writeFileSync(join(directory, 'config'), `${core}${extensions}[http]\n\treceivepack = true\n`)
    return new GitRepository(path, format)
  }

  /** Runs git and returns its trimmed output. Throws its messages when it fails. */
  git(args: readonly string[], options: RunOptions = {}): string {
    return this.gitBytes(args, options).toString('utf8').trim()
  }

  gitBytes(args: readonly string[], options: RunOptions = {}): Buffer {
    const settings = gitSettings.flatMap((setting) => ['-c', setting])
    const run = spawnSync('git', [...settings, ...args], {
      cwd: this.path,
      env: { ...gitEnvironment, ...options.env },
      input: options.input,
      maxBuffer: 2 ** 30,
    })
    if (run.status !== 0) throw new Error(`git ${args.join(' ')}: ${run.stderr.toString()}`)
    return run.stdout
  }

  blob(content: string | Uint8Array): string {
    return this.#write('blob', content)
  }

  /** Stages entries on top of earlier ones; the content of a gitlink is an id. Git's own index is not changed. */
  stage(entries: readonly StagedEntry[]): void {
    for (const [mode, name, content] of entries) {
      const parts = Buffer.from(name).toString('latin1').split('/')
      const last = parts.pop()!
      let tree = this.#staged
      for (const part of parts) {
        const inner = tree.get(part)
        if (inner instanceof Map) tree = inner
        else tree.set(part, (tree = new Map()))
      }
      tree.set(last, [mode, mode === '160000' ? String(content) : this.blob(content)])
    }
  }

  unstageAll(): void {
    this.#staged.clear()
  }

  /** Commits the staged entries on a ref. */
  commit(ref = 'refs/heads/main', message = 'a commit'): string {
    return this.commitTree(this.#writeTree(this.#staged), ref, message)
  }

  /** Commits many files at once: writes entries on top of a ref; null content removes a path. */
  commitFiles(entries: Iterable<FileEntry>, ref = 'refs/heads/main', message = 'a commit'): string {
    return this.commitSeries([entries], ref, message)
  }

  /** Like commitFiles, with a commit for each list of entries. Returns the last commit. */
  commitSeries(series: Iterable<Iterable<FileEntry>>, ref = 'refs/heads/main', message = 'a commit'): string {
    const data = (text: string): string => `data ${Buffer.byteLength(text)}\n${text}\n`
    const tip = this.tip(ref)
    let from = tip === undefined ? '' : `from ${tip}\n`
    let stream = ''
    for (const entries of series) {
      stream += `commit ${ref}\ncommitter Carl Committer <carl@example.org> 1700000000 +0000\n${data(message)}${from}`
      for (const [mode, path, content] of entries) {
        stream += content === null ? `D ${path}\n` : `M ${mode} inline ${path}\n${data(content)}`
      }
      from = ''
    }
    this.git(['fast-import', '--quiet'], { input: stream })
    return this.tip(ref)!
  }

  commitTree(tree: string, ref = 'refs/heads/main', message = 'a commit'): string {
    const tip = this.tip(ref)
    const parent = tip === undefined ? '' : `parent ${tip}\n`
    const commit = this.#write('commit', `tree ${tree}\n${parent}${people}\n${message}`)
    const file = join(this.#directory, ref)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, `${commit}\n`)
    return commit
  }

  /** Writes a tree without any check. */
  rawTree(entries: readonly (readonly [mode: string, name: string | Uint8Array, oid: string])[]): string {
    const latin1 = (bytes: Buffer): string => bytes.toString('latin1')
    const parts = entries.map(
      ([mode, name, oid]) => `${mode} ${latin1(Buffer.from(name))}\0${latin1(Buffer.from(oid, 'hex'))}`,
    )
    return this.#write('tree', Buffer.from(parts.join(''), 'latin1'))
  }

  tip(ref: string): string | undefined {
    const file = join(this.#directory, ref)
    if (existsSync(file)) return readFileSync(file, 'utf8').trim()
    if (!existsSync(join(this.#directory, 'packed-refs'))) return undefined
    const oid = this.git(['for-each-ref', '--format=%(objectname)', ref])
    return oid === '' ? undefined : oid
  }

  hook(name: string, script: string): void {
    const path = join(this.#directory, 'hooks', name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, `#!/bin/sh\n${script}\n`)
    chmodSync(path, 0o755)
  }

  /** The changed paths between two revisions with their new modes, for example `100644 M src/a.ts`. */
  changes(from: string, to: string): string[] {
    const raw = this.git(['diff', '--raw', '--no-renames', '-z', from, to])
    const fields = raw.split('\0').filter((field) => field !== '')
    const lines: string[] = []
    for (let at = 0; at + 1 < fields.length; at += 2) {
      const [, newMode = '', , , status = ''] = fields[at]!.split(' ')
      lines.push(`${newMode} ${status} ${fields[at + 1]!}`)
    }
    return lines.sort()
  }

  /** Throws unless git accepts every object of the repository. */
  fsck(): void {
    this.git(['fsck', '--strict', '--no-dangling'])
  }

  #writeTree(tree: StagedTree): string {
    const entries = [...tree].map(([name, entry]) =>
      entry instanceof Map
        ? { key: `${name}/`, name, mode: '40000', oid: this.#writeTree(entry) }
        : { key: name, name, mode: entry[0], oid: entry[1] },
    )
    entries.sort((a, b) => (a.key < b.key ? -1 : 1))
    return this.rawTree(
      entries.map(({ mode, name, oid }) => [mode, Buffer.from(name, 'latin1'), oid] as const),
    )
  }

  get #directory(): string {
    const inside = join(this.path, '.git')
    return existsSync(inside) ? inside : this.path
  }

  #write(type: 'blob' | 'tree' | 'commit', body: string | Uint8Array): string {
    return writeLooseObject(join(this.#directory, 'objects'), this.#format, type, Buffer.from(body))
  }
}
