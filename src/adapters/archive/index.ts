import type { Buffer } from 'node:buffer'
import {
  Shape,
  TimeSlice,
  type Archives,
  type ContentIn,
  type ReadContext,
  type TreeSink,
} from '../../engine/ports.js'
import { ArchiveInput } from './archive-input.js'
import { ByteReader } from './byte-reader.js'
import { EntryGate, type ArchiveOptions } from './entry-gate.js'
import { gunzip } from './inflate.js'
import { archiveLimits } from './limits.js'
import { blockBytes } from './tar-headers.js'
import { readTar, type TarReading } from './tar-reader.js'
import { writeTar } from './tar-writer.js'
import { collectZip } from './zip-content.js'
import { readZip } from './zip-reader.js'

const optionsShape = new Shape<ArchiveOptions>({ allowGitNames: true })

/**
 * Reads tar, gzipped tar and zip. Writes tar.
 *
 * Names are UTF-8. A zip name without the UTF-8 flag is read as code page 437, unless it was written on Unix
 * and is valid UTF-8. A tar name must not contain U+FFFD. A backslash is an ordinary character in a tar name.
 * In a zip name it is rejected, because some programs use it as a separator.
 *
 * An extended attribute that is not text is written in base64 under a key of libarchive, and is read only
 * from such a key. Under other keys it is ignored. Names that are unsafe in git (`isUnsafeName`) are rejected
 * on reading, unless `allowGitNames` is true. They are written unchanged. Throws INVALID_ARGUMENT for an
 * unknown option.
 */
export function createArchives(options: ArchiveOptions = {}): Archives {
  const { allowGitNames = false } = optionsShape.read(options, 'options')
  return { read: (content, sink, context) => read(content, sink, context, { allowGitNames }), writeTar }
}

async function read(
  content: ContentIn,
  sink: TreeSink,
  context: ReadContext,
  options: Required<ArchiveOptions>,
): Promise<void> {
  let filesProcessed = 0
  const report = (): void => context.onProgress({ bytesTransferred: input.bytesRead, filesProcessed })
  const { signal } = context
  const slice = new TimeSlice(performance, signal)
  const input = new ArchiveInput(content, { signal, slice, onRead: report })
  const gate = new EntryGate(sink, options, (filesGiven) => {
    filesProcessed = filesGiven
    report()
  })
  try {
    const reader = new ByteReader(() => input.next())
    const reading = { slice, signal }
    const form = formOf(await reader.peek(blockBytes))
    if (form === 'zip') await readZip(await collectZip(content, reader), gate, slice)
    else if (form === 'tar') await readTar(() => reader.some(archiveLimits.inflatedPieceBytes), gate, reading)
    else await readGzip(reader, gate, reading)
  } finally {
    await input.close()
  }
}

async function readGzip(reader: ByteReader, gate: EntryGate, reading: TarReading): Promise<void> {
  const pieces = gunzip(() => reader.some(archiveLimits.pieceBytes))
  try {
    await readTar(async () => (await pieces.next()).value ?? undefined, gate, reading)
  } finally {
    // Not awaited, because the generator may still wait for bytes. It ends when their source ends.
    pieces.return(undefined).catch(() => undefined)
  }
}

/**
 * Recognizes the format. The signature of tar is checked first, because the name at the start of a tar may
 * look like another signature. Content without a signature is treated as an old tar.
 */
function formOf(start: Buffer): 'tar' | 'gzip' | 'zip' {
  if (start.toString('latin1', 257, 262) === 'ustar') return 'tar'
  return signatures.find(([, bytes]) => bytes.every((byte, i) => start[i] === byte))?.[0] ?? 'tar'
}

/** The signatures at the start of the content. The last one is that of a zip without entries. */
const signatures: readonly (readonly ['gzip' | 'zip', readonly number[]])[] = [
  ['gzip', [0x1f, 0x8b]],
  ['zip', [0x50, 0x4b, 3, 4]],
  ['zip', [0x50, 0x4b, 5, 6]],
]
