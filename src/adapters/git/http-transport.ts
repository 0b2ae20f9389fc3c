import type { GitTransport, PushRequest, RemoteRefs } from '../../engine/ports.js'
import { HttpClient, type HttpClientOptions } from './http-client.js'
import { push } from './receive-pack.js'
import { connect, type Credentials, type Service, type SmartConnection } from './smart-connection.js'
import { fetchPack, listRefs } from './upload-pack.js'

export interface HttpTransportOptions extends HttpClientOptions {
  readonly url: string
  readonly credentials: ((url: string) => Promise<Credentials | undefined>) | undefined
}

/** One repository behind smart HTTP, for one operation: what it advertises is asked for once. */
export class HttpTransport implements GitTransport {
  readonly #options: HttpTransportOptions
  readonly #http: HttpClient
  #uploadPack: Promise<SmartConnection> | undefined

  constructor(options: HttpTransportOptions) {
    this.#options = options
    this.#http = new HttpClient(options)
  }

  async listRefs(options: { prefixes: readonly string[]; signal: AbortSignal }): Promise<RemoteRefs> {
    return listRefs(await this.#connectUploadPack(options.signal), options.prefixes)
  }

  async fetchPack(options: {
    want: string
    signal: AbortSignal
    onBytes(count: number): void
  }): Promise<Uint8Array> {
    return fetchPack(await this.#connectUploadPack(options.signal), options)
  }

  async push(request: PushRequest): Promise<void> {
    await push(() => this.#connect('git-receive-pack', request.signal), request)
  }

  close(): void {
    this.#http.close()
  }

  #connectUploadPack(signal: AbortSignal): Promise<SmartConnection> {
    return (this.#uploadPack ??= this.#connect('git-upload-pack', signal))
  }

  #connect(service: Service, signal: AbortSignal): Promise<SmartConnection> {
    const { url, credentials } = this.#options
    return connect({ url, credentials, service, signal, http: this.#http })
  }
}
