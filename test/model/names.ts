import { limits } from '../../src/index.js'
import { endsPage } from '../../src/engine/tree/page.js'

/** Only a few, so that random operations affect each other. */
export const plainNames = ['a', 'b', 'c', 'd']

/** The first `count` names `<prefix><number>` that end a page of a directory, or that do not. */
export function numberedNames(prefix: string, count: number, ends: boolean): string[] {
  const names: string[] = []
  for (let i = 0; names.length < count; i++)
    if (endsPage(`${prefix}${i}`) === ends) names.push(`${prefix}${i}`)
  return names
}

export const pageEnds = numberedNames('n', 6, true)

/** Names that a careless implementation might misread, sort wrongly or join. */
export const exoticNames = [
  '__proto__',
  'constructor',
  'toString',
  '\u{1f600}',
  '\u{1f600}z',
  '\u{10ffff}',
  '\ud7ff',
  '\ue000',
  '\uffff',
  '\ufb01',
  'é',
  'e\u0301',
  ' ',
  '\n',
  '\u0001',
  '\\',
  '...',
  '.a',
  'a.',
  'a!',
  'a0',
  'A',
  '-',
  'x'.repeat(limits.nameBytes),
  '\u{1f600}'.repeat(Math.floor(limits.nameBytes / 4)),
]

/** Names that are rejected. */
export const badNames = [
  '',
  '.',
  '..',
  'a\0',
  '\ud83d',
  '\ude00',
  'y'.repeat(limits.nameBytes + 1),
  '\u{1f600}'.repeat(64),
]
