/** Prints the contents of a diff: its patches, or the numbers of its lines. */
import { Buffer } from 'node:buffer'
import type { ChangedFile, StateReference } from '../../engine/index.js'
import type { Style } from './colour.js'
import type { Context } from './context.js'
import type { Output } from './output.js'
import { printableLine, printableName } from './printable.js'

interface States {
  readonly from: StateReference
  readonly to: StateReference
}

/** Prints a patch in the format of git. */
export async function printPatch(context: Context, states: States): Promise<void> {
  for await (const patch of (await context.workspaces()).diff(states).patch())
    await printOne(context.out, Buffer.from(patch))
}

/** Prints the numbers of added and removed lines of each file, and of all files. */
export async function printStats(context: Context, states: States): Promise<void> {
  const { out } = context
  const sums = { files: 0, additions: 0, deletions: 0 }
  for await (const file of (await context.workspaces()).diff(states).files()) {
    sums.files++
    sums.additions += file.additions
    sums.deletions += file.deletions
    await out.line(() => `${namesOf(file)} | ${linesOf(file)}`, file)
  }
  const { files, additions, deletions } = sums
  if (!out.json && files > 0) await out.line(`files: ${files}, lines: +${additions} -${deletions}`, '')
}

function namesOf({ path, oldPath }: ChangedFile): string {
  return oldPath === undefined ? printableName(path) : `${printableName(oldPath)} => ${printableName(path)}`
}

function linesOf({ isBinary, isTruncated, additions, deletions }: ChangedFile): string {
  if (isBinary) return 'binary'
  return isTruncated ? 'too large' : `+${additions} -${deletions}`
}

/** Prints the exact bytes, for `git apply`. On a terminal, it escapes control characters instead. */
async function printOne(out: Output, patch: Buffer): Promise<void> {
  if (!out.isTerminal) return out.bytes(patch)
  let isHead = true
  for (const line of patch.toString('utf8').replace(/\n$/, '').split('\n')) {
    const shown = printableLine(line)
    isHead &&= !line.startsWith('@@')
    const style = isHead ? 'heading' : lineStyles[line.charAt(0)]
    await out.line(style === undefined ? shown : out.paint(style, shown), '')
  }
}

const lineStyles: Readonly<Record<string, Style>> = { '+': 'added', '-': 'removed', '@': 'hunk' }
