import { posix } from 'node:path'
import {
  DirectoryNotEmptyError,
  DirectoryNotFoundError,
  FileExistsError,
  FileNotFoundError,
  IsDirectoryError,
  NotDirectoryError,
  PermissionError,
} from '@mastra/core/workspace'
import { EngineError } from '../../engine/ports.js'

/** What a call does, and on which path: for its errors. */
export interface Operation {
  readonly name: string
  /** The path as the caller wrote it. */
  readonly path: string
  /** What is missing if nothing exists at the path of an error. */
  readonly missing: 'file' | 'directory' | 'parent'
}

/** Runs a call. An error of the session for which Mastra has a class is of that class, with the first one as `cause`. */
export async function translated<T>(operation: Operation, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof EngineError ? translate(error, operation) : error
  }
}

function translate(error: EngineError, operation: Operation): Error {
  const translation = errorOf(error, operation)
  if (translation === undefined) return error
  translation.cause = error
  return translation
}

function errorOf({ reason }: EngineError, { name, path, missing }: Operation): Error | undefined {
  switch (reason) {
    case 'PATH_NOT_FOUND':
      if (missing === 'file') return new FileNotFoundError(path)
      return new DirectoryNotFoundError(missing === 'directory' ? path : posix.dirname(path))
    case 'ALREADY_EXISTS':
      return new FileExistsError(path)
    case 'IS_A_DIRECTORY':
      return new IsDirectoryError(path)
    case 'NOT_A_DIRECTORY':
      return new NotDirectoryError(path)
    case 'DIRECTORY_NOT_EMPTY':
      return new DirectoryNotEmptyError(path)
    case 'PERMISSION_DENIED':
      return new PermissionError(path, name)
    default:
      return undefined
  }
}

/** Whether a call failed for one of these reasons. */
export function isReason(error: unknown, ...reasons: readonly EngineError['reason'][]): error is EngineError {
  return error instanceof EngineError && reasons.includes(error.reason)
}
