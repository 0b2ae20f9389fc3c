/** The names that code in the documentation may use without declaring them. Compiled together with the pages. */
import { dirname } from 'node:path'
import { mkdir } from 'node:fs/promises'
import { openEngine, type Engine, type Session } from 'forkspace'

export interface World extends AsyncDisposable {
  /** In memory, with local remotes and `directory` allowed. */
  readonly engine: Engine
  /** Has `/README.md`, `/src/a.ts`, `/config.json`, and a checkpoint `before`. */
  readonly session: Session
  /** A fork of `session` with one change. */
  readonly fork: Session
  /** An empty directory of this page, which is also the working directory. */
  readonly directory: string
  /** Takes values that a program would display. */
  show(...values: unknown[]): void
  readonly signal: AbortSignal
  readonly token: string
}

export async function makeWorld(directory: string): Promise<World> {
  await mkdir(directory, { recursive: true })
  process.chdir(directory)
  const engine = await openEngine({
    git: { allowPrivateAddresses: true },
    hostPaths: { roots: [directory] },
    exec: { directory: `${directory}/exec`, path: `${dirname(process.execPath)}:/usr/bin:/bin` },
  })
  const session = await engine.sessions.create({
    files: { '/README.md': '# An app\n', '/src/a.ts': 'export const a = 1\n', '/config.json': '{}\n' },
  })
  await session.checkpoint({ checkpointLabel: 'before' })
  const fork = await session.fork({ newTags: { attempt: '1' } })
  await fork.files.write({ path: '/src/a.ts', content: 'export const a = 2\n' })
  return {
    engine,
    session,
    fork,
    directory,
    show: () => undefined,
    signal: new AbortController().signal,
    token: 'token-of-the-example',
    [Symbol.asyncDispose]: () => engine.close(),
  }
}
