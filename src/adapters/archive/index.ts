import type { Buffer } from 'node:buffer'
import { Shape, type Archives, type ContentIn, type ReadContext, type TreeSink } from '../../engine/ports.js'
import { ArchiveInput } from './archive-input.js'
import { ByteReader } from './byte-reader.js'
import { EntryGate, type ArchiveOptions } from './entry-gate.js'
import { gunzip } from './inflate.js'
import { archiveLimits } from './limits.js'
import { Pacer } from './pacer.js'
import { blockBytes } from './tar-headers.js'
import { readTar, type TarReading } from './tar-reader.js'
import { writeTar } from './tar-writer.js'
import { collectZip } from './zip-content.js'
import { readZip } from './zip-reader.js'

const optionsShape = new Shape<ArchiveOptions>({ allowGitNames: true })

/**
 * Reads tar, tar in gzip, and zip; writes tar. A backslash is a character of a name in a tar and refused in a zip,
 * where some programs mean a separator by it. Names are UTF-8; those of a zip that does not say so, and is not of
 * Unix, are of the code page 437. A name in a tar may not contain U+FFFD. Extended attributes that are no text are
 * written in base64, under the keys of libarchive, and read from there; under other keys they are left out. A name
 * that git must not hold is refused where it is read (`isUnsafeName`), unless `allowGitNames`; it is written as it is.
 * INVALID_ARGUMENT for an unknown option.
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
  const tell = (): void => context.onProgress({ bytesTransferred: input.bytesRead, filesProcessed })
  const { signal } = context
  const pacer = new Pacer(signal)
  const input = new ArchiveInput(content, { signal, pacer, onRead: tell })
  const gate = new EntryGate(sink, options, (filesGiven) => {
    filesProcessed = filesGiven
    tell()
  })
  try {
    const reader = new ByteReader(() => input.next())
    const reading = { pacer, signal }
    const form = formOf(await reader.peek(blockBytes))
    if (form === 'zip') await readZip(await collectZip(content, reader), gate, pacer)
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
    // It may still wait for bytes, and ends when their source does.
    pieces.return(undefined).catch(() => undefined)
  }
}

/** A tar may start with any name, so its sign is looked at first; one without a sign is all the rest. */
function formOf(start: Buffer): 'tar' | 'gzip' | 'zip' {
  if (start.toString('latin1', 257, 262) === 'ustar') return 'tar'
  return signatures.find(([, bytes]) => bytes.every((byte, i) => start[i] === byte))?.[0] ?? 'tar'
}

/** The last one is that of a zip without entries. */
const signatures: readonly (readonly ['gzip' | 'zip', readonly number[]])[] = [
  ['gzip', [0x1f, 0x8b]],
  ['zip', [0x50, 0x4b, 3, 4]],
  ['zip', [0x50, 0x4b, 5, 6]],
]
