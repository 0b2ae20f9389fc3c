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
  /** The number of fills for which the engine reported a full disk. */
  full: number
  acknowledged: number
  lost: number
  torn: number
  /** The number of fills after which the same engine continued, and after which it did not although there was space. */
  resumed: number
  stuck: number
}

export interface FillerArguments {
  readonly directory: string
  readonly fills: number
  readonly seed: number
}

const mountBytes = '16m'
/** Runs a command with its own mounts, without root where the system allows it. */
const ownMounts: readonly (readonly string[])[] = [
  ['unshare', '-Urm'],
  ['unshare', '-m'],
]

/** Fills and empties a small disk many times with one engine open; undefined if no disk can be mounted. */
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

/** The command prefix that gives a command its own mounts. */
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
