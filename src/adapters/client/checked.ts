import { invalid } from '../../engine/wire.js'

/** What is given as a request. INVALID_ARGUMENT for what cannot be one, as in process. */
export function checked<T>(request: T, field = 'request'): T {
  if (typeof request !== 'object' || request === null || Array.isArray(request))
    throw invalid(field, 'must be an object')
  return request
}
