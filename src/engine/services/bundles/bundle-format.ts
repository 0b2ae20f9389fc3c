/**
 * The contents of a bundle. Its root is the {@link Manifest}, as JSON. Then come the trees of all states, contents
 * and lists before the blocks that name them. Texts of one record a line, cut into raw blocks, follow: checkpoints,
 * annotations, approvals, events. Each block occurs once, but for pieces of text that are a content as well.
 *
 * JSON blocks have the codec `json`, not `dag-json`: they refer to others by plain hexadecimal hashes, as
 * records in storage do, and not by CIDs. A tree block is named by the first 40 digits of its SHA-256, all others
 * by all 64. So the root's CID fixes every byte, and equal sessions have equal bundles.
 */
import { Buffer } from 'node:buffer'
import { EngineError } from '../../base/errors.js'
import { parseStringMap, type StringMap } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { asHash, asInteger, asList, asObject, asText, checked, damaged, parseJson } from './bundle-checks.js'
import type { BundleBlock } from './bundle-ports.js'

export const bundleFormat = 'forkspace-session'
export const bundleVersion = 1

/** Tree blocks are `[kind, list]`. */
export const treeKinds = {
  /** A whole directory: `[name, node]` in order of the names. */
  directory: 'd',
  /** Entries of a directory that others follow, or that follow others. */
  part: 'p',
  /** `[number, block]` of the blocks of a file that are no holes. */
  blocks: 'b',
  /** Addresses of parts of one directory, or of blocks of one file. */
  list: 'l',
} as const

export type BundleBlob = readonly [hash: string, length: number]
export type BundleExtent = readonly [
  offset: number,
  length: number,
  hash: string,
  blobLength: number,
  casOffset: number,
]
export type BundleBlockEntry = readonly [number: number, block: BundleBlob | readonly BundleExtent[]]

/** Nothing, the whole content, its blocks, or the address of their list. */
export type BundleBody = 0 | string | readonly BundleBlockEntry[] | { readonly b: string }

type Attributes = readonly [ino: number, mode: number, mtime: number, ctime: number, birthtime: number]

export interface BundleExtra {
  /** Extended attributes. */
  readonly x?: readonly (readonly [name: string, hash: string, length: number])[]
  /** Of a file in the table of hard-linked files: how many they are. */
  readonly n?: number
  /** Of a root: that table. */
  readonly t?: string
}

export type BundleNode =
  | readonly ['f', ...Attributes, size: number, body: BundleBody, extra?: BundleExtra]
  | BundleDirectory
  | readonly ['l', ino: number, target: string, mtime: number]
  | readonly ['h', ino: number]
export type BundleDirectory = readonly ['d', ...Attributes, content: string, extra?: BundleExtra]

/** A tree, and the hash of it that has to come out. */
export interface BundleState {
  readonly manifestHash: string
  readonly root: unknown
}

/** Lines, and the blocks that they are cut into. */
export interface BundleText {
  readonly count: number
  readonly blocks: readonly string[]
}

/** The texts of records that services have, in their order. */
export const factNames = ['annotations', 'approvals'] as const
/** The names of the texts, in their order. Each kind of record of a session says whether it is in one of them. */
export const textNames = ['checkpoints', ...factNames, 'events'] as const
export type TextName = (typeof textNames)[number]

/** Fields that are not known here are ignored. */
export interface Manifest {
  readonly tags: StringMap
  readonly baseline: BundleState & {
    /** The revision of a source that the baseline is, where it is one. */
    readonly revision?: { readonly sourceId: string; readonly revisionId: string }
  }
  /** The newest state. */
  readonly state: BundleState
  /** How many blocks the trees have, contents included. */
  readonly treeBlocks: number
  /** The link of the newest event. */
  readonly head: string
  readonly texts: Readonly<Record<TextName, BundleText>>
}

/** @throws {EngineError} LIMIT_EXCEEDED when the session is too large */
export function encodeManifest({ tags, ...rest }: Manifest): Buffer {
  const sorted = Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1))
  const json = JSON.stringify({ format: bundleFormat, version: bundleVersion, tags: sorted, ...rest })
  const bytes = Buffer.from(json)
  if (bytes.length > limits.bundleNodeBytes) {
    throw new EngineError(
      'LIMIT_EXCEEDED',
      `the session is too large for a bundle: its manifest has ${bytes.length} bytes; at most ${limits.bundleNodeBytes} are allowed`,
      { limit: String(limits.bundleNodeBytes) },
    )
  }
  return bytes
}

export function parseManifest(block: BundleBlock | undefined): Manifest {
  if (block?.kind !== 'json') throw damaged('it has no manifest')
  const value = asObject(parseJson(block.bytes))
  if (value['format'] !== bundleFormat)
    throw new EngineError(
      'INVALID_BUNDLE',
      'the content is not a bundle of a session: pass the bytes that session.exportBundle() returned',
    )
  if (value['version'] !== bundleVersion) {
    const version = JSON.stringify(value['version'] ?? null).slice(0, 64)
    throw new EngineError(
      'INVALID_BUNDLE',
      `the bundle has version ${version}, and this version of forkspace reads version ${bundleVersion}: import it with the version that wrote it, or a newer one`,
      { version },
    )
  }
  const baseline = asObject(value['baseline'])
  const texts = asObject(value['texts'])
  const { blockBytes, bundleBlobs, bundleNodes } = limits
  return {
    tags: parseTags(value['tags']),
    baseline: { ...parseState(baseline), ...parseRevision(baseline['revision']) },
    state: parseState(asObject(value['state'])),
    treeBlocks: asInteger(value['treeBlocks'], 0, bundleNodes + bundleBlobs),
    head: asLink(value['head']),
    texts: {
      checkpoints: parseTextIndex(texts['checkpoints'], limits.bundleCheckpoints),
      annotations: parseTextIndex(texts['annotations'], blockBytes),
      approvals: parseTextIndex(texts['approvals'], blockBytes),
      events: parseTextIndex(texts['events']),
    },
  }
}

function parseTags(value: unknown): StringMap {
  const tags: Record<string, string> = Object.create(null) as Record<string, string>
  for (const tag of asList(value, limits.tagEntries)) {
    const [key, text] = asList(tag)
    tags[asText(key, limits.tagKeyBytes)] = asText(text, limits.tagValueBytes)
  }
  return checked(() => parseStringMap('tags', tags))
}

function parseState(value: Readonly<Record<string, unknown>>): BundleState {
  return { manifestHash: asHash(value['manifestHash']), root: value['root'] }
}

function parseRevision(value: unknown): Pick<Manifest['baseline'], 'revision'> {
  if (value === undefined) return {}
  const { sourceId, revisionId } = asObject(value)
  return {
    revision: {
      sourceId: asText(sourceId, limits.labelBytes),
      revisionId: asText(revisionId, limits.labelBytes),
    },
  }
}

function parseTextIndex(value: unknown, maxCount: number = Number.MAX_SAFE_INTEGER): BundleText {
  const { count, blocks } = asObject(value)
  return { count: asInteger(count, 0, maxCount), blocks: asList(blocks).map(asHash) }
}

const linkPattern = /^[A-Za-z0-9_-]{43}$/

/** A link of the chain of events, or the hash of a redo. */
export function asLink(value: unknown): string {
  if (typeof value !== 'string' || !linkPattern.test(value)) throw damaged('a link is malformed')
  return value
}
