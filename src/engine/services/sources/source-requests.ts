/** Parses requests to create and import sources. */
import { checkSignal } from '../../base/abort.js'
import { EngineError, invalid } from '../../base/errors.js'
import {
  isAsyncIterable,
  isBytes,
  kindOf,
  parseStringMap,
  parseText,
  readBytes,
  type StringMap,
} from '../../base/input.js'
import { copyInTurns } from '../../base/copy-in-turns.js'
import { present } from '../../base/present.js'
import { Shape } from '../../base/shape.js'
import { limits } from '../../base/limits.js'
import type { ContentIn } from '../../cas/content-writer.js'
import { copyFiles, type CopiedFile } from '../../session/baselines.js'
import type { FileContent } from '../../session/edits/writes.js'
import type { GitRemote } from './git-ports.js'
import { SourceKind, type SourceRecord } from '../../records/source.js'

/**
 * The request of `engine.sources.create`. Exactly one of `gitRemote`, `uploadedSnapshot`, `hostPath`,
 * `uploadedGitBundle` and `gitRepository` sets the kind of the source.
 */
export interface SourceCreateRequest {
  /** A name for people, at most 1,024 bytes. It need not be unique. */
  readonly displayName: string
  /** A git repository at a URL. Each import fetches from it. */
  readonly gitRemote?: {
    /** An http or https URL without credentials, at most 4,096 bytes. */
    readonly remoteUrl: string
    /** The ref for imports that name none, at most 1,024 bytes. '' or absent: the remote's HEAD. */
    readonly defaultRef?: string
    /** Passed to the `git.credentials` hook, at most 1,024 bytes. '' or absent: the hook gets the URL alone. */
    readonly credentialsSecretId?: string
  }
  /** Each import uploads an archive, or passes files. Pass `{}`. */
  readonly uploadedSnapshot?: object
  /** A directory of the engine's host. Each import reads it. */
  readonly hostPath?: {
    /** Absolute path on the host, at or below one of the engine's `hostPaths.roots`, at most 4,096 bytes. */
    readonly path: string
  }
  /** Each import uploads a git bundle. */
  readonly uploadedGitBundle?: {
    /** The ref for imports that name none, at most 1,024 bytes. '' or absent: the bundle's HEAD. */
    readonly defaultRef?: string
  }
  /** A git repository in a directory of this host, bare or not. It is available only in process. */
  readonly gitRepository?: {
    /** Absolute path on the host, at or below one of the engine's `hostPaths.roots`, at most 4,096 bytes. */
    readonly path: string
    /** The ref for imports that name none, at most 1,024 bytes. '' or absent: the repository's HEAD. */
    readonly defaultRef?: string
  }
  /** Names and values for filters: at most 64, names up to 128 bytes, values up to 1,024 bytes. None by default. */
  readonly labels?: StringMap
}

/** The request of `engine.sources.startImport`. It has the field of the source's kind; a host path needs none. */
export interface ImportStartRequest {
  /** For a git remote or repository; optional. */
  readonly git?: {
    /** A branch, a tag, a full ref or a commit id. '' or absent: the source's `defaultRef`. */
    readonly gitRef?: string
  }
  /** For an uploaded snapshot: exactly one of the two. */
  readonly uploadedSnapshot?: {
    /** A tar, optionally with gzip, or a zip. Bytes are copied at the call. */
    readonly content?: ContentIn
    /** Contents by absolute path, such as `/src/a.ts`. They are available only in process. */
    readonly files?: Readonly<Record<string, FileContent>>
  }
  /** For an uploaded git bundle. */
  readonly uploadedGitBundle?: {
    /** A git bundle of version 2 or 3. Bytes are copied at the call. */
    readonly content: ContentIn
    /** A branch, a tag, a full ref or a commit id. '' or absent: the source's `defaultRef`. */
    readonly gitRef?: string
  }
  /** Aborts the job, which then fails with `INTERRUPTED`, unless other calls share it. */
  readonly signal?: AbortSignal
}

