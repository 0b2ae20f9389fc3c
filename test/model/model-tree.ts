import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { limits, type ErrorReason } from '../../src/index.js'

export type Entry =
  | {
      readonly kind: 'file'
      readonly mode: number
      readonly content: Content
      readonly xattrs: Xattrs
      /** An id shared by all names of a file; undefined if it never had a second name. */
      readonly link?: number | undefined
    }
  | { readonly kind: 'directory'; readonly mode: number; readonly xattrs: Xattrs }
  | { readonly kind: 'symlink'; readonly target: string }

/** Values by name. */
export type Xattrs = ReadonlyMap<string, string>

const noXattrs: Xattrs = new Map()

/** Bytes with their hash, computed once. */
export class Content {
  readonly bytes: Buffer
  #hash: string | undefined

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  get hash(): string {
    return (this.#hash ??= `sha256:${createHash('sha256').update(this.bytes).digest('hex')}`)
  }
}

/** A short description of a content, so that a list of operations stays readable. */
export interface ContentSpec {
  readonly size: number
  readonly seed: number
}

export function contentOf({ size, seed }: ContentSpec): Buffer {
  const pattern = Buffer.from(`${seed}:`)
  return Buffer.alloc(size, pattern)
}

export interface WriteStep {
  readonly op: 'write'
  readonly path: string
  readonly content: ContentSpec
  readonly mode?: number
  readonly guard?: string
}

export interface DeleteStep {
  readonly op: 'delete'
  readonly path: string
  readonly guard?: string
}

/** A change of a session's tree. */
export type TreeStep =
  | WriteStep
  | DeleteStep
  | { readonly op: 'append'; readonly path: string; readonly content: ContentSpec; readonly guard?: string }
  | { readonly op: 'mkdir'; readonly path: string; readonly mode?: number }
  | { readonly op: 'rmdir'; readonly path: string }
  | { readonly op: 'rename'; readonly from: string; readonly to: string }
  | { readonly op: 'chmod'; readonly path: string; readonly mode: number }
  | { readonly op: 'symlink'; readonly path: string; readonly target: string }
  | { readonly op: 'link'; readonly from: string; readonly to: string }
  | { readonly op: 'rm'; readonly path: string }
  | { readonly op: 'unlink'; readonly path: string; readonly guard?: string }
  | { readonly op: 'setXattr'; readonly path: string; readonly name: string; readonly value: string }
  | { readonly op: 'removeXattr'; readonly path: string; readonly name: string }
  | { readonly op: 'batch'; readonly steps: readonly (WriteStep | DeleteStep)[] }

/** The rejection of an operation. */
export class Refusal {
  readonly reason: ErrorReason

  constructor(reason: ErrorReason) {
    this.reason = reason
  }
}

interface Place {
  readonly path: string
  readonly entry: Entry | undefined
  /** The missing directories above the path, outermost first. */
  readonly missing: readonly string[]
}

/** A change between two trees, in the engine's terms. */
export interface ModelChange {
  readonly path: string
  readonly change: 'added' | 'removed' | 'modified'
  readonly kind: Entry['kind']
}

const emptyRoot: Entry = { kind: 'directory', mode: 0o755, xattrs: noXattrs }
let links = 0

/** The plain model: a map of paths. */
export class ModelTree {
  #entries: Map<string, Entry>

  constructor(entries: Iterable<readonly [string, Entry]> = [['/', emptyRoot]]) {
    this.#entries = new Map(entries)
  }

