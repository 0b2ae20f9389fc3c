/** Credentials for a git remote, from options of the command line. */
import { readFile } from 'node:fs/promises'
import { Failure, UsageError } from './failure.js'

export interface CredentialOptions {
  readonly username?: string
  readonly passwordEnv?: string
  readonly passwordFile?: string
}

export interface Credentials {
  readonly username: string
  readonly password: string
}

/** The user name that git hosts accept together with a token. */
const tokenUsername = 'x-access-token'

/**
 * Parses the credentials in the options, if any. The returned function reads and checks a password file when
 * it is called.
 */
export function parseCredentials(
  { username, passwordEnv, passwordFile }: CredentialOptions,
  variables: Readonly<Record<string, string | undefined>>,
): (() => Promise<Credentials>) | undefined {
  if (passwordEnv !== undefined && passwordFile !== undefined)
    throw new UsageError('--password-env and --password-file cannot be combined')
  if (username !== undefined && (username === '' || /[:\n]/.test(username)))
    throw new UsageError('--username takes a name without a colon or newline')
  const whole = (password: string): Credentials => ({ username: username ?? tokenUsername, password })
  if (passwordFile !== undefined) return async () => whole(await readPassword(passwordFile))
  if (passwordEnv === undefined) {
    if (username === undefined) return undefined
    throw new UsageError('--username needs --password-env or --password-file')
  }
  const password = variables[passwordEnv]
  // The error shows neither the value nor the name, because a user may pass a password as the name by
  // mistake.
  if (password === undefined || password === '')
    throw new UsageError('--password-env takes the name of a variable, but no such variable is set')
  return () => Promise.resolve(whole(password))
}

/** Reads the only line of a file. */
async function readPassword(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Failure(
      error.code === 'ENOENT' ? `there is no file ${path}` : `${path} cannot be read: ${error.code ?? ''}`,
      { cause: error },
    )
  })
  const password = text.replace(/\r?\n$/, '')
  if (password === '' || /[\r\n]/.test(password))
    throw new Failure(`${path} must contain one line, the password`)
  return password
}
