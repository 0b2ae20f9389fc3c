import { styleText } from 'node:util'
import type { World } from './world.js'

/** The colour of each kind of text on a terminal. */
const styles = {
  added: 'green',
  removed: 'red',
  modified: 'yellow',
  hunk: 'cyan',
  heading: 'bold',
  directory: 'blue',
  symlink: 'cyan',
  quiet: 'dim',
} as const

export type Style = keyof typeof styles

/**
 * Whether to write colours to a stream. `NO_COLOR` (https://no-color.org) switches them off, and
 * `FORCE_COLOR` switches them on. Otherwise, colours are used if the stream is a terminal that supports them.
 */
export function wantsColour(stream: NodeJS.WriteStream, env: World['env']): boolean {
  if ((env['NO_COLOR'] ?? '') !== '') return false
  const forced = env['FORCE_COLOR']
  if (forced !== undefined && forced !== '') return forced !== '0' && forced !== 'false'
  return stream.isTTY && stream.getColorDepth(env) > 1
}

export function paint(style: Style, text: string): string {
  // The caller has already decided whether to use colours.
  return styleText(styles[style], text, { validateStream: false })
}
