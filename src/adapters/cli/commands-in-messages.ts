/** Calls of the library that messages of the engine name, and the commands that do the same. */
const commands: readonly (readonly [call: string, command: string])[] = [
  ['listCheckpoints() lists them', '"forkspace session show" lists them'],
  ['the bytes that session.exportBundle() gave', 'a file that "forkspace export --bundle" wrote'],
  ['with sync()', 'with "forkspace sync"'],
  ['{ force: true }', '--force'],
  [
    'give them through the `credentials` option',
    'give them by --username and --password-env or --password-file',
  ],
]

/** A message of the engine as a user of the command line can act on it. */
export function inCommands(message: string): string {
  return commands.reduce((text, [call, command]) => text.replaceAll(call, command), message)
}
