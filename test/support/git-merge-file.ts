import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { temporaryDirectory } from './temporary-directory.js'

/** Three versions of a text, one character for each byte. */
export interface MergeCase {
  readonly base: string
  readonly ours: string
  readonly theirs: string
  /** Options of `git merge-file`, such as `--diff3`. */
  readonly options: string
}

/** What `git merge-file` prints for each case. One shell runs git for all of them. */
export async function gitMergeFiles(cases: readonly MergeCase[]): Promise<string[]> {
  const directory = await mkdtemp(join(temporaryDirectory(), 'merge-file-'))
  try {
    const commands = await Promise.all(
      cases.map(async ({ base, ours, theirs, options }, index) => {
        const at = join(directory, String(index))
        await mkdir(at)
        await writeFile(join(at, 'base'), base, 'latin1')
        await writeFile(join(at, 'ours'), ours, 'latin1')
        await writeFile(join(at, 'theirs'), theirs, 'latin1')
        return `cd ${at}; git merge-file -p -q ${options} -L ours -L base -L theirs ours base theirs >merged`
      }),
    )
    const script = join(directory, 'script')
    await writeFile(script, `${commands.join('\n')}\nexit 0\n`)
    await promisify(execFile)('sh', [script], { env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null' } })
    return await Promise.all(
      cases.map(async (_, index) => readFile(join(directory, String(index), 'merged'), 'latin1')),
    )
  } finally {
    await rm(directory, { recursive: true })
  }
}