/** The request of `engine.sources.refresh`. */
export interface RefreshRequest {
  /** For a git source: a branch, a tag, a full ref or a commit id. '' or absent: the source's `defaultRef`. */
  readonly gitRef?: string
  /** Aborts the job, which then fails with `INTERRUPTED`, unless other calls share it. */
  readonly signal?: AbortSignal
}

const createShape = new Shape<SourceCreateRequest>({
  displayName: true,
  gitRemote: true,
  uploadedSnapshot: true,
  hostPath: true,
  uploadedGitBundle: true,
  gitRepository: true,
  labels: true,
})

type Part<Name extends keyof SourceCreateRequest> = NonNullable<SourceCreateRequest[Name]>

const remoteShape = new Shape<Part<'gitRemote'>>({
  remoteUrl: true,
  defaultRef: true,
  credentialsSecretId: true,
})
const repositoryShape = new Shape<Part<'gitRepository'>>({ path: true, defaultRef: true })
const bundleSourceShape = new Shape<Part<'uploadedGitBundle'>>({ defaultRef: true })
const hostPathShape = new Shape<Part<'hostPath'>>({ path: true })
const snapshotSourceShape = new Shape<Part<'uploadedSnapshot'>>({})

const importShape = new Shape<ImportStartRequest>({
  git: true,
  uploadedSnapshot: true,
  uploadedGitBundle: true,
  signal: true,
})
const gitShape = new Shape<NonNullable<ImportStartRequest['git']>>({ gitRef: true })
const bundleShape = new Shape<Partial<NonNullable<ImportStartRequest['uploadedGitBundle']>>>({
  content: true,
  gitRef: true,
})
const snapshotShape = new Shape<NonNullable<ImportStartRequest['uploadedSnapshot']>>({
  content: true,
  files: true,
})

const refreshShape = new Shape<RefreshRequest>({ gitRef: true, signal: true })

export interface ParsedCreate {
  readonly displayName: string
  readonly kind: Kind
  readonly labels: StringMap
}

/** @throws {EngineError} INVALID_ARGUMENT, TOO_LARGE when the request is invalid */
export function parseCreate(request: SourceCreateRequest): ParsedCreate {
  const copy = createShape.read(request)
  return {
    kind: parseKind(copy),
    displayName: parseText('displayName', copy.displayName, limits.labelBytes),
    labels: parseStringMap('labels', copy.labels),
  }
}

type Kind = Pick<SourceRecord, 'kind' | 'remote' | 'path' | 'defaultRef'>

