import { StagedCall, type StagedBlobs } from '../cas/staging.js'
import type { LiveSession } from '../session/table/live.js'
import type { Plan } from '../session/edits/plan.js'
import { resolve } from '../session/reads/resolve.js'
import { planAppend, planWrite, planWriteAt, type WriteOptions } from '../session/edits/writes.js'
import { FileNode } from '../tree/node.js'
import { throwIfAborted } from './argument-errors.js'
import { checkBoolean, toMode } from './values.js'
import { decodeBytes, toBytes, toNumber, toOptions, type Options } from './arguments.js'
import { givenPath, plainPath, slashed } from './resolve-path.js'
import {
  changeWith,
  checkReadable,
  Content,
  locate,
  nothing,
  read,
  type Call,
  type Context,
  type Define,
} from './calls.js'
import { readRest, writeHere } from './descriptor-calls.js'
import { systemError } from './errors.js'
import { toFlags, type Flags } from './flags.js'
import { openedAt, planOpen, refuseFileName, usesOf } from './open-calls.js'

interface ReadOptions extends Options {
  readonly flag?: string | number
}

const readNames = ['flag'] as const

export const readFile: Define<Buffer | string> = (context, path, options) => {
  const { encoding, flag, signal } = readOptions(context, options)
  if (typeof path === 'number' && context.form !== 'promise')
    return readRest(context, toNumber(path), encoding, signal)
  const given = givenPath(path)
  const content = new Content()
  const names = { syscall: 'open', path: given }
  if (flag === undefined || flag === 'r') {
    return read(names, (live) => {
      throwIfAborted(signal)
      if (content.ready !== undefined) return decodeBytes(content.ready, encoding)
      const { node } = resolve(live.tree, locate(live, given), true)
      if (node === undefined) openedAt(live, given, toFlags(flag))
      return decodeBytes(readWhole(context, content, node), encoding)
    })
  }
  const flags = toFlags(flag)
  let bytes: Buffer
  const call = changeWith(
    names,
    (live) => {
      throwIfAborted(signal)
      const at = openedAt(live, given, flags)
      const empty = at.node === undefined || flags.truncate
      if (flags.read)
        bytes = empty ? Buffer.alloc(0) : (content.ready ?? readWhole(context, content, at.node))
      return planOpen(context, live, at.path, { at, flags, mode: 0o644 })
    },
    () => {
      if (!flags.read) throw systemError('EBADF', { syscall: 'read' })
      return decodeBytes(bytes, encoding)
    },
  )
  return { needs: usesOf(flags), ...call }
}

/** Reads the rest of an open file, given its number. */
export const readOpened: Define<Buffer | string> = (context, number, options) => {
  const { encoding, signal } = readOptions(context, options)
  return readRest(context, number as number, encoding, signal)
}

function readOptions({ form }: Context, options: unknown): ReadOptions {
  const { signal, ...settings } = toOptions<ReadOptions>(options, readNames)
  // As in Node, a signal does not abort a synchronous call.
  return form === 'sync' || signal === undefined ? settings : { signal, ...settings }
}

/** Node opens a directory, then fails when it reads. So the error has no path. */
function readWhole(context: Context, content: Content, node: unknown): Buffer {
  if (!(node instanceof FileNode)) throw systemError('EISDIR', { syscall: 'read' })
  checkReadable(node.size)
  return content.read(context, node, 0, node.size)
}

interface WriteFileOptions extends Options {
  readonly mode?: number | string
  readonly flag?: string | number
  readonly flush?: boolean
}

const plain: WriteFileOptions = {}
const required: WriteOptions = { parents: 'require' }
const requiredNew: WriteOptions = { parents: 'require', exclusive: true }

export const writeFile: Define<void> = (context, path, data, options) =>
  writeWhole(context, path, data, options, 'w')

export const appendFile: Define<void> = (context, path, data, options) =>
  writeWhole(context, path, data, options, 'a')

function writeWhole(
  context: Context,
  path: unknown,
  data: unknown,
  options: unknown,
  defaultFlag: string,
): Call<void> {
  const { encoding, signal, flag, mode: givenMode } = toWriteOptions(context, options)
  const bytes = toBytes(data, encoding)
  if (typeof path === 'number' && context.form !== 'promise')
    return writeHere(context, toNumber(path), bytes, signal)
  const given = givenPath(path)
  const flags = toFlags(flag || defaultFlag)
  const mode = givenMode === undefined ? undefined : toMode(givenMode, 0o644)
  const staged = new StagedCall(bytes, context.core, { mayWait: context.form !== 'sync' })
  return changeWith(
    { syscall: 'open', path: given },
    (live) => {
      throwIfAborted(signal)
      return planWhole(context, live, given, { flags, mode, staged })
    },
    flags.write ? nothing : refuseWrite,
  )
}

/** Writes to an open file, given its number, from the current position. */
export const writeOpened: Define<void> = (context, number, data, options) => {
  const { encoding, signal } = toWriteOptions(context, options)
  return writeHere(context, number as number, toBytes(data, encoding), signal)
}

const writeNames = ['flag', 'flush', 'mode'] as const

export function toWriteOptions({ form }: Context, options: unknown): WriteFileOptions {
  if (options === undefined) return plain
  const { signal, ...settings } = toOptions<WriteFileOptions>(options, writeNames)
  const { flush } = settings
  if (flush !== undefined && flush !== null) checkBoolean('options.flush', flush)
  return form === 'sync' || signal === undefined ? settings : { signal, ...settings }
}

function planWhole(
  context: Context,
  live: LiveSession,
  given: string,
  { flags, mode, staged }: { flags: Flags; mode: number | undefined; staged: StagedBlobs },
): Plan {
  if (
    !flags.write ||
    !flags.create ||
    flags.directory ||
    flags.noFollow ||
    !(flags.truncate || flags.append)
  ) {
    return planOver(context, live, given, { flags, mode, staged })
  }
  const { core } = context
  const name = plainPath(given)
  if (slashed(given)) refuseFileName(live, name)
  // As for open(2), the mode applies only to a new file.
  const looks = !flags.exclusive && (mode !== undefined || flags.append)
  const existing = looks ? resolve(live.tree, name, true).node : undefined
  const creates = mode !== undefined && existing === undefined
  const request = creates ? { path: name, content: '', mode } : { path: name, content: '' }
  if (flags.append && !flags.exclusive && !flags.truncate) {
    // As on Linux, writing no bytes is no change.
    if (staged.size === 0 && existing instanceof FileNode) return undefined
    return planAppend(core, live, request, staged, required)
  }
  return planWrite(core, live, request, staged, flags.exclusive ? requiredNew : required)
}

/** Handles flags that overwrite the start of a file, or write nothing. */
function planOver(
  context: Context,
  live: LiveSession,
  given: string,
  { flags, mode = 0o644, staged }: { flags: Flags; mode: number | undefined; staged: StagedBlobs },
): Plan {
  const at = openedAt(live, given, flags)
  if (!flags.write) return planOpen(context, live, at.path, { at, flags, mode })
  const { path } = at
  if (at.node === undefined || flags.truncate)
    return planWrite(context.core, live, { path, ...(at.node === undefined && { mode }) }, staged, required)
  if (staged.size === 0) return undefined
  return planWriteAt(context.core, live, { path }, { position: flags.append ? 'end' : 0, staged })
}

function refuseWrite(): never {
  throw systemError('EBADF', { syscall: 'write' })
}