  clone(): ModelTree {
    return new ModelTree(this.#entries)
  }

  get(path: string): Entry | undefined {
    return this.#entries.get(path)
  }

  /** All paths except the root, in no order. */
  paths(): string[] {
    return [...this.#entries.keys()].filter((path) => path !== '/')
  }

  /** Every name of the file at a path. */
  namesOf(path: string): string[] {
    const entry = this.#entries.get(path)
    if (entry?.kind !== 'file' || entry.link === undefined) return [path]
    return this.paths().filter((other) => {
      const found = this.#entries.get(other)
      return found?.kind === 'file' && found.link === entry.link
    })
  }

  /** Atomic; throws a refusal. */
  apply(step: TreeStep): void {
    switch (step.op) {
      case 'write':
        return this.#write(step)
      case 'append': {
        const place = this.#resolve(step.path, true)
        this.#checkGuard(place.entry, step.guard)
        if (place.entry === undefined) return this.#write({ ...step, op: 'write' })
        if (place.entry.kind !== 'file') throw new Refusal('IS_A_DIRECTORY')
        const bytes = Buffer.concat([place.entry.content.bytes, contentOf(step.content)])
        return this.#change(place.path, { ...place.entry, content: new Content(bytes) })
      }
      case 'delete':
      case 'unlink': {
        const place = this.#resolve(step.path, false)
        if (place.entry === undefined) throw new Refusal('PATH_NOT_FOUND')
        if (place.entry.kind === 'directory') throw new Refusal('IS_A_DIRECTORY')
        if (step.guard !== '') this.#checkGuard(place.entry, step.guard)
        this.#entries.delete(place.path)
        return
      }
      case 'mkdir': {
        const place = this.#vacant(step.path)
        this.#entries.set(place, { kind: 'directory', mode: step.mode ?? 0o755, xattrs: noXattrs })
        return
      }
      case 'symlink': {
        const place = this.#vacant(step.path)
        this.#entries.set(place, { kind: 'symlink', target: step.target })
        return
      }
      case 'rmdir': {
        const place = this.#resolve(step.path, false)
        if (place.entry === undefined) throw new Refusal('PATH_NOT_FOUND')
        if (place.entry.kind !== 'directory') throw new Refusal('NOT_A_DIRECTORY')
        if (place.path === '/') throw new Refusal('INVALID_ARGUMENT')
        this.#requireEmpty(place.path)
        this.#entries.delete(place.path)
        return
      }
      case 'rm': {
        const { path, entry } = this.#resolve(step.path, false)
        if (entry === undefined) throw new Refusal('PATH_NOT_FOUND')
        if (path === '/') throw new Refusal('INVALID_ARGUMENT')
        for (const other of this.paths())
          if (other === path || other.startsWith(`${path}/`)) this.#entries.delete(other)
        return
      }
      case 'chmod': {
        const place = this.#resolve(step.path, true)
        if (place.entry === undefined) throw new Refusal('PATH_NOT_FOUND')
        return this.#change(place.path, { ...place.entry, mode: step.mode } as Entry)
      }
      case 'link':
        return this.#link(step.from, step.to)
      case 'setXattr':
      case 'removeXattr': {
        const { path, entry } = this.#resolve(step.path, true)
        if (entry === undefined || entry.kind === 'symlink') throw new Refusal('PATH_NOT_FOUND')
        const xattrs = new Map(entry.xattrs)
        if (step.op === 'setXattr') xattrs.set(step.name, step.value)
        else if (!xattrs.delete(step.name)) throw new Refusal('XATTR_NOT_FOUND')
        return this.#change(path, { ...entry, xattrs })
      }
      case 'rename':
        return this.#rename(step.from, step.to)
      case 'batch': {
        const before = new Map(this.#entries)
        try {
          for (const part of step.steps) this.apply(part)
        } catch (refusal) {
          this.#entries = before
          throw refusal
        }
      }
    }
  }

  /** The hash that a guard on the path must name; undefined if there is no file. */
  hashAt(path: string): string | undefined {
    try {
      const { entry } = this.#resolve(path, true)
      return entry?.kind === 'file' ? entry.content.hash : undefined
    } catch {
      return undefined
    }
  }

  /** Every path but the root in manifest order, which compares the UTF-8 bytes of each name. */
  inOrder(): [path: string, entry: Entry][] {
    const found: [string, Entry][] = []
    const children = this.#children()
    const walk = (parent: string): void => {
      for (const path of children.get(parent) ?? []) {
        found.push([path, this.#entries.get(path)!])
        walk(path)
      }
    }
    walk('/')
    return found
  }

  /** The changes from this tree to another one. */
  diff(after: ModelTree): ModelChange[] {
    const changes: ModelChange[] = []
    const [left, right] = [this.#children(), after.#children()]
    const whole = (
      tree: ModelTree,
      children: Map<string, string[]>,
      path: string,
      change: 'added' | 'removed',
    ): void => {
      changes.push({ path, change, kind: tree.#entries.get(path)!.kind })
      for (const child of children.get(path) ?? []) whole(tree, children, child, change)
    }
    const compare = (parent: string): void => {
      const paths = new Set([...(left.get(parent) ?? []), ...(right.get(parent) ?? [])])
      for (const path of [...paths].sort(compareBytes)) {
        const [a, b] = [this.#entries.get(path), after.#entries.get(path)]
        if (a !== undefined && a.kind === b?.kind) {
          if (!sameEntry(a, b)) changes.push({ path, change: 'modified', kind: b.kind })
          if (a.kind === 'directory') compare(path)
          continue
        }
        if (a !== undefined) whole(this, left, path, 'removed')
        if (b !== undefined) whole(after, right, path, 'added')
      }
    }
    const [root, otherRoot] = [this.#entries.get('/')!, after.#entries.get('/')!]
    if (!sameEntry(root, otherRoot)) changes.push({ path: '/', change: 'modified', kind: 'directory' })
    compare('/')
    return changes
  }

  #children(): Map<string, string[]> {
    const children = new Map<string, string[]>()
    for (const path of this.paths()) {
      const parent = parentOf(path)
      const siblings = children.get(parent)
      if (siblings === undefined) children.set(parent, [path])
      else siblings.push(path)
    }
    for (const siblings of children.values()) siblings.sort(compareBytes)
    return children
  }

  /** Sets the entry at a path, and at every other name of the same file. */
  #change(path: string, entry: Entry): void {
    for (const name of this.namesOf(path)) this.#entries.set(name, entry)
  }

  #link(fromPath: string, toPath: string): void {
    parse(fromPath)
    parse(toPath)
    const { path, entry } = this.#resolve(fromPath, false)
    if (entry === undefined) throw new Refusal('PATH_NOT_FOUND')
    const to = this.#vacant(toPath)
    if (entry.kind === 'directory') throw new Refusal('NOT_PERMITTED')
    if (entry.kind === 'symlink') {
      this.#entries.set(to, entry)
      return
    }
    const linked = { ...entry, link: entry.link ?? ++links }
    this.#change(path, linked)
    this.#entries.set(to, linked)
  }

  #write(step: Omit<WriteStep, 'op'> & { op: 'write' }): void {
    const place = this.#resolve(step.path, true)
    this.#checkGuard(place.entry, step.guard)
    if (place.entry?.kind === 'directory') throw new Refusal('IS_A_DIRECTORY')
    const content = new Content(contentOf(step.content))
    if (place.entry?.kind === 'file')
      return this.#change(place.path, { ...place.entry, content, mode: step.mode ?? place.entry.mode })
    for (const parent of place.missing)
      this.#entries.set(parent, { kind: 'directory', mode: 0o755, xattrs: noXattrs })
    this.#entries.set(place.path, { kind: 'file', mode: step.mode ?? 0o644, content, xattrs: noXattrs })
  }

  #rename(fromPath: string, toPath: string): void {
    parse(fromPath)
    parse(toPath)
    const from = this.#resolve(fromPath, false)
    if (from.missing.length > 0) throw new Refusal('PATH_NOT_FOUND')
    const to = this.#resolve(toPath, false)
    if (from.entry === undefined) throw new Refusal('PATH_NOT_FOUND')
    if (from.path === '/') throw new Refusal('INVALID_ARGUMENT')
    if (to.missing.length > 0) throw new Refusal('PATH_NOT_FOUND')
    if (from.path === to.path) return
    const [a, b] = [from.entry, to.entry]
    if (a.kind === 'file' && b?.kind === 'file' && a.link !== undefined && a.link === b.link) return
    const isDirectory = from.entry.kind === 'directory'
    if (isDirectory && to.path.startsWith(`${from.path}/`)) throw new Refusal('INVALID_ARGUMENT')
    if (to.path === '/' || from.path.startsWith(`${to.path}/`)) throw new Refusal('DIRECTORY_NOT_EMPTY')
    if (isDirectory && to.entry !== undefined) {
      if (to.entry.kind !== 'directory') throw new Refusal('NOT_A_DIRECTORY')
      this.#requireEmpty(to.path)
    } else if (to.entry?.kind === 'directory') throw new Refusal('IS_A_DIRECTORY')
    this.#entries.delete(to.path)
    for (const [path, entry] of Array.from(this.#entries)) {
      if (path !== from.path && !path.startsWith(`${from.path}/`)) continue
      this.#entries.delete(path)
      this.#entries.set(to.path + path.slice(from.path.length), entry)
    }
  }

  /** Requires that a path is free and that its parent directory exists. */
  #vacant(path: string): string {
    const place = this.#resolve(path, false)
    if (place.entry !== undefined) throw new Refusal('ALREADY_EXISTS')
    if (place.missing.length > 0) throw new Refusal('PATH_NOT_FOUND')
    return place.path
  }

  #requireEmpty(path: string): void {
    const below = path === '/' ? '/' : `${path}/`
    for (const other of this.#entries.keys()) {
      if (other !== path && other.startsWith(below)) throw new Refusal('DIRECTORY_NOT_EMPTY')
    }
  }

  #checkGuard(entry: Entry | undefined, guard: string | undefined): void {
    if (guard === undefined) return
    const actual = entry === undefined ? '' : entry.kind === 'file' ? entry.content.hash : undefined
    if (actual !== guard) throw new Refusal('HASH_MISMATCH')
  }

  /** Names from symlinks are validated like those of the caller. */
  #resolve(path: string, followLast: boolean): Place {
    const place = this.#follow(path, followLast)
    parse(place.path)
    return place
  }

  #follow(path: string, followLast: boolean): Place {
    const todo = parse(path)
    const done: string[] = []
    let hops = 0
    while (todo.length > 0) {
      const name = todo.shift()!
      if (name === '' || name === '.') continue
      if (name === '..') {
        done.pop()
        continue
      }
      const here = `/${[...done, name].join('/')}`
      const entry = this.#entries.get(here)
      const last = todo.length === 0
      if (entry?.kind === 'symlink' && (!last || followLast)) {
        if (++hops > limits.symlinkHops) throw new Refusal('SYMLINK_LOOP')
        if (entry.target.startsWith('/')) done.length = 0
        todo.unshift(...entry.target.split('/'))
        continue
      }
      if (last) return { path: here, entry, missing: [] }
      if (entry === undefined) return this.#belowMissing(done, [name, ...todo])
      if (entry.kind !== 'directory') throw new Refusal('NOT_A_DIRECTORY')
      done.push(name)
    }
    const end = `/${done.join('/')}`
    return { path: end, entry: this.#entries.get(end), missing: [] }
  }

  #belowMissing(done: readonly string[], rest: readonly string[]): Place {
    const names = rest.filter((part) => part !== '' && part !== '.')
    if (['', '.'].includes(rest.at(-1)!)) throw new Refusal('PATH_NOT_FOUND')
    if (names.includes('..')) throw new Refusal('PATH_NOT_FOUND')
    const all = [...done, ...names]
    const missing: string[] = []
    for (let depth = done.length + 1; depth < all.length; depth++)
      missing.push(`/${all.slice(0, depth).join('/')}`)
    return { path: `/${all.join('/')}`, entry: undefined, missing }
  }
}

function parse(path: string): string[] {
  if (!path.startsWith('/') || !path.isWellFormed()) throw new Refusal('INVALID_ARGUMENT')
  if (Buffer.byteLength(path) > limits.pathBytes) throw new Refusal('NAME_TOO_LONG')
  if (path === '/') return []
  const names = path.slice(1).split('/')
  if (names.length > limits.pathDepth) throw new Refusal('NAME_TOO_LONG')
  for (const name of names) {
    if (name === '' || name === '.' || name === '..' || name.includes('\0'))
      throw new Refusal('INVALID_ARGUMENT')
    if (Buffer.byteLength(name) > limits.nameBytes) throw new Refusal('NAME_TOO_LONG')
  }
  return names
}

function sameEntry(a: Entry, b: Entry): boolean {
  if (a.kind === 'symlink') return b.kind === 'symlink' && a.target === b.target
  if (b.kind === 'symlink' || a.mode !== b.mode || a.xattrs.size !== b.xattrs.size) return false
  for (const [name, value] of a.xattrs) if (b.xattrs.get(name) !== value) return false
  if (a.kind === 'directory' || b.kind === 'directory') return a.kind === b.kind
  return a.content === b.content || a.content.bytes.equals(b.content.bytes)
}

export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/'
}

export function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
