import { present } from '../base/present.js'
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
 * Values separate from files: always stored encrypted, and never in files, forks, commits, events, errors or
 * diagnostics. On a durable storage they need the option `secrets.masterKey`.
 */
export class SessionSecrets {
  readonly #access: SessionAccess
  readonly #service: Secrets

  /** @internal */
  constructor(access: SessionAccess, service: Secrets) {
    this.#access = access
    this.#service = service
  }

  /**
   * Sets a secret, whether it exists or not.
   *
   * @throws {EngineError} NO_MASTER_KEY when the engine has no master key. Nothing is stored.
   * @throws {EngineError} QUOTA when the session would have over 1,000 secrets.
   * @throws {EngineError} TOO_LARGE when the value is over 64 KiB, or the name over 128 bytes.
   * @throws {EngineError} INVALID_ARGUMENT when the name has the wrong form.
   *
   * @example
   * await session.secrets.put({ secretName: 'API_TOKEN', secretValue: 'token' })
   */
  async put(request: SecretPutRequest): Promise<SecretInfo> {
    const secret = parseSecretPut(request)
    return this.#access.run('putSecret', (live) => this.#service.put(this.#access.core, live, secret))
  }

  /**
   * Reads a secret.
   *
   * @throws {EngineError} SECRET_NOT_FOUND when the session has no secret with this name.
   * @throws {EngineError} NO_MASTER_KEY when the engine does not have the key of the secret.
   * @throws {EngineError} DATA_LOSS when the stored value is damaged.
   *
   * @example
   * const { secretValue } = await session.secrets.get({ secretName: 'API_TOKEN' })
   * const authorization = `Bearer ${secretValue.reveal()}`
   */
  async get(request: {
    /** The name of the secret, as `put` received it. */
    readonly secretName: string
  }): Promise<{
    /** The name of the secret. */
    secretName: string
    /** The value, in an object that prints without it. `reveal()` returns the text. */
    secretValue: Secret
  }> {
    const secretName = parseSecretReference(request)
    let found: Secret | undefined
    // Diagnostics see the operation's result.
    await this.#access.look('getSecret', async (live) => {
      found = await this.#service.get(this.#access.core, live, secretName)
    })
    return { secretName, secretValue: present(found, 'the value of a secret') }
  }

  /**
   * The names of all secrets, without values.
   *
   * @example
   * const { secrets } = await session.secrets.list()
   */
  async list(
    request: {
      /** The only scope, which is also the default. */
      readonly scope?: SecretScope
    } = {},
  ): Promise<{
    /** In the order of the bytes of their names. */
    secrets: SecretInfo[]
  }> {
    parseSecretList(request)
    return this.#access.look('listSecrets', (live) => this.#service.list(this.#access.core, live))
  }

  /**
   * Deletes a secret. It needs no master key.
   *
   * @throws {EngineError} SECRET_NOT_FOUND when the session has no secret with this name.
   *
   * @example
   * await session.secrets.delete({ secretName: 'API_TOKEN' })
   */
  async delete(request: SecretReference): Promise<SecretInfo> {
    const secretName = parseSecretReference(request)
    return this.#access.run('deleteSecret', (live) =>
      this.#service.delete(this.#access.core, live, secretName),
    )
  }
}
