import { EngineError } from '../../engine/ports.js'
import { archiveLimits } from './limits.js'

/** Creates an INVALID_ARCHIVE error. `name` is the name of the entry in the archive. */
export function invalidArchive(message: string, name?: string, options?: ErrorOptions): EngineError {
  return new EngineError('INVALID_ARCHIVE', sentence(message, name), details(name), options)
}

export function unsafePath(message: string, name: string): EngineError {
  return new EngineError('UNSAFE_PATH', sentence(message, name), details(name))
}

export function limitExceeded(message: string, limit: number, name?: string): EngineError {
  return new EngineError('LIMIT_EXCEEDED', sentence(`${message}; the limit is ${limit}`, name), {
    limit: String(limit),
    ...details(name),
  })
}

export function truncated(name?: string): EngineError {
  return invalidArchive('the archive is incomplete', name)
}

function sentence(message: string, name: string | undefined): string {
  return name === undefined ? message : `${JSON.stringify(shown(name))}: ${message}`
}

function details(name: string | undefined): { path?: string } {
  return name === undefined ? {} : { path: shown(name) }
}

function shown(name: string): string {
  return name.slice(0, archiveLimits.shownChars).toWellFormed()
}
