import { styleText } from 'node:util'
import type { World } from './world.js'

/** What a piece of text is; each has one colour on a terminal. */
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
 * Whether a stream gets colours: `NO_COLOR` (https://no-color.org) switches them off, `FORCE_COLOR` on, and otherwise
 * a terminal that knows colours has them.
 */
export function wantsColour(stream: NodeJS.WriteStream, env: World['env']): boolean {
  if ((env['NO_COLOR'] ?? '') !== '') return false
  const forced = env['FORCE_COLOR']
  if (forced !== undefined && forced !== '') return forced !== '0' && forced !== 'false'
  return stream.isTTY && stream.getColorDepth(env) > 1
}

export function paint(style: Style, text: string): string {
  // Whether there are colours is decided before.
  return styleText(styles[style], text, { validateStream: false })
}
