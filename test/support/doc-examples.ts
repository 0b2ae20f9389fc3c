import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../../src')

/** The code below an `@example` of a doc comment. */
export interface DocExample {
  /** Relative to src, such as `engine/facade/files.ts`. */
  readonly file: string
  /** The first line of the declaration, such as `async copy(request: CopyFileRequest): Promise<void> {`. */
  readonly declared: string
  readonly code: string
  /** The number of the first line of code, counted from 1. */
  readonly line: number
}

/** All examples of the sources. */
export function readExamples(): DocExample[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => name.replaceAll('\\', '/'))
    .sort()
    .flatMap((file) => examplesOf(file, readFileSync(join(root, file), 'utf8')))
}

export function examplesOf(file: string, text: string): DocExample[] {
  const examples: DocExample[] = []
  for (const { 0: comment, index } of text.matchAll(/\/\*\*(?:(?!\*\/)[\s\S])*\*\//g)) {
    const lines = comment
      .split('\n')
      .map((line) => line.replace(/^\s*(?:\*\/|\* ?)/, '').replace(/\s*\*\/$/, ''))
    const first = text.slice(0, index).split('\n').length
    const declared = text
      .slice(index + comment.length)
      .trimStart()
      .split('\n')[0]!
    for (const [at, line] of lines.entries()) {
      if (line !== '@example') continue
      const end = lines.findIndex((other, place) => place > at && other.startsWith('@'))
      const code = lines.slice(at + 1, end < 0 ? undefined : end).join('\n')
      examples.push({ file, declared, code: code.trimEnd(), line: first + at + 1 })
    }
  }
  return examples
}
