import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import { bytesOf, call, ofSession } from './api.js'
import { count, Name, shown, size, Time } from './format.js'
import { pageLimits } from './limits.js'
import { change } from './route.js'
import { chosenState } from './state-choice.js'
import { Empty, Failure, Show, useLoaded } from './states.js'
import type { Stat } from './wire.js'
import { VirtualList } from './virtual-list.js'

interface Piece {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly sizeBytes: number
}

/** A range of a file, of the chosen state. */
async function readPiece(
  id: string,
  path: string,
  offset: number,
  length: number,
  signal: AbortSignal,
): Promise<Piece> {
  const answer = await call<{ content: string; sizeBytes: string }>(ofSession(id, ':readFileAt'), {
    method: 'POST',
    body: { path, at: chosenState(), offset: String(offset), length: String(length) },
    signal,
  })
  return { bytes: bytesOf(answer.content), sizeBytes: Number(answer.sizeBytes) }
}

const imageTypes: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  avif: 'image/avif',
  bmp: 'image/bmp',
  ico: 'image/x-icon',
  svg: 'image/svg+xml',
}

/** The type of an image, by the end of its name. */
function imageTypeOf(path: string): string | undefined {
  const end = path.slice(path.lastIndexOf('.') + 1).toLowerCase()
  return Object.hasOwn(imageTypes, end) ? imageTypes[end] : undefined
}

type Form = 'text' | 'blame' | 'image' | 'hex'

interface FileViewProps {
  readonly id: string
  readonly path: string
  /** Changes when the file may have changed. */
  readonly moment: string
}

/** A file as text, as an image, or in hex. Only the range in view is read. */
export function FileView({ id, path, moment }: FileViewProps): VNode {
  const chosen = useSignal<Form | undefined>(undefined)
  const limit = useSignal<number>(pageLimits.pieceBytes)
  const loaded = useLoaded(
    async (signal) => {
      const stat = await call<Stat>(ofSession(id, ':statAt'), {
        method: 'POST',
        body: { path, at: chosenState(), followSymlinks: false },
        signal,
      })
      if (stat.kind === 'symlink') return { stat, target: await targetOf(id, path, signal) }
      return { stat, piece: await readPiece(id, path, 0, limit.value, signal) }
    },
    [id, path, moment, limit.value],
  )
  const type = imageTypeOf(path)
  return (
    <Show loaded={loaded}>
      {({ stat, piece, target }) => {
        if (piece === undefined)
          return (
            <Empty title="Symlink">
              It points to <code>{target === undefined ? '(shown at the newest state)' : shown(target)}</code>
            </Empty>
          )
        const isText = !piece.bytes.subarray(0, 8000).includes(0)
        const form =
          chosen.value ?? (type !== undefined && type !== 'image/svg+xml' ? 'image' : isText ? 'text' : 'hex')
        const forms: Form[] = type === undefined ? ['text', 'blame', 'hex'] : ['text', 'image', 'hex']
        return (
          <div class="file">
            <div class="bar">
              <h2 class="clip grow">
                <Name text={path} />
              </h2>
              <span class="quiet">{size(piece.sizeBytes)}</span>
              <span class="quiet">{stat.mode.toString(8).padStart(4, '0')}</span>
              <div class="switch" role="group" aria-label="Show as">
                {forms.map((one) => (
                  <button
                    key={one}
                    type="button"
                    aria-pressed={one === form}
                    onClick={() => {
                      chosen.value = one
                    }}
                  >
                    {one}
                  </button>
                ))}
              </div>
            </div>
            {form === 'text' || form === 'blame' ? (
              <TextLines
                {...(form === 'blame' && { blame: { id, path, moment } })}
                piece={piece}
                more={() => (limit.value = Math.min(pageLimits.textBytes, limit.value * 2))}
              />
            ) : form === 'image' && type !== undefined ? (
              <Picture id={id} path={path} type={type} sizeBytes={piece.sizeBytes} moment={moment} />
            ) : (
              <Hex id={id} path={path} sizeBytes={piece.sizeBytes} moment={moment} />
            )}
          </div>
        )
      }}
    </Show>
  )
}

