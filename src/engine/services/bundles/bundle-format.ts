/**
 * The contents of a bundle. Its root is the {@link Manifest}, as JSON. The trees of all states follow. In
 * them, contents and lists come before the blocks that refer to them. Then come texts with one record on each
 * line, cut into raw blocks: checkpoints, annotations, approvals, events. Each block occurs once, except for
 * a piece of text that is also a content.
 *
 * JSON blocks have the codec `json`, not `dag-json`, because they refer to others by plain hexadecimal
 * hashes, like the records in storage, and not by CIDs. The name of a tree block is the first 40 digits of
 * its SHA-256; the name of any other block is all 64 digits. The root's CID therefore determines every byte,
 * and equal sessions have equal bundles.
 */
import { Buffer } from 'node:buffer'
import { EngineError } from '../../base/errors.js'
import { parseStringMap, type StringMap } from '../../base/input.js'
import type { JsonObject } from '../../base/json-object.js'
import { limits } from '../../base/limits.js'
import {
  asHash,
  asInteger,
  asList,
  asMetadata,
  asObject,
  asText,
  checked,
  damaged,
  parseJson,
} from './bundle-checks.js'
import type { BundleBlock } from './bundle-ports.js'

export const bundleFormat = 'forkspace-session'
export const bundleVersion = 1

/** A tree block is `[kind, list]`. */
export const treeKinds = {
  /** A complete directory: a list of `[name, node]` in order of the names. */
  directory: 'd',
  /** Some of the entries of a directory that has several parts. */
  part: 'p',
  /** A list of `[number, block]` for the blocks of a file that are not holes. */
  blocks: 'b',
  /** The addresses of the parts of one directory, or of the lists of blocks of one file. */
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

/**
 * 0 for an empty content, the hash of the whole content, its blocks, or the address of the list of its
 * blocks.
 */
export type BundleBody = 0 | string | readonly BundleBlockEntry[] | { readonly b: string }

type Attributes = readonly [ino: number, mode: number, mtime: number, ctime: number, birthtime: number]

export interface BundleExtra {
  /** Extended attributes. */
  readonly x?: readonly (readonly [name: string, hash: string, length: number])[]
  /** In a file in the table of hard-linked files: the number of its names. */
  readonly n?: number
  /** In a root: the address of that table. */
  readonly t?: string
}

export type BundleNode =
  | readonly ['f', ...Attributes, size: number, body: BundleBody, extra?: BundleExtra]
  | BundleDirectory
  | readonly ['l', ino: number, target: string, mtime: number]
  | readonly ['h', ino: number]
export type BundleDirectory = readonly ['d', ...Attributes, content: string, extra?: BundleExtra]

/** A tree, and the manifest hash that it must have. */
export interface BundleState {
  readonly manifestHash: string
  readonly root: unknown
}

/** The number of lines in a text, and the hashes of the blocks that the text is cut into. */
export interface BundleText {
  readonly count: number
  readonly blocks: readonly string[]
}

/** The names of the texts with the records of services, in order. */
export const factNames = ['annotations', 'approvals'] as const
/**
 * The names of all texts, in order. Each kind of record of a session states whether one of them includes it.
 */
export const textNames = ['checkpoints', ...factNames, 'events'] as const
export type TextName = (typeof textNames)[number]

/** An import ignores fields that it does not know. */
export interface Manifest {
  readonly tags: StringMap
  /** Of a fork; absent if it has none. Older versions ignore it. */
  readonly metadata?: JsonObject
  readonly baseline: BundleState & {
    /** The revision of a source, if the baseline is one. */
    readonly revision?: { readonly sourceId: string; readonly revisionId: string }
  }
  /** The newest state. */
  readonly state: BundleState
  /** The number of blocks of the trees, contents included. */
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
    const version = JSON.stringify(value['version'] ?? null).slice(0, limits.shownLength)
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
    ...asMetadata(value['metadata']),
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

/** Checks a link of the chain of events, or the hash of a redo. */
export function asLink(value: unknown): string {
  if (typeof value !== 'string' || !linkPattern.test(value)) throw damaged('a link is malformed')
  return value
}
