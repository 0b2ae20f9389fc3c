import { Blob, type Buffer } from 'node:buffer'
import { encodeName, toOptions } from './arguments.js'
import { typeError } from './argument-errors.js'
import { mkdtemp, rm } from './change-calls.js'
import type { Context } from './calls.js'
import { runLater, runNow } from './drivers.js'
import { readFile } from './file-calls.js'
import { toObject } from './values.js'

/** A temporary directory. `remove` deletes it with all its entries; a second call does nothing. */
interface Disposable<R> {
  readonly path: string | Buffer
  readonly remove: () => R
}

const everything = { recursive: true, force: true }

/** Creates a directory, and returns it with a method that removes it. */
export function mkdtempDisposableSync(context: Context, prefix: unknown, options: unknown): Disposable<void> {
  const { encoding } = toOptions(options)
  const path = runNow(context, mkdtemp(context, prefix)) as string
  const remove = (): void => runNow(context, rm(context, path, everything))
  return { path: encodeName(path, encoding), remove, [Symbol.dispose]: remove } as Disposable<void>
}

export async function mkdtempDisposable(
  context: Context,
  prefix: unknown,
  options: unknown,
): Promise<Disposable<Promise<void>>> {
  const { encoding } = toOptions(options)
  const path = (await runLater(context, mkdtemp(context, prefix))) as string
  const remove = async (): Promise<void> => runLater(context, rm(context, path, everything))
  return { path: encodeName(path, encoding), remove, [Symbol.asyncDispose]: remove } as Disposable<
    Promise<void>
  >
}

/** The Blob has the current content. Later changes of the file do not affect it. */
export async function openAsBlob(context: Context, path: unknown, options: unknown): Promise<Blob> {
  const type = blobType(options)
  return new Blob([await runLater(context, readFile(context, path))], { type })
}

export function openAsBlobSync(context: Context, path: unknown, options: unknown): Blob {
  const type = blobType(options)
  return new Blob([runNow(context, readFile(context, path))], { type })
}

function blobType(options: unknown): string {
  const { type = '' }: { type?: unknown } = toObject(options)
  if (typeof type !== 'string') throw typeError('options.type', 'of type string', type)
  return type
}
