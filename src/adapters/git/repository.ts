import {
  EngineError,
  invalid,
  type GitRemote,
  type GitTransport,
  type PushRequest,
  type RemoteRefs,
} from '../../engine/ports.js'
import { HttpTransport, type HttpTransportOptions } from './http-transport.js'
import { openLocalRepository } from './local-repository.js'
import type { ObjectSource } from './object-source.js'
import { openPack } from './pack-objects.js'
import { checkRemoteUrl } from './remote-url.js'

/** What importer and committer need of a repository, wherever it lives. */
export interface Repository {
  listRefs: GitTransport['listRefs']
  /** The objects of one revision, from `want` down. */
  openObjects(options: {
    want: string
    signal: AbortSignal
    onBytes(count: number): void
  }): Promise<ObjectSource>
  push(request: PushRequest): Promise<void>
  close(): void
}

export interface RepositoryOptions extends Omit<HttpTransportOptions, 'url'> {
  readonly hostPathRoots: readonly string[]
}

export async function openRepository(remote: GitRemote, options: RepositoryOptions): Promise<Repository> {
  const { remoteUrl, repositoryPath } = remote
  if ((remoteUrl === undefined) === (repositoryPath === undefined)) {
    throw invalid('remoteUrl', 'give exactly one of remoteUrl and repositoryPath')
  }
  return remoteUrl === undefined
    ? openLocalRepository(repositoryPath!, options.hostPathRoots)
    : new HttpRepository(new HttpTransport({ ...options, url: checkRemoteUrl(remoteUrl) }))
}

/** A transport with its packs opened. */
class HttpRepository implements Repository {
  readonly #transport: HttpTransport

  constructor(transport: HttpTransport) {
    this.#transport = transport
  }

  listRefs(options: { prefixes: readonly string[]; signal: AbortSignal }): Promise<RemoteRefs> {
    return this.#transport.listRefs(options)
  }

  async openObjects(options: Parameters<Repository['openObjects']>[0]): Promise<ObjectSource> {
    const objects = await openPack(await this.#transport.fetchPack(options), options.signal)
    if (!objects.oids.includes(options.want)) {
      throw new EngineError('GIT_CORRUPT', 'the pack does not hold what was asked for')
    }
    return objects
  }

  push(request: PushRequest): Promise<void> {
    return this.#transport.push(request)
  }

  close(): void {
    this.#transport.close()
  }
}
