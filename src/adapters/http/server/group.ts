import { inGroup } from '../../../engine/contract.js'
import type { EngineScope } from '../../../engine/index.js'
import { invalidField } from '../http-error.js'
import type { HttpRequest } from './http-messages.js'

/** Names the group of the changes that a request makes. Its value is percent-encoded UTF-8. */
export const groupHeader = 'forkspace-group'

/** The scope of a request, in the group that its header names. */
export function scopeInGroup(httpRequest: HttpRequest, scope: EngineScope): EngineScope {
  const encoded = httpRequest.header(groupHeader)
  return encoded === undefined ? scope : inGroup(scope, decoded(encoded))
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalidField(groupHeader, 'the header must be percent-encoded UTF-8, such as turn%207')
  }
}