function parseKind(request: SourceCreateRequest): Kind {
  const names = ['gitRemote', 'uploadedSnapshot', 'hostPath', 'uploadedGitBundle', 'gitRepository'] as const
  const given = names.filter((name) => request[name] !== undefined)
  if (given.length !== 1)
    throw invalid(
      'gitRemote',
      `pass exactly one of ${names.join(', ')}; given: ${given.join(', ') || 'none'}`,
    )
  if (request.gitRemote !== undefined) {
    const gitRemote = remoteShape.readPart(request.gitRemote, 'gitRemote')
    const remoteUrl = parseText('gitRemote.remoteUrl', gitRemote.remoteUrl, limits.pathBytes)
    const id = gitRemote.credentialsSecretId ?? ''
    const credentialsSecretId = parseText('gitRemote.credentialsSecretId', id, limits.labelBytes)
    const remote = { remoteUrl, ...(credentialsSecretId !== '' && { credentialsSecretId }) }
    return {
      kind: SourceKind.GIT_REMOTE,
      remote,
      defaultRef: parseRef(gitRemote.defaultRef, 'gitRemote.defaultRef'),
    }
  }
  if (request.gitRepository !== undefined) {
    const gitRepository = repositoryShape.readPart(request.gitRepository, 'gitRepository')
    const repositoryPath = parseText('gitRepository.path', gitRepository.path, limits.pathBytes)
    const defaultRef = parseRef(gitRepository.defaultRef, 'gitRepository.defaultRef')
    return { kind: SourceKind.GIT_REPOSITORY, remote: { repositoryPath }, defaultRef }
  }
  if (request.uploadedGitBundle !== undefined) {
    const uploadedGitBundle = bundleSourceShape.readPart(request.uploadedGitBundle, 'uploadedGitBundle')
    const defaultRef = parseRef(uploadedGitBundle.defaultRef, 'uploadedGitBundle.defaultRef')
    return { kind: SourceKind.UPLOADED_GIT_BUNDLE, defaultRef }
  }
  if (request.hostPath !== undefined) {
    const hostPath = hostPathShape.readPart(request.hostPath, 'hostPath')
    const path = parseText('hostPath.path', hostPath.path, limits.pathBytes)
    return { kind: SourceKind.HOST_PATH, path, defaultRef: '' }
  }
  if (request.uploadedSnapshot !== undefined)
    snapshotSourceShape.readPart(request.uploadedSnapshot, 'uploadedSnapshot')
  return { kind: SourceKind.UPLOADED_SNAPSHOT, defaultRef: '' }
}

/** The checked input of an import, with the bytes as they were at the call. */
export type ImportInput =
  | { readonly remote: GitRemote; readonly gitRef: string }
  | { readonly content: ContentIn }
  | { readonly files: readonly CopiedFile[] }
  | { readonly path: string }

/** The checked parts of a request, one for each kind of source. Contents are as they were at the call. */
export interface ImportParts {
  readonly signal?: AbortSignal | undefined
  readonly git?: { readonly gitRef: string }
  readonly uploadedSnapshot?:
    | { readonly content: ContentIn; readonly files?: undefined }
    | { readonly content?: undefined; readonly files: readonly CopiedFile[] }
  readonly uploadedGitBundle?: { readonly content: ContentIn; readonly gitRef: string }
}

const partOf = {
  [SourceKind.GIT_REMOTE]: 'git',
  [SourceKind.GIT_REPOSITORY]: 'git',
  [SourceKind.UPLOADED_SNAPSHOT]: 'uploadedSnapshot',
  [SourceKind.UPLOADED_GIT_BUNDLE]: 'uploadedGitBundle',
  [SourceKind.HOST_PATH]: undefined,
} as const

/**
 * Checks and copies a request. Call this before anything is awaited, because the caller may change the
 * request later. Only large bytes must stay the same until the promise resolves.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the request is invalid
 */
export async function parseImport(request: ImportStartRequest): Promise<ImportParts> {
  const { git, uploadedSnapshot, uploadedGitBundle, signal } = importShape.read(request)
  checkSignal(signal)
  const gitPart = git && parseGit(git)
  const [snapshot, bundle] = await Promise.all([
    uploadedSnapshot && withCopy('uploadedSnapshot', parseSnapshot(uploadedSnapshot)),
    uploadedGitBundle && withCopy('uploadedGitBundle', parseBundle(uploadedGitBundle)),
  ])
  return {
    signal,
    ...(gitPart && { git: gitPart }),
    ...(snapshot && { uploadedSnapshot: snapshot }),
    ...(bundle && { uploadedGitBundle: bundle }),
  }
}

/** The part of a request, with a copy of its bytes. */
async function withCopy<Part extends { readonly content?: ContentIn | undefined }>(
  name: string,
  part: Part,
): Promise<Part> {
  const { content } = part
  return isBytes(content) ? { ...part, content: await copyInTurns(`${name}.content`, content) } : part
}

