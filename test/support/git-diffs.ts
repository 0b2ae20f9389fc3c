import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { GitTree } from './git-apply.js'
import { gitEnvironment } from './git-repository.js'
import { temporaryDirectory } from './temporary-directory.js'

/** The patch of each pair of trees, as `git diff --binary --full-index` writes it. One git writes all of them. */
export function gitDiffs(
  pairs: readonly { readonly before: GitTree; readonly after: GitTree }[],
  options: readonly string[],
): string[] {
  const directory = mkdtempSync(join(temporaryDirectory(), 'git-diffs-'))
  try {
    const git = (args: readonly string[], input: string): string => {
      const { status, stdout, stderr } = spawnSync('git', args, {
        cwd: directory,
        env: gitEnvironment,
        input: Buffer.from(input, 'latin1'),
        maxBuffer: 2 ** 30,
      })
      if (status !== 0) throw new Error(stderr.toString())
      return stdout.toString('latin1')
    }
    git(['init', '-q', '--bare', '.'], '')
    const commits = pairs.flatMap(({ before, after }, index) => [
      commit(before, 2 * index + 1),
      commit(after, 2 * index + 2),
    ])
    git(['fast-import', '--quiet', '--export-marks=marks'], `${commits.join('')}done\n`)
    const ids = new Map(
      readFileSync(join(directory, 'marks'), 'utf8')
        .split('\n')
        .map((line) => {
          const [mark = '', id = ''] = line.split(' ')
          return [mark, id]
        }),
    )
    const idOf = (mark: number): string => ids.get(`:${mark}`) ?? ''
    const lines = pairs.map((_, index) => `${idOf(2 * index + 2)} ${idOf(2 * index + 1)}\n`)
    const output = git(
      ['diff-tree', '--stdin', '-r', '-p', '--always', '--binary', '--full-index', ...options],
      lines.join(''),
    )
    const patches: string[] = []
    for (let index = pairs.length - 1, end = output.length; index >= 0; index--) {
      const head = `${idOf(2 * index + 2)}\n`
      const start = output.lastIndexOf(head, end)
      if (start < 0) throw new Error(`no diff of pair ${index}`)
      patches.push(output.slice(start + head.length, end).replace(/^\n/, ''))
      end = start
    }
    return patches.toReversed()
  } finally {
    rmSync(directory, { recursive: true })
  }
}

function commit(tree: GitTree, mark: number): string {
  const files = Object.entries(tree).map(([path, { mode, content }]) => {
    const name = [...Buffer.from(path.slice(1))].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`)
    return `M ${mode} inline "${name.join('')}"\ndata ${content.length}\n${content}\n`
  })
  const head = `commit refs/heads/c${mark}\nmark :${mark}\ncommitter A <a@example.org> 1700000000 +0000\ndata 0\n`
  return `${head}deleteall\n${files.join('')}\n`
}