async function targetOf(id: string, path: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await call<{ target: string }>(ofSession(id, '/readSymlink'), { query: { path }, signal })).target
  } catch {
    return undefined
  }
}

interface TextLinesProps {
  readonly piece: Piece
  readonly more: () => void
  /** Shows who changed each line. */
  readonly blame?: FileViewProps
}

function TextLines({ piece, more, blame }: TextLinesProps): VNode {
  const blamed = useLoaded(
    async (signal) =>
      blame === undefined ? undefined : blamedLines(await readBlame(blame.id, blame.path, signal)),
    [blame?.id, blame?.path, blame?.moment],
  )
  const lines = useMemo(() => {
    const found = new TextDecoder().decode(piece.bytes).split('\n')
    if (found.length > 1 && found.at(-1) === '') found.pop()
    return found
  }, [piece])
  if (blamed.error !== undefined) return <Failure error={blamed.error} />
  if (piece.sizeBytes === 0) return <Empty title="The file is empty" />
  const isPart = piece.bytes.length < piece.sizeBytes
  const digits = String(lines.length).length
  return (
    <>
      <VirtualList
        label="Text of the file"
        role="document"
        class="code"
        count={lines.length}
        rowHeight={20}
        row={(index) => {
          const line = lines[index] ?? ''
          const isCut = line.length > pageLimits.lineCharacters
          return (
            <>
              {blame !== undefined && <BlameCell range={blamed.value?.get(index + 1)} />}
              <span class="number" style={{ width: `${digits + 2}ch` }}>
                {index + 1}
              </span>
              <code>
                <bdi>{visible(isCut ? line.slice(0, pageLimits.lineCharacters) : line)}</bdi>
                {isCut && <span class="quiet"> … {count(line.length, 'character')}</span>}
              </code>
            </>
          )
        }}
      />
      {isPart && (
        <p class="bar quiet" role="status">
          The first {size(piece.bytes.length)} of {size(piece.sizeBytes)}.
          {piece.bytes.length < pageLimits.textBytes ? (
            <button type="button" class="plain" onClick={more}>
              Show more
            </button>
          ) : (
            ' The rest is shown in hex.'
          )}
        </p>
      )}
    </>
  )
}

interface BlameRange {
  readonly startLine: number
  readonly lineCount: number
  readonly eventId: string
  readonly timestamp: string
  readonly principal: string
}

async function readBlame(id: string, path: string, signal: AbortSignal): Promise<readonly BlameRange[]> {
  const { ranges } = await call<{ ranges: BlameRange[] }>(ofSession(id, ':blame'), {
    method: 'POST',
    body: { path, at: chosenState() },
    signal,
  })
  return ranges
}

/** The range of each line. */
function blamedLines(ranges: readonly BlameRange[]): ReadonlyMap<number, BlameRange> {
  const lines = new Map<number, BlameRange>()
  for (const range of ranges)
    for (let line = 0; line < range.lineCount; line++) lines.set(range.startLine + line, range)
  return lines
}

/** The event that changed a line. A click shows the state after it. */
function BlameCell({ range }: { readonly range: BlameRange | undefined }): VNode {
  if (range === undefined || range.eventId === '') return <span class="blame quiet clip">the base</span>
  return (
    <span class="blame clip" onClick={() => change({ at: range.eventId })}>
      <Name text={range.principal} /> <span class="quiet">#{parseInt(range.eventId.slice(-8), 36)}</span>{' '}
      <Time at={range.timestamp} />
    </span>
  )
}

/** A line of a file: tabs stay, other controls become visible. That of a line end of CRLF only does if it matters. */
export function visible(line: string, showsEnd = false): string {
  const text = line.endsWith('\r') && !showsEnd ? line.slice(0, -1) : line
  return text.split('\t').map(shown).join('\t')
}

