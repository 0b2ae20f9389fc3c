import { Option, type Command } from 'commander'

/** An option of the command line, and its names in the library. */
export class Flag extends Option {
  libraryNames: readonly string[] = []

  /** Sets the library names that this flag replaces in messages of the engine. */
  sets(...libraryNames: readonly string[]): this {
    this.libraryNames = libraryNames
    return this
  }
}

/** Replaces the names of library options in a message of the engine. */
export type InFlags = (message: string) => string

export const unchanged: InFlags = (message) => message

/**
 * Returns a function that replaces library options with the flags of the command. If `server` is given, a
 * message about an engine option contains the flag of that command, which starts the server.
 */
export function flagsOf(command: Command, server?: Command): InFlags {
  const ofServer = new Set(server?.options.map(({ long }) => long))
  const shown = new Map<string, { readonly flag: string; readonly how: string }>()
  for (const option of command.options) {
    if (!(option instanceof Flag)) continue
    const flag = option.long
    if (flag === undefined) continue
    const how = ofServer.has(flag) ? 'start the server with' : 'pass'
    for (const name of option.libraryNames) shown.set(name, { flag, how })
  }
  if (shown.size === 0) return unchanged
  const names = [...shown.keys()].map((name) =>
    isWord(name) ? `^${name}(?=:)` : name.replaceAll('.', String.raw`\.`),
  )
  const pattern = new RegExp(`(open the engine with )?(?<![\\w.])(${names.join('|')})(: true)?(?!\\w)`, 'g')
  return (message) =>
    message.replace(pattern, (_, opens: string | undefined, name: string) => {
      const option = shown.get(name)
      if (option === undefined) return name
      const { flag, how } = option
      return opens === undefined ? flag : `${how} ${flag}`
    })
}

/** Whether a name is an ordinary word, which is replaced only at the start of a message. */
function isWord(name: string): boolean {
  return /^[a-z]+$/.test(name)
}
