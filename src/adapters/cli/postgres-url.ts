/** Storage on PostgreSQL in options of the command line. A URL may contain a password, so no output repeats it. */
import { UsageError } from './failure.js'

/** Whether a value of an option is the URL of a PostgreSQL database. */
export function isPostgresUrl(value: string): boolean {
  return /^postgres(ql)?:/i.test(value)
}

/** The server and the database of a URL, without the user, the password and the parameters. */
export function shownPostgres(url: string): string {
  // Only the parser finds the end of a password with an @, which may also be a parameter.
  if (!URL.canParse(url)) return 'postgres'
  const { host, pathname } = new URL(url)
  return `postgres://${host}${pathname}`
}

/** @throws {UsageError} when the value is not a directory but the URL of a database. */
export function requireDirectory(option: string, value: string, instead: string): void {
  if (isPostgresUrl(value))
    throw new UsageError(`${option} takes a directory; for a store on PostgreSQL, ${instead}`)
}
