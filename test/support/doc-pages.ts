import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')
/** A file of the project, in a page that the package has without this file. */
const inRepository = /^https:\/\/github\.com\/forkspace\/forkspace\/(?:blob|tree)\/main\//

/** A fenced block of a page. */
export interface CodeBlock {
  /** The first word after the fence, such as `ts` or `sh`; '' for none. */
  readonly language: string
  /** The text after the language, such as `file=esbuild.mjs`. */
  readonly rest: string
  readonly code: string
  /** The number of the first line of code, counted from 1. */
  readonly line: number
  /** The reason in a preceding `<!-- not run: REASON -->`, which excludes the block from compilation and execution. */
  readonly notRun: string | undefined
}

/** A page of Markdown. */
export interface Page {
  /** Relative to the project, such as `docs/files.md`. */
  readonly path: string
  readonly text: string
  readonly blocks: readonly CodeBlock[]
  /** The anchors of its headings that are the same on GitHub and on the site. */
  readonly anchors: ReadonlySet<string>
  /** Targets of its links to files of the project. */
  readonly links: readonly { readonly target: string; readonly line: number }[]
}

/** All pages of the project: in the root, in `docs` and in the sources. */
export function readPages(): Page[] {
  const below = (directory: string): string[] =>
    readdirSync(join(root, directory), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md') && !/(^|\/)(node_modules|api|dist|cache)\//.test(name))
      .map((name) => `${directory}/${name}`)
  const ofRoot = readdirSync(root).filter((name) => name.endsWith('.md'))
  return [...ofRoot, ...below('docs'), ...below('src')]
    .toSorted()
    .map((path) => parsePage(path, readFileSync(join(root, path), 'utf8')))
}

/** Parses the parts of a page that tests check. */
export function parsePage(path: string, text: string): Page {
  const blocks: CodeBlock[] = []
  const anchors = new Set<string>()
  const links: { target: string; line: number }[] = []
  const lines = text.split('\n')
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index]!
    const fence = /^(?<indent> *)```(?<language>\S*) *(?<rest>.*)$/.exec(line)?.groups
    if (fence !== undefined) {
      const end = lines.findIndex((other, at) => at > index && other.trim() === '```')
      if (end < 0) throw new Error(`${path}:${index + 1}: the block has no end`)
      const code = lines.slice(index + 1, end).map((part) => part.slice(fence['indent']!.length))
      blocks.push({
        language: fence['language']!,
        rest: fence['rest']!,
        code: code.join('\n'),
        line: index + 2,
        notRun: /<!-- not run: (.+) -->/.exec(lines.slice(Math.max(0, index - 2), index).join('\n'))?.[1],
      })
      index = end
      continue
    }
    const heading = /^#{1,6} (.*)$/.exec(line)?.[1]
    const anchor = heading === undefined ? undefined : anchorOf(heading)
    if (anchor !== undefined) anchors.add(anchor)
    const prose = line.replaceAll(/`[^`]*`/g, '')
    for (const [, target = ''] of prose.matchAll(/\]\(([^)\s]+)\)/g)) {
      const file = target.replace(inRepository, '')
      if (file !== target) links.push({ target: relative(dirname(path), file), line: index + 1 })
      else if (!/^[a-z]+:/.test(target)) links.push({ target, line: index + 1 })
    }
  }
  return { path, text, blocks, anchors, links }
}

/** The anchor of a heading; undefined where GitHub and VitePress generate different ones, as for `a: b`. */
function anchorOf(heading: string): string | undefined {
  const text = heading.replaceAll('`', '')
  return /^[\p{L}\p{N}]+(?:[ -][\p{L}\p{N}]+)*$/u.test(text)
    ? text.toLowerCase().replaceAll(' ', '-')
    : undefined
}

/**
 * The reason in `<!-- code not run: REASON -->`, which excludes all blocks of a page from compilation and execution.
 */
function codeNotRun(text: string): string | undefined {
  return /^<!-- code not run: (.+) -->$/m.exec(text)?.[1]
}

/**
 * A page's `js` and `ts` blocks as one program. Each block is nested in the previous one, so it sees the earlier names
 * and may redeclare them. Code keeps its line numbers from the page.
 */
export function programOf(
  { text, blocks }: Page,
  world = './docs-world.js',
  worldNames: readonly string[] = pageNames,
): string | undefined {
  const programs = blocks.filter(
    ({ language, rest, notRun }) => /^[jt]s$/.test(language) && rest === '' && notRun === undefined,
  )
  if (programs.length === 0 || codeNotRun(text) !== undefined) return undefined
  const imports = new Map<string, Set<string>>()
  const lines: string[] = []
  for (const { code, line } of programs) {
    while (lines.length < line - 1) lines.push('')
    lines[line - 2] += '{'
    const withoutImports = code.replaceAll(
      /^import ([^;]*?) from '([^']+)';?$/gms,
      (statement, names: string, from: string) => {
        const known = imports.get(from) ?? new Set()
        for (const name of importedNames(names)) known.add(name)
        imports.set(from, known)
        return statement.replaceAll(/[^\n]/g, '')
      },
    )
    const body = withoutImports.split('\n')
    for (const [index, text] of body.entries())
      lines.push(text.replace('console.log(', `log(${line + index}, `))
  }
  const head = [...imports].map(([from, names]) => importOf(from, [...names])).join(';')
  const own = `import { makeWorld } from '${world.startsWith('.') ? world : `./${world}`}'`
  const names = worldNames.join(', ')
  const start = `await using world = await makeWorld(place); const { ${names} } = world`
  const open = `export default async (log: (line: number, ...values: unknown[]) => void, place: string) => {`
  lines[0] = `${own};${head};${open} ${start};${lines[0] ?? ''}`
  return `${lines.join('\n')}\n${'}'.repeat(programs.length)}}\n`
}

/** Names that every page may use without declaring them; `docs-world.ts` defines them. */
const pageNames = ['engine', 'session', 'fork', 'directory', 'show', 'signal', 'token'] as const

/**
 * The names of an import clause, each as it would appear in a braced list; includes `* as`, default and type imports.
 */
function importedNames(clause: string): string[] {
  const braced = /^(?<type>type )?\{(?<names>[^}]*)\}$/s.exec(clause.trim())?.groups
  if (braced === undefined) return [clause.trim()]
  return braced['names']!.split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
    .map((name) => `{${braced['type'] ?? ''}${name}}`)
}

function importOf(from: string, names: readonly string[]): string {
  const braced = names.filter((name) => name.startsWith('{')).map((name) => name.slice(1, -1))
  const others = names.filter((name) => !name.startsWith('{'))
  return [
    ...others.map((name) => `import ${name} from '${from}'`),
    ...(braced.length > 0 ? [`import { ${braced.join(', ')} } from '${from}'`] : []),
  ].join(';')
}

/** The expected output of each `console.log` of a page, by line, taken from the trailing comment of the call. */
export function expectedOutput({ blocks }: Page): Map<number, string> {
  const expected = new Map<number, string>()
  for (const { code, line, language } of blocks) {
    if (!/^[jt]s$/.test(language)) continue
    for (const [index, text] of code.split('\n').entries()) {
      const comment = /console\.log\(.*\) \/\/ (.*)$/.exec(text)?.[1]
      if (comment !== undefined) expected.set(line + index, comment.trim())
    }
  }
  return expected
}
