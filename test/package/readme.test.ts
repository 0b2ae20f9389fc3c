import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const readme = readFileSync(join(root, 'README.md'), 'utf8')

describe('README', () => {
  test('has a first example that runs on the built package and prints the documented output', () => {
    const example = /```js\n([\s\S]*?)```/.exec(readme)![1]!
    expect(
      example
        .trim()
        .split('\n')
        .filter((line) => line.trim() !== '').length,
    ).toBeLessThanOrEqual(12)
    // In the project, so that the package finds itself by name.
    const directory = mkdtempSync(join(root, '.tmp-readme-'))
    try {
      const file = join(directory, 'example.mjs')
      writeFileSync(file, example)
      const output = execFileSync(process.execPath, [file], { encoding: 'utf8', cwd: directory })
      expect(output.trim()).toBe(/console\.log\(.*\/\/ (.*)/.exec(example)![1])
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })
})
