import { basename, resolve } from 'node:path'
import type { ImportJob, ImportStartRequest, Source, SourceCreateRequest } from '../../engine/index.js'
import { parsePairs } from './arguments.js'
import type { Context } from './context.js'
import { Failure, UsageError } from './failure.js'
import { openInput, type Input } from './input.js'
import { printableName } from './printable.js'
import { formatBytes, startProgress } from './progress.js'
import { detectKind, isBundle, sourceKinds, type SourceKindName } from './source-kind.js'

interface AddOptions {
  readonly name?: string
  readonly label?: readonly string[]
  readonly ref?: string
  readonly kind?: string
  readonly import: boolean
}

/** Adds a source, imports it, and prints its id. */
export async function addSource(context: Context, [what]: [string], options: AddOptions): Promise<void> {
  const labels = parsePairs('--label', options.label)
  const input = what === '-' ? await openInput(what, context.world) : undefined
  try {
    const kind = await kindOf(what, options.kind, input)
    if (options.ref !== undefined && (kind === 'directory' || kind === 'archive'))
      throw new UsageError(`--ref is for git sources and bundles, but this source is of the kind ${kind}`)
    if (kind === 'repository' && context.remote) {
      throw new Failure(
        'a server does not open git repositories of its host: upload a bundle (git bundle create), or add the directory with --kind directory',
      )
    }
    const name = options.name ?? nameOf(what)
    const { sources } = await context.workspaces({ create: true })
    const source = await sources.create({ displayName: name, labels, ...place(kind, what, options.ref) })
    if (!options.import) {
      await context.out.line(source.sourceId, source)
      return
    }
    try {
      await runImport(context, source, await importRequest(context, kind, what, options.ref, input))
    } catch (error) {
      context.note(`the source ${source.sourceId} was added, but its import failed`)
      throw error
    }
    await context.out.line(source.sourceId, await sources.get(source.sourceId))
  } finally {
    await input?.close()
  }
}

/** Imports a source, and prints the id of the revision. */
export async function importSource(
  context: Context,
  [prefix, what]: [string, string | undefined],
  options: { readonly ref?: string },
): Promise<void> {
  const input = what === '-' ? await openInput(what, context.world) : undefined
  try {
    const { sources } = await context.workspaces()
    const source = await sources.get(await context.sourceId(prefix))
    const kind = shortKind(source.kind)
    if (kind === 'directory' && what !== undefined)
      throw new UsageError('a directory is imported whole: omit the second argument')
    const request = await (kind === 'archive' || kind === 'bundle'
      ? importRequest(context, kind, neededFile(kind, what), options.ref, input)
      : kind === 'directory'
        ? importRequest(context, kind, '', undefined)
        : importRequest(context, kind, '', what ?? options.ref))
    await printJob(context, await runImport(context, source, request))
  } finally {
    await input?.close()
  }
}

/** Imports a source again from its origin, and prints the id of the revision. */
export async function refreshSource(
  context: Context,
  [prefix, gitRef]: [string, string | undefined],
): Promise<void> {
  const { sources } = await context.workspaces()
  const source = await sources.get(await context.sourceId(prefix))
  const job = await sources.refresh(source.sourceId, gitRef === undefined ? {} : { gitRef })
  await printJob(context, await finish(context, source, job))
}

export async function listSources(
  context: Context,
  _: [],
  options: { readonly filter?: string },
): Promise<void> {
  const { sources } = await context.workspaces()
  const filter = options.filter === undefined ? {} : { filter: options.filter }
  for (let pageToken = ''; ;) {
    const page = await sources.list({ ...filter, pageToken })
    await context.out.table(
      page.sources.map((source) => ({
        cells: [
          source.sourceId,
          shortKind(source.kind),
          source.status.replace('UNDERLAY_SOURCE_STATUS_', '').toLowerCase(),
          source.latestRevisionId.slice(0, 12) || '-',
          printableName(source.displayName),
          pairs(source.labels),
        ],
        value: source,
      })),
    )
    pageToken = page.nextPageToken
    if (pageToken === '') return
  }
}

/** Removes sources, and keeps their sessions. */
export async function removeSources(context: Context, [prefixes]: [string[]]): Promise<void> {
  const { sources } = await context.workspaces()
  const ids: string[] = []
  for (const prefix of prefixes) ids.push(await context.sourceId(prefix))
  for (const sourceId of ids) {
    await sources.delete(sourceId)
    if (context.out.json) await context.out.line('', { sourceId })
  }
}

