import type { Buffer } from 'node:buffer'
import { whenLoaded } from '../../base/fault.js'
import { runInSlices } from '../../base/cooperative.js'
import { invalid } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import type { BlobRef } from '../../cas/blob.js'
import { bodyOf } from '../../cas/content-writer.js'
import { cutIntoBlobs, toBytes } from '../../cas/staging.js'
import type { Core } from '../../session/core.js'
import { byteTextOf, bytesOf, hasManyLines, isBinary } from '../../text/byte-text.js'
import { mergeText, renderMarkers, renderSides, type TextMerge } from '../../text/merge-text.js'
import { FileNode, noAttributes, type Attributes } from '../../tree/node.js'
import { findXattr, withXattr, type Xattrs } from '../../tree/xattrs.js'
import type { ConflictKind, SideNames } from '../../records/merge.js'
import { sameContent, type SideName } from './changed-paths.js'
import type { Merger, MergePolicy } from './merge-policies.js'

/** The versions of a file that both sides changed. There is no base if both sides added it. */
export interface FileVersions {
  readonly base: FileNode | undefined
  readonly ours: FileNode
  readonly theirs: FileNode
}

/** Rules for the conflicts of one file. */
export interface FileRules {
  readonly policy: MergePolicy | undefined
  readonly merger: Merger | undefined
  readonly names: SideNames
}

export interface MergedFile {
  readonly file: FileNode
  /** Whether its content was merged, perhaps with markers. false: it is ours. */
  readonly isMerged: boolean
  /** Undefined: everything merged. */
  readonly conflict: Extract<ConflictKind, 'content' | 'add/add' | 'mode' | 'attribute'> | undefined
}

/** Merges files. It keeps the bytes that it made, which are not stored yet. */
export class FileMerger {
  readonly #core: Core
  readonly #blobs: BlobRef[] = []
  #bytes = 0

  constructor(core: Core) {
    this.#core = core
  }

  /** The blobs of merged contents. */
  get blobs(): readonly BlobRef[] {
    return this.#blobs
  }

  /** Merges content, permission bits and extended attributes. Where that is impossible, it takes ours. */
  async merge(path: string, versions: FileVersions, rules: FileRules): Promise<MergedFile> {
    const { base, ours, theirs } = versions
    const content = await this.#content(path, versions, rules)
    const mode = merged(base?.mode, ours.mode, theirs.mode)
    const xattrs = mergeXattrs(base?.xattrs, ours.xattrs, theirs.xattrs)
    const attributes: Attributes = {
      ...noAttributes,
      mode: mode ?? ours.mode,
      xattrs: xattrs.merged,
    }
    const conflict =
      content.conflict !== undefined
        ? base === undefined
          ? 'add/add'
          : 'content'
        : mode === undefined
          ? 'mode'
          : xattrs.conflicts
            ? 'attribute'
            : undefined
    const isMerged = content.conflict !== 'ours'
    return { file: content.file.with(attributes), isMerged, conflict }
  }

  /** A file with new content. */
  file(bytes: Uint8Array, attributes: Attributes): FileNode {
    const blobs = cutIntoBlobs(bytes)
    this.#blobs.push(...blobs)
    this.#bytes += bytes.byteLength
    return new FileNode(attributes, bytes.byteLength, bodyOf(blobs, bytes.byteLength))
  }

  async #content(
    path: string,
    { base, ours, theirs }: FileVersions,
    { policy, merger, names }: FileRules,
  ): Promise<{ readonly file: FileNode; readonly conflict: 'ours' | 'markers' | undefined }> {
    const core = this.#core
    if (await sameContent(core, ours, theirs)) return { file: ours, conflict: undefined }
    if (base !== undefined && (await sameContent(core, base, ours)))
      return { file: theirs, conflict: undefined }
    if (base !== undefined && (await sameContent(core, base, theirs)))
      return { file: ours, conflict: undefined }
    const stays = { file: ours, conflict: 'ours' } as const
    const bytes = (base?.size ?? 0) + ours.size + theirs.size
    if (bytes > limits.mergeFileBytes || this.#bytes + bytes > limits.mergeTextBytes) return stays
    const [baseBytes, ourBytes, theirBytes] = await Promise.all([
      base === undefined ? undefined : readFile(core, base),
      readFile(core, ours),
      readFile(core, theirs),
    ])
    if (merger !== undefined) {
      const made = await merger({ path, base: baseBytes, ours: ourBytes, theirs: theirBytes })
      if (made === undefined) return stays
      return { file: this.file(madeBytes(core, made), noAttributes), conflict: undefined }
    }
    const versions = { base: baseBytes ?? new Uint8Array(), ours: ourBytes, theirs: theirBytes }
    const text = await mergeBytes(core, versions)
    if (text === undefined) return stays
    if (text.conflictCount > 0 && policy !== 'union' && policy !== 'markers') return stays
    const rendered = bytesOf(render(text, policy, names))
    const isOpen = text.conflictCount > 0 && policy !== 'union'
    return { file: this.file(rendered, noAttributes), conflict: isOpen ? 'markers' : undefined }
  }
}

/** The versions merged by lines. Undefined if they are binary or too large for that. */
export async function mergeBytes(
  core: Core,
  { base, ours, theirs }: Readonly<Record<SideName, Uint8Array>>,
): Promise<TextMerge | undefined> {
  const versions = [base, ours, theirs]
  const bytes = versions.reduce((sum, { length }) => sum + length, 0)
  if (bytes > limits.mergeFileBytes || versions.some(isBinary) || versions.some(hasManyLines))
    return undefined
  const texts = { base: byteTextOf(base), ours: byteTextOf(ours), theirs: byteTextOf(theirs) }
  return runInSlices(mergeText(texts), core.environment)
}

function render(text: TextMerge, policy: MergePolicy | undefined, names: SideNames): string {
  return policy === 'markers' ? renderMarkers(text, { names }) : renderSides(text, 'union')
}

function madeBytes(core: Core, made: unknown): Uint8Array {
  const bytes = toBytes(made, 'the result of a merger')
  if (bytes.byteLength > core.maxFileBytes)
    throw invalid(
      'mergers',
      `a merger returned ${bytes.byteLength} bytes, and maxFileBytes is ${core.maxFileBytes}`,
    )
  return bytes
}

/** The whole content of a file. */
export async function readFile(core: Core, file: FileNode): Promise<Buffer> {
  return core.content.read(await whenLoaded(() => core.contentIds.body(file)), 0, file.size)
}

/** The merged value, or undefined if both sides changed it to different values. */
export function merged<T>(base: T | undefined, ours: T, theirs: T): T | undefined {
  if (ours === theirs || theirs === base) return ours
  return ours === base ? theirs : undefined
}

export function mergeXattrs(
  base: Xattrs | undefined,
  ours: Xattrs | undefined,
  theirs: Xattrs | undefined,
): { readonly merged: Xattrs | undefined; readonly conflicts: boolean } {
  let result = ours
  let conflicts = false
  if (base === theirs || ours === theirs) return { merged: ours, conflicts }
  const names = new Set([...(base ?? []), ...(theirs ?? [])].map(([name]) => name))
  for (const name of names) {
    const [before, our, their] = [base, ours, theirs].map((xattrs) => findXattr(xattrs, name))
    if (our?.hash === their?.hash || their?.hash === before?.hash) continue
    if (our?.hash !== before?.hash) conflicts = true
    else if ((result?.length ?? 0) < limits.xattrsPerNode || their === undefined || our !== undefined)
      result = withXattr(result, name, their)
    else conflicts = true
  }
  return { merged: result, conflicts }
}