interface PictureProps {
  readonly id: string
  readonly path: string
  readonly type: string
  readonly sizeBytes: number
  readonly moment: string
}

/** An image of a blob. A document of SVG in it runs no scripts and loads nothing. */
function Picture({ id, path, type, sizeBytes, moment }: PictureProps): VNode {
  const url = useSignal<string | undefined>(undefined)
  const isBroken = useSignal(false)
  const loaded = useLoaded(
    async (signal) =>
      sizeBytes > pageLimits.textBytes ? undefined : (await readPiece(id, path, 0, sizeBytes, signal)).bytes,
    [id, path, sizeBytes, moment],
  )
  useEffect(() => {
    if (loaded.value === undefined) return undefined
    const made = URL.createObjectURL(new Blob([loaded.value], { type }))
    url.value = made
    isBroken.value = false
    return () => URL.revokeObjectURL(made)
  }, [loaded.value])
  if (sizeBytes > pageLimits.textBytes)
    return <Empty title="The image is too large to show">It has {size(sizeBytes)}.</Empty>
  if (isBroken.value) return <Empty title="The file is no image that the browser can show" />
  return (
    <div class="picture">
      {url.value !== undefined && (
        <img
          src={url.value}
          alt={shown(path)}
          onError={() => {
            isBroken.value = true
          }}
        />
      )}
    </div>
  )
}

/** One page of the bytes of a file. */
function Hex({ id, path, sizeBytes, moment }: Omit<PictureProps, 'type'>): VNode {
  const offset = useSignal(0)
  const loaded = useLoaded(
    (signal) => readPiece(id, path, offset.value, pageLimits.hexBytes, signal),
    [id, path, moment, offset.value],
  )
  const last = Math.max(0, Math.ceil(sizeBytes / pageLimits.hexBytes) - 1) * pageLimits.hexBytes
  const go = (to: number): void => {
    offset.value = Math.min(last, Math.max(0, Math.floor(to / pageLimits.hexBytes) * pageLimits.hexBytes))
  }
  return (
    <>
      <Show loaded={loaded}>
        {({ bytes }) => (
          <VirtualList
            label="Bytes of the file"
            role="document"
            class="code"
            count={Math.ceil(bytes.length / pageLimits.hexRowBytes)}
            rowHeight={20}
            row={(index) => (
              <HexRow bytes={bytes} at={index * pageLimits.hexRowBytes} offset={offset.value} />
            )}
          />
        )}
      </Show>
      {sizeBytes > pageLimits.hexBytes && (
        <div class="bar" role="group" aria-label="Part of the file">
          <button
            type="button"
            disabled={offset.value === 0}
            onClick={() => go(offset.value - pageLimits.hexBytes)}
          >
            ‹ Before
          </button>
          <label class="quiet">
            Offset{' '}
            <input
              type="text"
              inputMode="text"
              size={12}
              value={`0x${offset.value.toString(16)}`}
              onChange={({ currentTarget }) => {
                const to = Number(currentTarget.value)
                if (Number.isFinite(to)) go(to)
                currentTarget.value = `0x${offset.value.toString(16)}`
              }}
            />{' '}
            of {size(sizeBytes)}
          </label>
          <button
            type="button"
            disabled={offset.value === last}
            onClick={() => go(offset.value + pageLimits.hexBytes)}
          >
            After ›
          </button>
        </div>
      )}
    </>
  )
}

function HexRow({ bytes, at, offset }: { bytes: Uint8Array; at: number; offset: number }): VNode {
  const row = [...bytes.subarray(at, at + pageLimits.hexRowBytes)]
  const hex = row.map((byte) => byte.toString(16).padStart(2, '0'))
  const left = hex.slice(0, 8).join(' ')
  const right = hex.slice(8).join(' ')
  const text = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '·')).join('')
  return (
    <>
      <span class="number">{(offset + at).toString(16).padStart(8, '0')}</span>
      <code>{`${left.padEnd(23)}  ${right.padEnd(23)}  ${text}`}</code>
    </>
  )
}
