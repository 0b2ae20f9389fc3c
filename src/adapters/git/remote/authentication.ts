import { EngineError, invalid, untilAborted } from '../../../engine/ports.js'

export interface Credentials {
  readonly username: string
  readonly password: string
}

export interface CredentialsRequest {
  /** The URL of the remote, in its normal form. */
  readonly remoteUrl: string
  /** The `credentialsSecretId` of the source; '' if it has none. */
  readonly credentialsSecretId: string
}

export type CredentialsHook = (request: CredentialsRequest) => Promise<Credentials | undefined>

/**
 * The credentials of one operation. The hook is called at most once: at the start if the source has a
 * `credentialsSecretId`, otherwise when the remote asks for credentials. The credentials are kept only for
 * the operation.
 */
export class Authentication {
  readonly #request: CredentialsRequest
  readonly #hook: CredentialsHook | undefined
  #asked: Promise<Credentials | undefined> | undefined

  constructor(request: CredentialsRequest, hook: CredentialsHook | undefined) {
    this.#request = request
    this.#hook = hook
  }

  /**
   * Returns the credentials to send with the first request, if any. Throws CREDENTIALS_NOT_FOUND and the
   * hook's errors.
   */
  async atStart(signal: AbortSignal): Promise<Credentials | undefined> {
    const { credentialsSecretId } = this.#request
    if (credentialsSecretId === '') return this.#asked === undefined ? undefined : this.whenAsked(signal)
    const given = await this.whenAsked(signal)
    if (given !== undefined) return given
    throw new EngineError(
      'CREDENTIALS_NOT_FOUND',
      `git.credentials returned nothing for credentialsSecretId ${JSON.stringify(credentialsSecretId)}`,
      {
        credentialsSecretId,
      },
    )
  }

  /**
   * Returns the credentials for a remote that asks for them, or undefined if the hook has none. Throws the
   * hook's errors.
   */
  async whenAsked(signal: AbortSignal): Promise<Credentials | undefined> {
    return untilAborted((this.#asked ??= this.#ask()), signal)
  }

  async #ask(): Promise<Credentials | undefined> {
    const given = await this.#hook?.(this.#request)
    if (given === undefined || given === null) return undefined
    const { username, password } = given
    if (typeof username === 'string' && typeof password === 'string') return { username, password }
    throw invalid('git.credentials', 'must return an object with a username and a password, both strings')
  }
}
