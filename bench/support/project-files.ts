import { randomWords } from './random-words.js'

const syllables = [
  'ba',
  'con',
  'del',
  'fer',
  'gra',
  'in',
  'ko',
  'lu',
  'mer',
  'nor',
  'per',
  'qui',
  'ras',
  'sto',
]
const endings = ['.ts', '.ts', '.ts', '.test.ts', '.json', '.md']
const maxDepth = 8

/** The directory that holds all project files. */
export const projectRoot = '/project'

/**
 * Paths as in a real repository: nested directories of 4 to 23 files with names of various lengths. The same count
 * gives the same paths.
 */
export function projectPaths(count: number): string[] {
  const next = randomWords(count)
  const below = (limit: number): number => next() % limit
  const directories: { path: string; depth: number }[] = [{ path: projectRoot, depth: 1 }]
  const paths: string[] = []
  for (let at = 0; paths.length < count; at++) {
    const { path, depth } = directories[at]!
    const files = Math.min(4 + below(20), count - paths.length)
    for (let i = 0; i < files; i++)
      paths.push(`${path}/${word(below, 14)}${i}${endings[below(endings.length)]!}`)
    const children = depth === maxDepth ? 0 : 1 + below(4)
    for (let i = 0; i < children; i++) {
      directories.push({ path: `${path}/${word(below, 18)}${i}`, depth: depth + 1 })
    }
    // Directories at the deepest level have no children, so the list can end too early.
    if (at === directories.length - 1) {
      directories.push({ path: `${projectRoot}/${word(below, 12)}-${at}`, depth: 2 })
    }
  }
  return paths
}

/** Files for `sessions.create`, each with different content. */
export function filesOf(paths: readonly string[]): Record<string, string> {
  const files: Record<string, string> = {}
  for (const [index, path] of paths.entries()) files[path] = `export const number = ${index}\n`
  return files
}

/** Paths of `count` files in one directory. */
export function flatPaths(count: number): string[] {
  const width = String(count).length
  return Array.from(
    { length: count },
    (_, index) => `${projectRoot}/entry-${String(index).padStart(width, '0')}.ts`,
  )
}

/** Contents of one size, all different. */
export function contents(count: number, bytes: number, seed = 1): Buffer[] {
  const next = randomWords(seed)
  return Array.from({ length: count }, () => {
    const content = Buffer.alloc(bytes)
    for (let at = 0; at + 4 <= bytes; at += 4) content.writeUInt32LE(next(), at)
    return content
  })
}

/** The items in a shuffled order, which is the same in every run. */
export function shuffled<T>(items: readonly T[], seed = 7): T[] {
  const next = randomWords(seed)
  const copy = [...items]
  for (let at = copy.length - 1; at > 0; at--) {
    const other = next() % (at + 1)
    const item = copy[at]!
    copy[at] = copy[other]!
    copy[other] = item
  }
  return copy
}

function word(below: (limit: number) => number, maxLength: number): string {
  const length = 6 + below(maxLength - 6)
  let text = ''
  while (text.length < length) text += syllables[below(syllables.length)]!
  return text.slice(0, length)
}

/** Text like that of a source file, from 200 bytes to about 60 KB, mostly near 3 KB. The same number gives the same text. */
export function sourceText(number: number): string {
  const next = randomWords(number + 1)
  const below = (limit: number): number => next() % limit
  // Few files are large: each doubling of the size halves their number.
  let lines = 8 + below(60)
  while (lines < 1500 && below(2) === 0) lines *= 2
  let text = `import { ${word(below, 12)} } from './${word(below, 16)}.js'\n\n`
  for (let line = 0; line < lines; line++) {
    const name = word(below, 14)
    const body = `${'  '.repeat(below(4))}const ${name} = ${word(below, 14)}(${name}, ${below(1000)})\n`
    text += line % 17 === 16 ? `}\n\nexport function ${name}(): void {\n` : body
  }
  return text
}
