import { EngineError } from '../../../engine/ports.js'
import type { StoreFinding } from '../../../engine/ports.js'
import { salvageFrames } from '../tools/frame-salvage.js'
import { readManifest, segmentsName } from '../directory/manifest.js'
import { markerName, readMarker } from '../directory/marker.js'
import { decodeSegmentHeader, segmentHeaderBytes } from './segment-format.js'
import type { Segments } from './segments.js'
import { fileFinding, segmentPath, unreadable } from '../tools/stored-files.js'

/** Reads all segments of an open store and verifies every checksum. Commits and reads continue meanwhile. */
export async function* checkSegments(
  segments: Segments,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoreFinding, void> {
  const { disk, directory } = segments
  const ofStore = (name: string, storeId: string): StoreFinding | undefined =>
    storeId === segments.manifest.storeId
      ? undefined
      : fileFinding('damaged', name, 'belongs to another store')
  yield* asFinding(markerName, async () => {
    const marker = await readMarker(disk, directory)
    if (marker === undefined) return fileFinding('missing', markerName, 'does not exist')
    return ofStore(markerName, marker.storeId)
  })
  const manifestName = `${segmentsName}/manifest`
  yield* asFinding(manifestName, async () =>
    ofStore(manifestName, (await readManifest(disk, directory)).storeId),
  )
  for (const segment of segments.numbers) {
    if (!segments.has(segment)) continue
    const file = segments.file(segment)
    const name = segmentPath(segment)
    // Frames that are appended after this are not checked.
    const { end } = file
    const { firstCommit, chain } = segments.header(segment)
    let size: number
    let header: Uint8Array
    try {
      size = await file.file.size()
      header = await file.file.read(0, segmentHeaderBytes)
    } catch (error) {
      // The segment was removed meanwhile, so nothing in it is needed.
      if (!segments.has(segment)) continue
      throw error
    }
    if (segments.has(segment) && !segments.isInPlace(file))
      yield fileFinding('missing', name, 'was moved, removed or replaced while the store was open')
    if (size < end)
      yield fileFinding('damaged', name, `byte ${size}: the file has ${size} bytes instead of ${end}`)
    if (decodeSegmentHeader(header) === undefined)
      yield fileFinding('damaged', name, 'byte 0: the header is damaged')
    const to = Math.min(size, end)
    const range = {
      from: segmentHeaderBytes,
      to,
      dataEnd: to,
      before: { commit: firstCommit - 1, chain },
    }
    for await (const { damages } of salvageFrames(file, range, segments.seed)) {
      signal?.throwIfAborted()
      if (!segments.has(segment)) break
      for (const { offset, message } of damages)
        yield fileFinding('damaged', name, `byte ${offset}: ${message}`)
    }
  }
}

async function* asFinding(
  name: string,
  look: () => Promise<StoreFinding | undefined | void>,
): AsyncGenerator<StoreFinding, void> {
  try {
    const finding = await look()
    if (finding !== undefined) yield finding
  } catch (error) {
    const finding = unreadable(name, error)
    if (finding !== undefined) {
      yield finding
      return
    }
    if (!(error instanceof EngineError)) throw error
    const problem = error.details['missing'] === undefined ? 'damaged' : 'missing'
    yield fileFinding(problem, name, error.message)
  }
}
