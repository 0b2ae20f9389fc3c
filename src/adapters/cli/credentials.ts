/** What a git remote is to be told, where it asks who comes. */
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

/** Hosts of git take it beside a token. */
const tokenUsername = 'x-access-token'

/** What options name; undefined where none does. The password is read, and checked, when it is asked for. */
export function parseCredentials(
  { username, passwordEnv, passwordFile }: CredentialOptions,
  variables: Readonly<Record<string, string | undefined>>,
): (() => Promise<Credentials>) | undefined {
  if (passwordEnv === undefined && passwordFile === undefined) {
    if (username === undefined) return undefined
    throw new UsageError('--username goes with --password-env or --password-file')
  }
  if (passwordEnv !== undefined && passwordFile !== undefined)
    throw new UsageError('--password-env and --password-file exclude each other')
  if (username !== undefined && (username === '' || /[:\n]/.test(username)))
    throw new UsageError('--username takes a name without a colon')
  const whole = (password: string): Credentials => ({ username: username ?? tokenUsername, password })
  if (passwordFile !== undefined) return async () => whole(await readPassword(passwordFile))
  const password = variables[passwordEnv!]
  // The value is not repeated, and neither is the name, which may be a password by mistake.
  if (password === undefined || password === '')
    throw new UsageError('--password-env takes the name of a variable, and there is none of this name')
  return () => Promise.resolve(whole(password))
}

/** Without the end of its line. */
async function readPassword(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Failure(
      error.code === 'ENOENT' ? `there is no file ${path}` : `${path} cannot be read: ${error.code ?? ''}`,
      { cause: error },
    )
  })
  const password = text.replace(/\r?\n$/, '')
  if (password === '' || /[\r\n]/.test(password))
    throw new Failure(`${path} must hold one line, the password`)
  return password
}
