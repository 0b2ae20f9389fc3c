import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { parseId } from './arguments.js'
import type { Context } from './context.js'
import { Failure, UsageError } from './failure.js'
import { isDirectory, openInput } from './input.js'
import { printableName } from './printable.js'
import { formatBytes, startProgress } from './progress.js'

interface ExportOptions {
  readonly output?: string
  readonly bundle?: boolean
  readonly gitBundle?: boolean
  readonly branch?: string
}

/**
 * Exports a session as a tar or bundle, its commits as a git bundle, or `<source>@<revision>` as a tar. The output is a file or standard
 * output. A file gets its name only after it is complete.
 */
export async function exportTree(context: Context, [what]: [string], options: ExportOptions): Promise<void> {
  const { output } = options
  if (context.out.json) throw new UsageError('an export cannot be JSON: omit --json')
  if (output === undefined && context.world.stdout.isTTY)
    throw new UsageError('the export is binary: pass -o <file>, or redirect standard output')
  const content = await contentOf(context, what, options)
  if (output === undefined) {
    for await (const bytes of content) await context.out.bytes(bytes)
    return
  }
  await checkOutput(output)
  const part = `${output}.${process.pid}.part`
  const progress = await startProgress(context.stderr, `exporting ${printableName(what)}`)
  let size = 0
  try {
    const counted = async function* (source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      for await (const bytes of source) {
        size += bytes.length
        progress.update({ bytes: size })
        yield bytes
      }
    }
    await pipeline(content, counted, createWriteStream(part, { flags: 'wx', flush: true, mode: 0o600 }))
    await rename(part, output)
  } catch (error) {
    await rm(part, { force: true })
    throw error
  } finally {
    progress.stop()
  }
  context.note(`${output}: ${formatBytes(size)}`)
}

/**
 * Checks the output path before the export starts, so that an error contains this path and not the temporary
 * file.
 */
async function checkOutput(output: string): Promise<void> {
  if (await isDirectory(output))
    throw new Failure(
      `${printableName(output)} is a directory: pass a file in it, such as -o ${printableName(join(output, 'session.tar'))}`,
    )
  const directory = dirname(resolve(output))
  if (!(await isDirectory(directory)))
    throw new Failure(
      `cannot write ${printableName(output)}: there is no directory ${printableName(directory)}`,
    )
}

async function contentOf(
  context: Context,
  what: string,
  { bundle = false, gitBundle = false, branch }: ExportOptions,
): Promise<AsyncIterable<Uint8Array>> {
  const at = what.indexOf('@')
  if (bundle && gitBundle) throw new UsageError('pass --bundle or --git-bundle, not both')
  if (branch !== undefined && !gitBundle) throw new UsageError('--branch needs --git-bundle')
  if (bundle && at >= 0) throw new UsageError('--bundle exports a session, not a revision')
  if (gitBundle && at >= 0) throw new UsageError('--git-bundle exports a session, not a revision')
  const engine = await context.engine('an export')
  if (at < 0) {
    const session = await engine.sessions.open(await context.sessionId(parseId(what, 'session')))
    if (gitBundle) return session.commits.exportBundle(branch === undefined ? {} : { branchName: branch })
    return bundle ? session.exportBundle() : session.exportTar()
  }
  const sourceId = await context.sourceId(parseId(what.slice(0, at), 'source'))
  const revisionId = what.slice(at + 1)
  return engine.sources.exportTar({ sourceId, ...(revisionId !== '' && { revisionId }) })
}

/** Creates a session from a bundle, and prints its id. */
export async function importSession(context: Context, [file]: [string]): Promise<void> {
  const input = await openInput(file, context.world)
  try {
    const engine = await context.engine('importing a bundle', { create: true })
    const session = await engine.sessions.importBundle(input.read())
    await context.out.line(session.id, await session.get())
  } finally {
    await input.close()
  }
}

/** Writes a session to a directory, or updates the directory. */
export async function checkOut(
  context: Context,
  [prefix, directory]: [string, string],
  options: { readonly force?: boolean },
): Promise<void> {
  const engine = await context.engine('a checkout')
  const session = await engine.sessions.open(await context.sessionId(prefix))
  const progress = await startProgress(context.stderr, `writing ${printableName(directory)}`, { files: true })
  try {
    const checkout = await session.checkout(resolve(directory), {
      force: options.force === true,
      onProgress: ({ bytesProcessed, filesProcessed }) =>
        progress.update({ bytes: bytesProcessed, files: filesProcessed }),
    })
    progress.stop()
    const { written, removed } = checkout.initial
    await context.out.line(`${written} written, ${removed} removed`, {
      directory: checkout.directory,
      written,
      removed,
    })
  } finally {
    progress.stop()
  }
}

/** Copies the changes in a checkout directory to the session, so that both have the same files. */
export async function syncDirectory(context: Context, [prefix, directory]: [string, string]): Promise<void> {
  const engine = await context.engine('a sync')
  const session = await engine.sessions.open(await context.sessionId(prefix))
  if (!(await isDirectory(directory))) throw new Failure(`there is no directory ${directory}`)
  const checkout = await session.checkout(resolve(directory))
  const { added, modified, removed } = await checkout.sync()
  if (context.out.json) {
    await context.out.line('', { directory: checkout.directory, added, modified, removed })
    return
  }
  for (const path of added) await context.out.line(`A ${printableName(path)}`, '')
  for (const path of modified) await context.out.line(`M ${printableName(path)}`, '')
  for (const path of removed) await context.out.line(`D ${printableName(path)}`, '')
}