/** @throws {EngineError} INVALID_ARGUMENT when parts do not belong to the source's kind */
export function inputOf(source: SourceRecord, parts: ImportParts): ImportInput {
  const wanted = partOf[source.kind]
  for (const name of ['git', 'uploadedSnapshot', 'uploadedGitBundle'] as const)
    if (parts[name] !== undefined && name !== wanted)
      throw invalid(
        name,
        `is not for this source: a source of the kind ${source.kind} is imported with ${wanted === undefined ? '{}' : `{ ${wanted} }`}`,
      )
  const { git, uploadedSnapshot, uploadedGitBundle } = parts
  switch (source.kind) {
    case SourceKind.GIT_REMOTE:
    case SourceKind.GIT_REPOSITORY:
      return {
        remote: present(source.remote, 'the remote of a source'),
        gitRef: git?.gitRef || source.defaultRef,
      }
    case SourceKind.HOST_PATH:
      return { path: present(source.path, 'the path of a source') }
    case SourceKind.UPLOADED_GIT_BUNDLE: {
      const { content: bundle, gitRef } = uploadedGitBundle ?? parseBundle({})
      return { remote: { bundle }, gitRef: gitRef || source.defaultRef }
    }
    default:
      return uploadedSnapshot ?? parseSnapshot({})
  }
}

function parseGit(git: NonNullable<ImportStartRequest['git']>): NonNullable<ImportParts['git']> {
  return { gitRef: parseRef(gitShape.readPart(git, 'git').gitRef, 'git.gitRef') }
}

function parseBundle(
  bundle: Partial<NonNullable<ImportStartRequest['uploadedGitBundle']>>,
): NonNullable<ImportParts['uploadedGitBundle']> {
  const copy = bundleShape.readPart(bundle, 'uploadedGitBundle')
  const gitRef = parseRef(copy.gitRef, 'uploadedGitBundle.gitRef')
  return { content: parseContent(copy.content, 'uploadedGitBundle.content'), gitRef }
}

function parseSnapshot(
  snapshot: NonNullable<ImportStartRequest['uploadedSnapshot']>,
): NonNullable<ImportParts['uploadedSnapshot']> {
  const { content, files } = snapshotShape.readPart(snapshot, 'uploadedSnapshot')
  if (files === undefined) return { content: parseContent(content, 'uploadedSnapshot.content') }
  if (content !== undefined) throw invalid('uploadedSnapshot', 'has both content and files: pass one of them')
  return { files: copyFiles(files, 'uploadedSnapshot.files') }
}

/**
 * Returns a checked copy of a request.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the request is invalid
 */
export function parseRefresh(request: RefreshRequest): RefreshRequest {
  const copy = refreshShape.read(request)
  checkSignal(copy.signal)
  copy.gitRef = parseRef(copy.gitRef, 'gitRef')
  return copy
}

/** @throws {EngineError} SOURCE_NOT_REFRESHABLE when the source was uploaded */
export function refreshInput(source: SourceRecord, gitRef: string): ImportInput {
  const { sourceId, kind } = source
  if (kind === SourceKind.UPLOADED_SNAPSHOT || kind === SourceKind.UPLOADED_GIT_BUNDLE)
    throw new EngineError(
      'SOURCE_NOT_REFRESHABLE',
      'an uploaded source cannot be read again: import a new upload, with sources.startImport',
      { sourceId },
    )
  if (kind === SourceKind.HOST_PATH && gitRef !== '')
    throw invalid('gitRef', 'a directory has no refs: omit gitRef')
  return inputOf(source, kind === SourceKind.HOST_PATH ? {} : { git: { gitRef } })
}

function parseContent(content: ContentIn | undefined, field: string): ContentIn {
  if (isBytes(content)) return readBytes(field, content)
  if (content !== undefined && isAsyncIterable(field, content)) return content
  throw invalid(field, `must be bytes, or an async iterable of bytes; it is ${kindOf(content)}`)
}

function parseRef(gitRef: string | undefined, field: string): string {
  return parseText(field, gitRef ?? '', limits.labelBytes)
}
