import type { Session } from 'forkspace'
import { expect, type Contestant } from './measure.js'
import { needle, type Files, type VersionFiles } from './version-files.js'

/** Contestants on the versions of one tree, in memory or on disk. */
export class VersionOperations {
  readonly #files: VersionFiles
  readonly #base: Session
  readonly #theirs: Session
  readonly #history: Session
  /** The event of each version of the blamed file. */
  readonly #events: readonly string[]
  #queries = 0

  private constructor(
    files: VersionFiles,
    base: Session,
    theirs: Session,
    history: Session,
    events: string[],
  ) {
    this.#files = files
    this.#base = base
    this.#theirs = theirs
    this.#history = history
    this.#events = events
  }

  static async of(base: Session, files: VersionFiles): Promise<VersionOperations> {
    const theirs = await changedFork(base, files.theirs)
    const history = await base.fork()
    const { path, texts } = files.blamed
    for (const content of texts) await history.files.write({ path, content })
    const events: string[] = []
    for await (const { eventId, eventType } of history.events)
      if (eventType.endsWith('WriteFile')) events.push(eventId)
    expect(events.length === texts.length, 'a version has no event')
    return new VersionOperations(files, base, theirs, history, events)
  }

  diff(count: number): Contestant {
    return {
      count,
      run: async () => {
        for (let i = 0; i < count; i++) expect((await this.patch()).length > 0, 'the patch is empty')
      },
    }
  }

  merge(count: number, ours: Files): Contestant {
    const forks: Session[] = []
    return {
      count,
      prepare: async () => {
        for (let i = 0; i < count; i++) forks.push(await changedFork(this.#base, ours))
      },
      run: async () => {
        for (const fork of forks) {
          const { changeCount, conflicts } = await fork.merge(this.#theirs)
          expect(changeCount === this.#files.theirs.size && conflicts.length === 0, 'the merge lacks changes')
        }
      },
      cleanUp: () => deleteAll(forks),
    }
  }

  at(count: number, version: number): Contestant {
    const { path, texts } = this.#files.blamed
    const eventId = this.#events[version - 1] ?? ''
    return {
      count,
      run: async () => {
        for (let i = 0; i < count; i++) {
          using view = await this.#history.at({ eventId })
          const text = await view.fs.promises.readFile(path, 'utf8')
          expect(text === texts[version - 1], 'an earlier state has another text')
        }
      },
    }
  }

  blame(count: number): Contestant {
    return {
      count,
      run: async () => {
        for (let i = 0; i < count; i++) await this.#history.blame({ path: this.#files.blamed.path })
      },
    }
  }

  /** Each run searches for a pattern that the engine has not searched for before. */
  firstGrep(count: number): Contestant {
    return {
      count,
      run: async () => {
        for (let i = 0; i < count; i++)
          expect((await this.#grep(this.#theirs, this.#newPattern())).length > 0, 'nothing was found')
      },
    }
  }

  /** The same search on forks of a searched session, each with 10 changed files. */
  secondGrep(count: number): Contestant {
    const forks: Session[] = []
    let pattern = ''
    return {
      count,
      prepare: async () => {
        pattern = this.#newPattern()
        await this.#grep(this.#base, pattern)
        for (let i = 0; i < count; i++) forks.push(await changedFork(this.#base, this.#files.theirs))
      },
      run: async () => {
        for (const fork of forks) expect((await this.#grep(fork, pattern)).length > 0, 'nothing was found')
      },
      cleanUp: () => deleteAll(forks),
    }
  }

  async patch(): Promise<string> {
    const pieces: Uint8Array[] = []
    for await (const piece of this.#theirs.diff(this.#base).patch()) pieces.push(piece)
    return Buffer.concat(pieces).toString()
  }

  async mergedFiles(ours: Files): Promise<Map<string, string>> {
    const fork = await changedFork(this.#base, ours)
    const { conflicts } = await fork.merge(this.#theirs)
    expect(conflicts.length === 0, 'the merge has conflicts')
    const files = new Map<string, string>()
    for await (const { path } of fork.diff(this.#base))
      files.set(path, await fork.fs.promises.readFile(path, 'utf8'))
    await fork.delete()
    return files
  }

  /** The version of each line, 0 for lines of the base. */
  async blamedVersions(): Promise<number[]> {
    const { ranges } = await this.#history.blame({ path: this.#files.blamed.path })
    return ranges.flatMap(({ eventId, lineCount }) =>
      Array.from({ length: lineCount }, () => this.#events.indexOf(eventId) + 1),
    )
  }

  /** Matching lines as `path:line:text`, sorted: of a search, or of one whose results the engine remembers. */
  async matches(search: 'first' | 'second'): Promise<string[]> {
    const pattern = this.#newPattern()
    if (search === 'second') await this.#grep(this.#base, pattern)
    return (await this.#grep(this.#theirs, pattern)).toSorted()
  }

  /** Equal results for each pattern, because only the needle occurs. */
  #newPattern(): string {
    return `${needle}|absent${this.#queries++}`
  }

  async #grep(session: Session, pattern: string): Promise<string[]> {
    const { lines } = await session.text.grep({ pattern, limit: 10_000 })
    return lines.map(({ path, lineNumber, text }) => `${path}:${lineNumber}:${text}`)
  }
}

async function changedFork(session: Session, files: Files): Promise<Session> {
  const fork = await session.fork()
  await fork.files.batch([...files].map(([path, content]) => ({ write: { path, content } })))
  return fork
}

async function deleteAll(sessions: Session[]): Promise<void> {
  for (const session of sessions.splice(0)) await session.delete()
}