export function pairs(map: Readonly<Record<string, string>>): string {
  return Object.entries(map)
    .map(([key, value]) => printableName(`${key}=${value}`))
    .join(' ')
}

async function kindOf(
  what: string,
  given: string | undefined,
  input: Input | undefined,
): Promise<SourceKindName> {
  if (given !== undefined) {
    const kind = sourceKinds.find((name) => name === given)
    if (kind === undefined) throw new UsageError(`--kind is one of ${sourceKinds.join(', ')}`)
    return kind
  }
  if (input === undefined) return detectKind(what)
  return isBundle(await input.head(16)) ? 'bundle' : 'archive'
}

function nameOf(what: string): string {
  if (what === '-') return 'standard input'
  const name = /^https?:/i.test(what) ? new URL(what).pathname.replace(/\/+$/, '') : resolve(what)
  return basename(name).replace(/\.git$/, '') || what
}

function place(kind: SourceKindName, what: string, ref: string | undefined): Partial<SourceCreateRequest> {
  const defaultRef = ref === undefined ? {} : { defaultRef: ref }
  if (kind === 'git') return { gitRemote: { remoteUrl: what, ...defaultRef } }
  if (kind === 'repository') return { gitRepository: { path: resolve(what), ...defaultRef } }
  if (kind === 'directory') return { hostPath: { path: resolve(what) } }
  return kind === 'bundle' ? { uploadedGitBundle: defaultRef } : { uploadedSnapshot: {} }
}

interface ImportWork {
  readonly request: ImportStartRequest
  /** Closes the input of an upload. */
  readonly close?: () => Promise<void>
}

async function importRequest(
  context: Context,
  kind: SourceKindName,
  file: string,
  ref: string | undefined,
  input?: Input,
): Promise<ImportWork> {
  const gitRef = ref === undefined ? {} : { gitRef: ref }
  if (kind === 'directory') return { request: {} }
  if (kind === 'git' || kind === 'repository') return { request: { git: gitRef } }
  const opened = input ?? (await openInput(file, context.world))
  const content = opened.read()
  const request =
    kind === 'bundle' ? { uploadedGitBundle: { content, ...gitRef } } : { uploadedSnapshot: { content } }
  return { request, close: () => opened.close() }
}

function neededFile(kind: 'archive' | 'bundle', what: string | undefined): string {
  if (what === undefined)
    throw new UsageError(`each import of this source needs a file: pass the ${kind}, or - for standard input`)
  return what
}

async function runImport(
  context: Context,
  source: Source,
  { request, close }: ImportWork,
): Promise<ImportJob> {
  try {
    const { sources } = await context.workspaces()
    return await finish(context, source, await sources.startImport(source.sourceId, request))
  } finally {
    await close?.()
  }
}

async function finish(context: Context, source: Source, job: ImportJob): Promise<ImportJob> {
  const { sources } = await context.workspaces()
  const progress = await startProgress(context.stderr, `importing ${printableName(source.displayName)}`, {
    files: true,
  })
  try {
    const done = await sources.waitForJob(job, {
      onProgress: ({ bytesTransferred, filesProcessed }) =>
        progress.update({ bytes: bytesTransferred, files: filesProcessed }),
    })
    progress.stop()
    const { bytesProcessed, filesProcessed, bytesTransferred } = done
    const files = `${filesProcessed.toLocaleString('en-US')} file${filesProcessed === 1 ? '' : 's'}`
    const transferred = `${formatBytes(bytesTransferred)} transferred`
    context.note(`revision ${done.revisionId}: ${files}, ${formatBytes(bytesProcessed)}; ${transferred}`)
    return done
  } catch (error) {
    progress.stop()
    throw error
  }
}

async function printJob(context: Context, job: ImportJob): Promise<void> {
  await context.out.line(job.revisionId, job)
}

const shortKinds: Readonly<Record<Source['kind'], SourceKindName>> = {
  UNDERLAY_SOURCE_KIND_GIT_REMOTE: 'git',
  UNDERLAY_SOURCE_KIND_GIT_REPOSITORY: 'repository',
  UNDERLAY_SOURCE_KIND_HOST_PATH: 'directory',
  UNDERLAY_SOURCE_KIND_UPLOADED_GIT_BUNDLE: 'bundle',
  UNDERLAY_SOURCE_KIND_UPLOADED_SNAPSHOT: 'archive',
}

function shortKind(kind: Source['kind']): SourceKindName {
  return shortKinds[kind]
}
