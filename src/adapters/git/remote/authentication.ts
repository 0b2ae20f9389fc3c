import { EngineError, invalid, untilAborted } from '../../../engine/ports.js'

export interface Credentials {
  readonly username: string
  readonly password: string
}

export interface CredentialsRequest {
  /** The URL of the remote, in its normal form. */
  readonly remoteUrl: string
  /** As the source has it; '' when it names none. */
  readonly credentialsSecretId: string
}

export type CredentialsHook = (request: CredentialsRequest) => Promise<Credentials | undefined>

/**
 * The credentials of one operation. The embedder is asked once at most: at the start when the source names
 * credentials, else when the remote wants some. They are kept as long as the operation lasts.
 */
export class Authentication {
  readonly #request: CredentialsRequest
  readonly #hook: CredentialsHook | undefined
  #asked: Promise<Credentials | undefined> | undefined

  constructor(request: CredentialsRequest, hook: CredentialsHook | undefined) {
    this.#request = request
    this.#hook = hook
  }

  /** What is to be sent before the remote asks. Throws CREDENTIALS_NOT_FOUND, and what the hook throws. */
  async atStart(signal: AbortSignal): Promise<Credentials | undefined> {
    const { credentialsSecretId } = this.#request
    if (credentialsSecretId === '') return this.#asked === undefined ? undefined : this.whenAsked(signal)
    const given = await this.whenAsked(signal)
    if (given !== undefined) return given
    throw new EngineError(
      'CREDENTIALS_NOT_FOUND',
      `git.credentials gave nothing for credentialsSecretId ${JSON.stringify(credentialsSecretId)}`,
      {
        credentialsSecretId,
      },
    )
  }

  /** What answers a remote that wants credentials. Throws what the hook throws. */
  async whenAsked(signal: AbortSignal): Promise<Credentials | undefined> {
    return untilAborted((this.#asked ??= this.#ask()), signal)
  }

  async #ask(): Promise<Credentials | undefined> {
    const given = await this.#hook?.(this.#request)
    if (given === undefined || given === null) return undefined
    const { username, password } = given
    if (typeof username === 'string' && typeof password === 'string') return { username, password }
    throw invalid('git.credentials', 'must give an object with a username and a password, both strings')
  }
}
