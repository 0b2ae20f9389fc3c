import { engineClosed, invalid } from '../../base/errors.js'
import { copyInTurns } from '../../base/copy-in-turns.js'
import { isAsyncIterable, isBytes, kindOf } from '../../base/input.js'
import { Shape } from '../../base/shape.js'
import { TimeSlice } from '../../base/cooperative.js'
import { abortable, checkSignal, withSignals } from '../../base/abort.js'
import type { ContentIn } from '../../cas/content-writer.js'
import type { Action } from '../../operations/index.js'
import type { Core } from '../../session/core.js'
import type { LiveSession } from '../../session/table/live.js'
import { exportBlocks, openExport, type OpenedExport } from './bundle-export.js'
import type { BundleParts } from './bundle-facts.js'
import { importBlocks } from './bundle-import.js'
import type { BundleFiles } from './bundle-ports.js'

/** Options of `session.exportBundle` and `sessions.importBundle`. */
export interface BundleOptions {
  /** Ends the call with the signal's reason. */
  readonly signal?: AbortSignal
}

/** Exports and imports sessions with their history, as files. */
export class Bundles {
  readonly #parts: BundleParts
  readonly #closing = new AbortController()

  constructor(parts: BundleParts) {
    this.#parts = parts
  }

  /** Aborts the imports that wait for more of their bundle. */
  close(): void {
    this.#closing.abort(engineClosed())
  }

  /** Exports the current state of the session. `allowed` decides which parts the caller may read. */
  async export(
    core: Core,
    live: LiveSession,
    allowed: (action: Action) => boolean,
    { signal }: BundleOptions,
  ): Promise<AsyncGenerator<Uint8Array, void>> {
    signal?.throwIfAborted()
    const facts = this.#parts.facts.filter(({ action }) => allowed(action))
    const [opened, files] = await Promise.all([openExport(core, live, facts), this.#parts.files()])
    return writing(core, files, opened, signal)
  }

  /** Imports a session. `mayUse` decides whether the caller may have sessions on a source. */
  async import(
    core: Core,
    content: ContentIn,
    {
      mayUse,
      allows,
      signal,
    }: BundleOptions & {
      readonly mayUse: (sourceId: string) => boolean
      readonly allows: (action: Action) => boolean
    },
  ): Promise<LiveSession> {
    signal?.throwIfAborted()
    const files = await this.#parts.files()
    const { facts, revision } = this.#parts
    return withSignals([signal, this.#closing.signal], (ending) => {
      const pieces = abortable(isBytes(content) ? one(content) : content, ending)
      return importBlocks(core, files.read(pieces), signal, {
        facts: facts.filter(({ isImported, importAction }) => isImported && allows(importAction)),
        revision: (sourceId, revisionId) =>
          mayUse(sourceId) ? revision(core, sourceId, revisionId) : Promise.resolve(undefined),
      })
    })
  }
}

async function* writing(
  core: Core,
  files: BundleFiles,
  opened: OpenedExport,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void> {
  try {
    const { rootHash, blocks } = await exportBlocks(core, opened, signal)
    const slice = new TimeSlice(core.environment)
    for await (const piece of files.write(rootHash, blocks)) {
      signal?.throwIfAborted()
      yield piece
      if (slice.over) await slice.next()
    }
  } finally {
    opened.close()
  }
}

async function* one(content: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield content
}

const optionsShape = new Shape<BundleOptions>({ signal: true })

export function parseBundleOptions(options: BundleOptions): BundleOptions {
  const copy = optionsShape.read(options, 'options')
  checkSignal(copy.signal)
  return copy
}

/**
 * Returns a copy of the bytes, or the stream.
 *
 * @throws {EngineError} INVALID_ARGUMENT when the content is neither
 */
export async function parseBundle(content: ContentIn): Promise<ContentIn> {
  if (isBytes(content)) return copyInTurns('content', content)
  if (isAsyncIterable('content', content)) return content
  throw invalid('content', `must be bytes, or an async iterable of bytes; it is ${kindOf(content)}`)
}
