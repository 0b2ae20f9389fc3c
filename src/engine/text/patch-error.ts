import { EngineError } from '../base/errors.js'

/** The error INVALID_PATCH. */
export function invalidPatch(message: string, details: Readonly<Record<string, string>> = {}): EngineError {
  return new EngineError('INVALID_PATCH', `patch: ${message}`, { field: 'patch', ...details })
}
