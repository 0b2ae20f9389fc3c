/** Library calls that occur in messages of the engine, and the commands that replace them. */
const commands: readonly (readonly [call: string, command: string])[] = [
  ['listCheckpoints() lists them', '"forkspace session show" lists them'],
  ['the bytes that session.exportBundle() returned', 'a file that "forkspace export --bundle" wrote'],
  ['session.conflicts.list() lists them', '"forkspace conflicts" lists them'],
  ['with session.conflicts.resolve()', 'with "forkspace resolve"'],
  ['with session.conflicts.abort()', 'with "forkspace abort"'],
  ['with sync()', 'with "forkspace sync"'],
  ['call session.checkout() again', 'run "forkspace checkout" again'],
  ['run engine.check() if', 'run "forkspace check" if'],
  [
    'Run `engine.check()`, then restore a backup or use `repairStore`.',
    'Run "forkspace check", then restore a backup or use "forkspace repair".',
  ],
  ['use session.merge() instead', 'use "forkspace merge" instead'],
  ['with sources.startImport', 'with "forkspace source import"'],
  ['Pass literal: true to search', 'Pass --literal to search'],
  ['{ force: true }', '--force'],
  [
    'pass them through the `credentials` option',
    'pass them with --username and --password-env or --password-file',
  ],
]

/** Replaces library calls in a message of the engine with commands. */
export function inCommands(message: string): string {
  return commands.reduce((text, [call, command]) => text.replaceAll(call, command), message)
}
