import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { temporaryDirectory } from './temporary-directory.js'

/** A file or symlink: its mode as git writes it, and its bytes or target. */
export interface GitFile {
  readonly mode: '100644' | '100755' | '120000'
  /** One character for each byte. */
  readonly content: string
}

/** Files by absolute path. */
export type GitTree = Readonly<Record<string, GitFile>>

/** Writes each tree to a directory, applies its patch with `git apply`, and reads the directory. */
export async function gitApply(
  cases: readonly { readonly before: GitTree; readonly patch: Uint8Array }[],
): Promise<{ readonly trees: GitTree[]; readonly errors: string }> {
  const directory = await mkdtemp(join(temporaryDirectory(), 'git-apply-'))
  try {
    const commands: string[] = []
    for (const [index, { before, patch }] of cases.entries()) {
      const at = join(directory, String(index))
      fs.mkdirSync(at)
      writeTree(at, before)
      const file = join(directory, `${index}.patch`)
      await writeFile(file, patch)
      if (patch.length > 0)
        commands.push(`cd ${at}; git apply --whitespace=nowarn ${file} || echo case ${index} >&2`)
    }
    const script = join(directory, 'script')
    await writeFile(script, `${commands.join('\n')}\nexit 0\n`)
    const env = {
      ...process.env,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CEILING_DIRECTORIES: directory,
    }
    const { stderr } = await promisify(execFile)('sh', [script], { env })
    return { trees: cases.map((_, index) => readTree(join(directory, String(index)))), errors: stderr }
  } finally {
    await rm(directory, { recursive: true })
  }
}

function writeTree(root: string, tree: GitTree): void {
  for (const [path, { mode, content }] of Object.entries(tree)) {
    const at = join(root, path)
    fs.mkdirSync(dirname(at), { recursive: true })
    if (mode === '120000') fs.symlinkSync(content, at)
    else fs.writeFileSync(at, content, { encoding: 'latin1', mode: mode === '100755' ? 0o755 : 0o644 })
  }
}

function readTree(root: string): GitTree {
  const tree: Record<string, GitFile> = {}
  // Some versions of Node follow symlinks in a recursive call of readdir.
  const readDirectory = (directory: string): void => {
    for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
      const at = join(directory, entry.name)
      const path = at.slice(root.length)
      if (entry.isDirectory()) readDirectory(at)
      else if (entry.isSymbolicLink()) tree[path] = { mode: '120000', content: fs.readlinkSync(at) }
      else
        tree[path] = {
          mode: (fs.statSync(at).mode & 0o100) === 0 ? '100644' : '100755',
          content: fs.readFileSync(at, 'latin1'),
        }
    }
  }
  readDirectory(root)
  return tree
}
