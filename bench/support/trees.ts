import type { Session } from 'forkspace'
import { expect, type Contestant } from './measure.js'
import { projectRoot, shuffled } from './project-files.js'

/** Contestants on one large tree, in memory or on disk. */
export class TreeOperations {
  readonly #session: Session
  readonly #paths: readonly string[]
  #number = 0

  private constructor(session: Session, paths: readonly string[]) {
    this.#session = session
    this.#paths = shuffled(paths)
  }

  /** Works on a fork, so that every race starts from the same tree. */
  static async of(session: Session, paths: readonly string[]): Promise<TreeOperations> {
    return new TreeOperations(await session.fork(), paths)
  }

  fork(count: number): Contestant {
    const forks: Session[] = []
    return {
      count,
      run: async () => {
        for (let i = 0; i < count; i++) forks.push(await this.#session.fork())
      },
      cleanUp: () => deleteAll(forks),
    }
  }

  firstWrite(count: number): Contestant {
    const forks: Session[] = []
    return {
      count,
      prepare: () => this.#forkInto(forks, count),
      run: async () => {
        for (const fork of forks) await this.#write(fork)
      },
      cleanUp: () => deleteAll(forks),
    }
  }

  /** Each run changes the tree first, so that the first checkpoint has a new state. */
  async checkpoint(count: number): Promise<Contestant> {
    const session = await this.#session.fork()
    return {
      count,
      prepare: () => this.#write(session),
      run: async () => {
        for (let i = 0; i < count; i++) await session.checkpoint()
      },
    }
  }

  async restore(count: number): Promise<Contestant> {
    const session = await this.#session.fork()
    const checkpoints: string[] = []
    for (let version = 0; version < 2; version++) {
      await this.#write(session)
      checkpoints.push((await session.checkpoint()).id)
    }
    return {
      count,
      run: async () => {
        for (let i = 0; i < count; i++) await session.restore({ checkpointId: checkpoints[i % 2]! })
      },
    }
  }

  /** Reads pages from all parts of the tree. The manifest hash is already computed. */
  async manifestPage(count: number, pageSize: number): Promise<Contestant> {
    const tokens: string[] = []
    for (let pageToken = ''; ;) {
      const page = await this.#session.manifest({ pageSize, pageToken })
      if (page.nodes.length < pageSize) break
      tokens.push(pageToken)
      if (page.nextPageToken === '') break
      pageToken = page.nextPageToken
    }
    expect(tokens.length > 0, 'no manifest page is full')
    const chosen = shuffled(tokens)
    return {
      count,
      run: async () => {
        for (let i = 0; i < count; i++) {
          const { nodes } = await this.#session.manifest({ pageSize, pageToken: chosen[i % chosen.length]! })
          expect(nodes.length === pageSize, 'a manifest page is short')
        }
      },
    }
  }

  /** Reads the hash from the shortest page. */
  manifestHash(count: number): Contestant {
    const forks: Session[] = []
    return {
      count,
      prepare: async () => {
        await this.#session.manifest({ pageSize: 1 })
        await this.#forkInto(forks, count)
        for (const fork of forks) await this.#write(fork)
      },
      run: async () => {
        const hashes = new Set<string>()
        for (const fork of forks) hashes.add((await fork.manifest({ pageSize: 1 })).manifestHash)
        expect(hashes.size === count, 'two different trees have one hash')
      },
      cleanUp: () => deleteAll(forks),
    }
  }

  diff(count: number, changes: number): Contestant {
    const forks: Session[] = []
    return {
      count,
      prepare: async () => {
        await this.#forkInto(forks, count)
        for (const fork of forks) for (let i = 0; i < changes; i++) await this.#write(fork)
      },
      run: async () => {
        for (const fork of forks) {
          let found = 0
          for await (const { change } of fork.diff(this.#session)) found += change === 'modified' ? 1 : 0
          expect(found === changes, 'the diff does not match the changes')
        }
      },
      cleanUp: () => deleteAll(forks),
    }
  }

  async renameAll(count: number): Promise<Contestant> {
    const { promises } = (await this.#session.fork()).fs
    const names = [projectRoot, '/renamed']
    let current = 0
    return {
      count,
      run: async () => {
        for (let i = 0; i < count; i++) {
          await promises.rename(names[current]!, names[1 - current]!)
          current = 1 - current
        }
      },
    }
  }

  async #forkInto(forks: Session[], count: number): Promise<void> {
    for (let i = 0; i < count; i++) forks.push(await this.#session.fork())
  }

  /** Writes new content to the next file. */
  #write(session: Session): Promise<void> {
    const number = this.#number++
    return session.fs.promises.writeFile(this.#paths[number % this.#paths.length]!, `changed ${number}\n`)
  }
}

async function deleteAll(sessions: Session[]): Promise<void> {
  for (const session of sessions.splice(0)) await session.delete()
}
