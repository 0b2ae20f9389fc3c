import {
  abortable,
  EngineError,
  isBytes,
  notInPieces,
  readBytes,
  onlyItem,
  TimeSlice,
  type ContentIn,
  type GitObjects,
} from '../../../engine/ports.js'
import { readBundleHeader, type BundleHeader } from './bundle-header.js'
import { gitLimits } from '../limits.js'
import { openPackInMemory } from './memory-pack.js'
import type { ObjectFormat } from '../objects/object-id.js'
import type { ObjectSource } from '../objects/object-source.js'
import { bytesFrom, CollectedBytes, memoryBytes, type RandomBytes } from './random-bytes.js'
import { pushRejected } from '../remote/remote-errors.js'
import type { RemoteRefs, Repository, RevisionRequest } from '../repository.js'

/**
 * Opens a bundle file as a read-only repository. The content is one buffer or arrives in pieces, and has at
 * most `gitLimits.bundleBytes`. The engine's objects must contain the prerequisites of the bundle. If a
 * bundle has one branch and no HEAD, the branch is its HEAD. `onBytes` is called as the content arrives.
 */
export function openBundle(content: ContentIn, onBytes?: (count: number) => void): Repository {
  return new BundleRepository(content, onBytes)
}

class BundleRepository implements Repository {
  readonly #content: ContentIn
  readonly #onBytes: ((count: number) => void) | undefined
  #opened: Promise<OpenedBundle> | undefined

  constructor(content: ContentIn, onBytes: ((count: number) => void) | undefined) {
    this.#content = content
    this.#onBytes = onBytes
  }

  async format(signal: AbortSignal): Promise<ObjectFormat> {
    return (await this.#open(signal)).header.format
  }

  async listRefs(options: {
    readonly prefixes: readonly string[]
    readonly signal: AbortSignal
  }): Promise<RemoteRefs> {
    const { prefixes, signal } = options
    const { header } = await this.#open(signal)
    const refs = new Map(header.refs)
    const branches = [...refs].filter(([name]) => name.startsWith('refs/heads/'))
    const branch = onlyItem(branches)
    if (!refs.has('HEAD') && branch !== undefined) refs.set('HEAD', branch[1])
    for (const name of prefixes.length === 0 ? [] : [...refs.keys()]) {
      if (!prefixes.some((prefix) => name.startsWith(prefix))) refs.delete(name)
    }
    return { refs, symrefs: new Map(), peeled: new Map() }
  }

  async openObjects(request: RevisionRequest): Promise<ObjectSource> {
    const { want, objects, signal } = request
    const { header, pack } = await this.#open(signal)
    await checkPrerequisites(header, objects)
    const packed = await openPackInMemory(pack, header.format, {
      signal,
      getBase: (oid) => objects.get(oid, gitLimits.deltaBytes),
    })
    if (!packed.has(want) && !(await objects.has(want))) {
      throw new EngineError('GIT_REF_NOT_FOUND', `the bundle has no object ${want}`, { gitRef: want })
    }
    return {
      async read(oid) {
        // The pack need not contain objects of the prerequisites.
        const known = packed.has(oid) ? undefined : await objects.get(oid)
        return known ?? packed.read(oid)
      },
      readBlob: (oid) => packed.readBlob(oid),
    }
  }

  push(): Promise<void> {
    return Promise.reject(pushRejected('a bundle is only read', ''))
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  #open(signal: AbortSignal): Promise<OpenedBundle> {
    this.#opened ??= open(this.#content, signal, this.#onBytes)
    return this.#opened
  }
}

interface OpenedBundle {
  readonly header: BundleHeader
  readonly pack: RandomBytes
}

async function open(
  content: ContentIn,
  signal: AbortSignal,
  onBytes: ((count: number) => void) | undefined,
): Promise<OpenedBundle> {
  const bytes = await collect(content, signal, onBytes)
  const header = await readBundleHeader(
    await bytes.at(0, gitLimits.bundleHeaderBytes),
    new TimeSlice(performance, signal),
  )
  return { header, pack: bytesFrom(bytes, header.end) }
}

async function checkPrerequisites(header: BundleHeader, objects: GitObjects): Promise<void> {
  const missing: string[] = []
  for (const oid of header.prerequisites) if (!(await objects.has(oid))) missing.push(oid)
  if (missing.length === 0) return
  throw new EngineError(
    'GIT_BUNDLE_PREREQUISITE',
    `the bundle builds on ${missing.length} commits that the source does not have: import a bundle with all commits first`,
    { oids: missing.slice(0, gitLimits.shownOids).join(',') },
  )
}

async function collect(
  content: ContentIn,
  signal: AbortSignal,
  onBytes: ((count: number) => void) | undefined,
): Promise<RandomBytes> {
  signal.throwIfAborted()
  if (isBytes(content)) {
    const bytes = readBytes('content', content)
    checkLength(bytes.length)
    onBytes?.(bytes.length)
    return memoryBytes(bytes)
  }
  const collected = new CollectedBytes()
  for await (const piece of abortable(content, signal)) {
    const chunk = readBytes('content', piece, notInPieces(piece))
    checkLength(collected.size + chunk.length)
    collected.append(chunk)
    onBytes?.(chunk.length)
  }
  return collected
}

function checkLength(length: number): void {
  if (length <= gitLimits.bundleBytes) return
  throw new EngineError('GIT_TOO_LARGE', `the bundle is over ${gitLimits.bundleBytes} bytes`, {
    limit: String(gitLimits.bundleBytes),
  })
}
