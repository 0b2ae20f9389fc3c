import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gitHandler, type GitHandler, type GitHandlerOptions } from '../../src/adapters/git-server/index.js'
import { serve, staticTokens, type HttpServer } from '../../src/adapters/http/index.js'
import type { Caller, Engine, Session } from '../../src/index.js'
import { gitEnvironment } from './git-repository.js'
import { temporaryDirectory } from './temporary-directory.js'

export const gitToken = 'the-token'
export const gitCaller: Caller = { tenant: 'local', principal: 'ann' }

export interface GitRun {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** A repository of a client, operated by native git. */
export class GitClone {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  /** Runs git, and returns its trimmed output. Rejects with its messages when it fails. */
  async git(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...args)
    if (code !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`)
    return stdout.trim()
  }

  run(...args: readonly string[]): Promise<GitRun> {
    return runGit(this.path, args)
  }

  /** Writes files, and commits everything. Null removes a file. */
  async commit(
    files: Readonly<Record<string, string | Uint8Array | null>>,
    message = 'a commit',
  ): Promise<string> {
    for (const [name, content] of Object.entries(files)) {
      const path = join(this.path, name)
      if (content === null) rmSync(path)
      else {
        mkdirSync(dirname(path), { recursive: true })
        writeFileSync(path, content)
      }
    }
    await this.git('add', '--all')
    await this.git('commit', '--quiet', '-m', message)
    return this.head()
  }

  head(ref = 'HEAD'): Promise<string> {
    return this.git('rev-parse', ref)
  }

  /** The subjects of the commits, newest first. */
  async log(ref = 'HEAD'): Promise<string[]> {
    return (await this.git('log', '--format=%s', ref)).split('\n')
  }
}

/** Runs git without blocking, because the server is in this process. */
export function runGit(cwd: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<GitRun> {
  const settings = ['-c', 'init.defaultBranch=main', '-c', 'advice.pushUpdateRejected=false']
  return new Promise((resolve) => {
    execFile(
      'git',
      [...settings, ...args],
      { cwd, env: { ...gitEnvironment, ...env }, maxBuffer: 2 ** 26 },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
        resolve({ code, stdout, stderr })
      },
    )
  })
}

/** A server of git repositories, and a directory for its clients. */
export class GitWorld implements AsyncDisposable {
  readonly directory = mkdtempSync(join(temporaryDirectory(), 'git-server-'))
  readonly handler: GitHandler
  readonly #server: HttpServer
  #clones = 0

  private constructor(handler: GitHandler, server: HttpServer) {
    this.handler = handler
    this.#server = server
  }

  static async open(engine: Engine, options: Partial<GitHandlerOptions> = {}): Promise<GitWorld> {
    const authenticate = staticTokens({ [gitToken]: gitCaller })
    const handler = gitHandler(engine, { authenticate, push: true, ...options })
    return new GitWorld(handler, await serve(handler))
  }

  get url(): string {
    return this.#server.url
  }

  get port(): number {
    return this.#server.port
  }

  urlOf({ id }: Pick<Session, 'id'>, token = gitToken): string {
    return `${this.url.replace('://', `://git:${token}@`)}/sessions/${id}.git`
  }

  /** Makes the newest state a commit, as the start of a fetch does. */
  async serve({ id }: Pick<Session, 'id'>): Promise<void> {
    const response = await fetch(`${this.url}/sessions/${id}.git/info/refs?service=git-upload-pack`, {
      headers: { authorization: `Bearer ${gitToken}` },
    })
    if (!response.ok) throw new Error(await response.text())
  }

  async clone(session: Pick<Session, 'id'>, ...options: readonly string[]): Promise<GitClone> {
    const path = join(this.directory, `clone-${this.#clones++}`)
    const settings = options.filter((option) => option.startsWith('protocol.')).flatMap((one) => ['-c', one])
    const rest = options.filter((option) => !option.startsWith('protocol.'))
    const { code, stderr } = await runGit(this.directory, [
      ...settings,
      'clone',
      '--quiet',
      ...rest,
      this.urlOf(session),
      path,
    ])
    if (code !== 0) throw new Error(stderr)
    return new GitClone(path)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.close({ timeoutMs: 1000 })
    rmSync(this.directory, { recursive: true, force: true })
  }
}
