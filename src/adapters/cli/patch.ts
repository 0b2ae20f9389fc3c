/** Prints changes as a unified diff in git's format. */
import { Buffer } from 'node:buffer'
import { Readable } from 'node:stream'
import { formatPatch, structuredPatch, type StructuredPatch } from 'diff'
import { extract, type Header } from 'tar-stream'
import type { Change, StateReference } from '../../engine/index.js'
import { present } from '../../engine/ports.js'
import type { Style } from './colour.js'
import type { Context } from './context.js'
import { Failure } from './failure.js'
import { cliLimits } from './limits.js'
import type { Output } from './output.js'
import { printableLine, printableName } from './printable.js'

/** One version of a file. `bytes` is undefined if the file is too large. */
interface Side {
  readonly mode: number
  readonly bytes: Buffer | undefined
}

type Sides = ReadonlyMap<string, Side>

export async function printPatch(context: Context, from: StateReference, to: StateReference): Promise<void> {
  const changes: Change[] = []
  for await (const change of (await context.workspaces()).diff({ from, to }))
    if (change.kind !== 'directory') changes.push(change)
  const before = await readSides(context, from, pathsOf(changes, 'added'))
  const after = await readSides(context, to, pathsOf(changes, 'removed'))
  for (const { path } of changes) {
    const text = patchOf(path, before.get(path), after.get(path))
    if (text !== '') await printOne(context.out, Buffer.from(text, 'latin1'))
  }
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

function pathsOf(changes: readonly Change[], without: Change['change']): Set<string> {
  return new Set(changes.filter(({ change }) => change !== without).map(({ path }) => path))
}

async function readSides(
  context: Context,
  state: StateReference,
  paths: ReadonlySet<string>,
): Promise<Sides> {
  const { sessionId, base, checkpointId } = state
  if (paths.size === 0) return new Map()
  if (base === true || checkpointId !== undefined) {
    const engine = await context.engine('a patch from the base or a checkpoint')
    const { sessionId: _, ...which } = state
    return readTar((await engine.sessions.open(sessionId)).exportTar(which), paths)
  }
  const { files } = await (await context.workspaces()).sessions.open(sessionId)
  const sides = new Map<string, Side>()
  const budget = new Budget()
  for (const path of paths) {
    const { kind, mode, sizeBytes } = await files.stat({ path, followSymlinks: false })
    if (kind === 'symlink') {
      sides.set(path, { mode: 0o120000, bytes: Buffer.from((await files.readSymlink(path)).target) })
    } else if (kind === 'file') {
      const shown = sizeBytes <= cliLimits.patchFileBytes && budget.take(sizeBytes)
      const content = shown ? await files.read({ path }) : undefined
      sides.set(path, { mode: gitMode(mode), bytes: content && Buffer.from(content) })
    }
  }
  return sides
}

class Budget {
  #left = cliLimits.patchBytes

  take(bytes: number): true {
    this.#left -= bytes
    if (this.#left < 0)
      throw new Failure(`the changed files have over ${cliLimits.patchBytes / 2 ** 20} MiB: omit --patch`)
    return true
  }
}

/**
 * Reads files of a base or checkpoint from its tar export, because only current states can be read file by
 * file.
 */
async function readTar(tar: AsyncIterable<Uint8Array>, paths: ReadonlySet<string>): Promise<Sides> {
  const sides = new Map<string, Side>()
  const budget = new Budget()
  const entries = extract()
  const source = Readable.from(tar)
  source.once('error', (error) => entries.destroy(error))
  source.pipe(entries)
  try {
    for await (const entry of entries) {
      const path = pathOf(entry.header.name)
      if (paths.has(path)) sides.set(path, await readEntry(entry, sides, budget))
      entry.resume()
      if (sides.size === paths.size) break
    }
  } finally {
    source.destroy()
  }
  return sides
}

interface TarEntry extends AsyncIterable<unknown> {
  readonly header: Header
}

async function readEntry(entry: TarEntry, sides: Sides, budget: Budget): Promise<Side> {
  const { type, mode, size, linkname } = entry.header
  if (type === 'symlink') return { mode: 0o120000, bytes: Buffer.from(linkname ?? '') }
  if (type === 'link') return { mode: gitMode(mode), bytes: sides.get(pathOf(linkname ?? ''))?.bytes }
  if (type !== 'file' || size > cliLimits.patchFileBytes || !budget.take(size))
    return { mode: gitMode(mode), bytes: undefined }
  const pieces: Uint8Array[] = []
  for await (const piece of entry) pieces.push(piece as Uint8Array)
  return { mode: gitMode(mode), bytes: Buffer.concat(pieces) }
}

/** Returns git's mode of a file. Git distinguishes only executable and other files. */
function gitMode(mode: number): number {
  return (mode & 0o100) === 0 ? 0o100644 : 0o100755
}

function pathOf(name: string): string {
  return `/${name.replace(/^(?:\.?\/)+/, '').replace(/\/$/, '')}`
}

function modeOf(side: Side | undefined): string {
  return present(side, 'a side of a patch').mode.toString(8)
}

/** Returns the patch of one file, or '' if the only differences are attributes that git does not store. */
function patchOf(path: string, before: Side | undefined, after: Side | undefined): string {
  // For a file that became a symlink, or the reverse, git shows a deletion and an addition.
  if (before !== undefined && after !== undefined && typeOf(before) !== typeOf(after))
    return patchOf(path, before, undefined) + patchOf(path, undefined, after)
  const head = {
    isGit: true as const,
    oldFileName: before === undefined ? '/dev/null' : `a${path}`,
    newFileName: after === undefined ? '/dev/null' : `b${path}`,
    isCreate: before === undefined,
    isDelete: after === undefined,
    ...(before?.mode !== after?.mode && {
      oldMode: modeOf(before ?? after),
      newMode: modeOf(after ?? before),
    }),
  }
  const hunks = hunksOf(before, after)
  if (typeof hunks !== 'string') {
    return hunks.length === 0 && head.oldMode === undefined
      ? ''
      : formatPatch({ ...head, oldHeader: undefined, newHeader: undefined, hunks })
  }
  const named = formatPatch({ ...head, oldHeader: undefined, newHeader: undefined, hunks: [] })
  return `${named}${hunks} ${printableName(head.oldFileName)} and ${printableName(head.newFileName)} differ\n`
}

const noBytes = Buffer.alloc(0)

/** Returns the changed lines, or text such as `Binary files` if they are not shown. */
function hunksOf(before: Side | undefined, after: Side | undefined): StructuredPatch['hunks'] | string {
  const [old, current] = [before, after].map((side) => (side === undefined ? noBytes : side.bytes))
  if (old === undefined || current === undefined) return 'Large files'
  if (old.equals(current)) return []
  if (old.includes(0) || current.includes(0)) return 'Binary files'
  // Latin-1 preserves every byte, so the patch has the exact bytes of the files in any encoding.
  const texts = [old.toString('latin1'), current.toString('latin1')] as const
  const patch = structuredPatch('', '', ...texts, undefined, undefined, { timeout: cliLimits.patchFileMs })
  return patch?.hunks ?? 'Very different files'
}

/** Returns 0o100000 for a file, 0o120000 for a symlink. */
function typeOf({ mode }: Side): number {
  return mode & 0o170000
}
