import { Authentication, type CredentialsHook } from './authentication.js'
import { FetchedObjects } from './fetched-objects.js'
import { HttpClient, type HttpClientOptions } from './http-client.js'
import type { ObjectFormat } from '../objects/object-id.js'
import { push } from './receive-pack.js'
import type { PushRequest, RemoteRefs, Repository, RevisionRequest } from '../repository.js'
import { connect, type Service, type SmartConnection } from './smart-connection.js'
import { fetchHistory, fetchPack, listRefs } from './upload-pack.js'

export interface HttpRepositoryOptions extends HttpClientOptions {
  readonly url: string
  readonly credentialsSecretId: string
  readonly credentials: CredentialsHook | undefined
}

/**
 * A repository over smart HTTP, for one operation. The read service, git-upload-pack, is discovered only
 * once.
 */
export class HttpRepository implements Repository {
  readonly #url: string
  readonly #http: HttpClient
  readonly #authentication: Authentication
  readonly #transfer: HttpRepositoryOptions['transfer']
  #uploadPack: Promise<SmartConnection> | undefined

  constructor(options: HttpRepositoryOptions) {
    const { url, credentialsSecretId, credentials } = options
    this.#url = url
    this.#http = new HttpClient(options)
    this.#transfer = options.transfer
    this.#authentication = new Authentication({ remoteUrl: url, credentialsSecretId }, credentials)
  }

  async authenticate(signal: AbortSignal): Promise<void> {
    await this.#authentication.atStart(signal)
  }

  async format(signal: AbortSignal): Promise<ObjectFormat> {
    return (await this.#connectUploadPack(signal)).advertisement.format
  }

  async listRefs(options: { prefixes: readonly string[]; signal: AbortSignal }): Promise<RemoteRefs> {
    const connection = await this.#connectUploadPack(options.signal)
    return listRefs(connection, options.prefixes, (count) => this.#transfer?.received(count))
  }

  async openObjects(request: RevisionRequest): Promise<FetchedObjects> {
    const connection = await this.#connectUploadPack(request.signal)
    const { format } = connection.advertisement
    return FetchedObjects.fetch({
      request,
      format,
      pack: (haves) => fetchPack(connection, { ...request, haves }),
      history: (sinceSeconds) => fetchHistory(connection, { ...request, sinceSeconds }),
    })
  }

  async push(request: PushRequest): Promise<void> {
    await push(() => this.#connect('git-receive-pack', request.signal), request)
  }

  close(): Promise<void> {
    this.#http.close()
    return Promise.resolve()
  }

  #connectUploadPack(signal: AbortSignal): Promise<SmartConnection> {
    return (this.#uploadPack ??= this.#connect('git-upload-pack', signal))
  }

  #connect(service: Service, signal: AbortSignal): Promise<SmartConnection> {
    return connect({
      url: this.#url,
      authentication: this.#authentication,
      service,
      signal,
      http: this.#http,
    })
  }
}
