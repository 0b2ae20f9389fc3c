import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execPath } from 'node:process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export interface FillOptions {
  readonly fills: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface FillResult {
  fills: number
  /** Fills of which the engine said that the disk is full. */
  full: number
  acknowledged: number
  lost: number
  torn: number
  /** Fills after which the same engine went on, and such after which it did not though there was space. */
  resumed: number
  stuck: number
}

export interface FillerArguments {
  readonly directory: string
  readonly fills: number
  readonly seed: number
}

const mountBytes = '16m'
/** Runs a command with mounts of its own, without being root where the system lets it. */
const ownMounts: readonly (readonly string[])[] = [
  ['unshare', '-Urm'],
  ['unshare', '-m'],
]

/** Fills a small disk and empties it again, many times under one engine; undefined where no disk can be had. */
export async function runFills(options: FillOptions): Promise<FillResult | undefined> {
  const prefix = mountPrefix()
  if (prefix === undefined) return undefined
  const directory = await mkdtemp(join(tmpdir(), 'full-'))
  const script = fileURLToPath(new URL('filler.js', import.meta.url))
  const settings: FillerArguments = { directory, fills: options.fills, seed: options.seed }
  const mount = `mount -t tmpfs -o size=${mountBytes} tmpfs "$1"; shift; exec "$@"`
  const node = [execPath, '--enable-source-maps', script, JSON.stringify(settings)]
  const [command, ...args] = [...prefix, 'sh', '-c', mount, 'sh', directory, ...node]
  const child = spawn(command!, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  let last = ''
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith('{')) last = line
    else options.onProgress(line)
  }
  await closed
  await rm(directory, { recursive: true })
  if (last === '') throw new Error('the process that fills its disk failed')
  return JSON.parse(last) as FillResult
}

/** What a command is put behind to have mounts of its own. */
export function mountPrefix(): readonly string[] | undefined {
  return ownMounts.find(([command, ...args]) => {
    try {
      execFileSync(command!, [...args, 'mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', tmpdir()], {
        stdio: 'ignore',
      })
      return true
    } catch {
      return false
    }
  })
}
