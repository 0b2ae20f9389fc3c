import type { Secret } from '../services/secrets/secret.js'
import type { SecretScope } from '../records/secret.js'
import {
  parseSecretList,
  parseSecretPut,
  parseSecretReference,
  type SecretInfo,
  type SecretPutRequest,
  type SecretReference,
  type Secrets,
} from '../services/secrets/secrets.js'
import type { SessionAccess } from '../session/access/session-access.js'

/**
 * Values that are kept apart from files: always stored encrypted, and never in files, forks, commits, events,
 * errors or diagnostics. On a durable storage they need the option `secrets.masterKey`.
 */
export class SessionSecrets {
  readonly #access: SessionAccess
  readonly #service: Secrets

  constructor(access: SessionAccess, service: Secrets) {
    this.#access = access
    this.#service = service
  }

  /**
   * Sets a secret, whether it exists or not. NO_MASTER_KEY, with nothing stored, where the engine has none; QUOTA
   * for over 1,000 in a session; TOO_LARGE for a value over 64 KiB.
   *
   * @example
   * await session.secrets.put({ secretName: 'API_TOKEN', secretValue: token })
   */
  async put(request: SecretPutRequest): Promise<SecretInfo> {
    const secret = parseSecretPut(request)
    return this.#access.run('putSecret', (live) => this.#service.put(this.#access.core, live, secret))
  }

  /**
   * The value, in an object that shows it only when it is asked to. SECRET_NOT_FOUND; NO_MASTER_KEY when it is
   * under a key that the engine does not have; DATA_LOSS when the stored value was changed.
   *
   * @example
   * const { secretValue } = await session.secrets.get({ secretName: 'API_TOKEN' })
   * headers.authorization = `Bearer ${secretValue.reveal()}`
   */
  async get(request: { readonly secretName: string }): Promise<{ secretName: string; secretValue: Secret }> {
    const secretName = parseSecretReference(request)
    let found: Secret | undefined
    // Diagnostics see the operation's result.
    await this.#access.look('getSecret', async (live) => {
      found = await this.#service.get(this.#access.core, live, secretName)
    })
    return { secretName, secretValue: found! }
  }

  /** Names in the order of their bytes, without values. */
  async list(request: { readonly scope?: SecretScope } = {}): Promise<{ secrets: SecretInfo[] }> {
    parseSecretList(request)
    return this.#access.look('listSecrets', (live) => this.#service.list(this.#access.core, live))
  }

  /** SECRET_NOT_FOUND. */
  async delete(request: SecretReference): Promise<SecretInfo> {
    const secretName = parseSecretReference(request)
    return this.#access.run('deleteSecret', (live) =>
      this.#service.delete(this.#access.core, live, secretName),
    )
  }
}
