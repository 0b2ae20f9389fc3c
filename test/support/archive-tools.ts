import { createHash } from 'node:crypto'
import { execFileSync, spawnSync } from 'node:child_process'
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { ContentIn, EntryAttributes, TreeSink } from '../../src/engine/ports.js'

/** Whether a tool is installed. A missing tool is an error when FORKSPACE_REQUIRE_ALL is 1. */
function has(command: string, args: readonly string[], sign: RegExp): boolean {
  const { status, stdout } = spawnSync(command, args, { encoding: 'utf8' })
  const found = status === 0 && sign.test(stdout)
  if (!found && process.env['FORKSPACE_REQUIRE_ALL'] === '1') throw new Error(`${command} is missing`)
  return found
}

export const hasGnuTar = has('tar', ['--version'], /GNU tar/)
export const hasZip = has('zip', ['-v'], /Info-ZIP/) && has('unzip', ['-v'], /UnZip/)
export const hasPython = has('python3', ['--version'], /^Python 3/)

const maxBuffer = 2 ** 28

/** Runs a tool and returns its output. */
export function run(command: string, args: readonly string[], cwd: string, input?: Uint8Array): Buffer {
  return execFileSync(command, args, {
    cwd,
    maxBuffer,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], LC_ALL: 'C.UTF-8', TZ: 'UTC' },
    ...(input && { input }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

/** Runs a Python program with the archive modules imported, and returns the bytes that it writes to `out`. */
export function python(code: string, cwd: string, input?: Uint8Array): Buffer {
  const preamble = 'import io, sys, os, tarfile, zipfile, json\nout = sys.stdout.buffer\n'
  return run('python3', ['-c', preamble + code], cwd, input)
}

export type SeenEntry =
  | { kind: 'directory'; mode: number; mtimeMs: number; xattrs?: Record<string, string> }
  | {
      kind: 'file'
      mode: number
      mtimeMs: number
      content: string
      xattrs?: Record<string, string>
    }
  | { kind: 'symlink'; target: string; mtimeMs: number }

/** The entries that a sink received, by path; a hard link is listed as the entry it points to. */
export class MemorySink implements TreeSink {
  readonly entries = new Map<string, SeenEntry>()
  readonly links: [existingPath: string, path: string][] = []

  directory(path: string, attributes: EntryAttributes): void {
    this.entries.set(path, { kind: 'directory', ...plain(attributes) })
  }

  async file(path: string, content: ContentIn, attributes: EntryAttributes): Promise<void> {
    const bytes = await bytesOf(content)
    this.entries.set(path, { kind: 'file', content: shown(bytes), ...plain(attributes) })
  }

  symlink(path: string, target: string, { mtimeMs }: { readonly mtimeMs: number }): void {
    this.entries.set(path, { kind: 'symlink', target, mtimeMs })
  }

  hardLink(existingPath: string, path: string): void {
    this.links.push([existingPath, path])
    this.entries.set(path, this.entries.get(existingPath)!)
  }

  remove(): void {
    throw new Error('an archive takes nothing away')
  }

  /** The paths alone, sorted. */
  get paths(): string[] {
    return [...this.entries.keys()].sort()
  }
}

/** Short content as text, long content as its length and hash. */
export function shown(content: Buffer): string {
  if (content.length <= 1000) return content.toString('latin1')
  return `${content.length} bytes, ${createHash('sha256').update(content).digest('hex')}`
}

export async function bytesOf(content: ContentIn): Promise<Buffer> {
  if (content instanceof Uint8Array) return Buffer.from(content)
  const pieces: Buffer[] = []
  for await (const piece of content) pieces.push(Buffer.from(piece))
  return Buffer.concat(pieces)
}

function plain({ mode, mtimeMs, xattrs }: EntryAttributes): {
  mode: number
  mtimeMs: number
  xattrs?: Record<string, string>
} {
  if (xattrs === undefined) return { mode, mtimeMs }
  const texts = [...xattrs].map(([name, value]) => [name, Buffer.from(value).toString('latin1')] as const)
  return { mode, mtimeMs, xattrs: Object.fromEntries(texts) }
}

/** The entries of a directory on disk in the form of a sink, with times truncated to seconds. */
export function entriesOnDisk(directory: string): Map<string, SeenEntry> {
  const entries = new Map<string, SeenEntry>()
  const visit = (path: string): void => {
    const real = join(directory, path)
    const stats = lstatSync(real)
    const mtimeMs = Math.floor(stats.mtimeMs / 1000) * 1000
    const mode = stats.mode & 0o7777
    if (stats.isSymbolicLink()) entries.set(path, { kind: 'symlink', target: readlinkSync(real), mtimeMs })
    else if (stats.isDirectory()) {
      entries.set(path, { kind: 'directory', mode, mtimeMs })
      for (const name of readdirSync(real)) visit(path === '/' ? `/${name}` : `${path}/${name}`)
    } else entries.set(path, { kind: 'file', mode, mtimeMs, content: shown(readFileSync(real)) })
  }
  visit('/')
  return entries
}

/** Truncates times to whole seconds and sorts the entries by path. */
export function inSeconds(entries: ReadonlyMap<string, SeenEntry>): Record<string, SeenEntry> {
  const sorted = [...entries].sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(
    sorted.map(([path, entry]) => [path, { ...entry, mtimeMs: Math.floor(entry.mtimeMs / 1000) * 1000 }]),
  )
}
