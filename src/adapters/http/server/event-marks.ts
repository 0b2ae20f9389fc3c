import { withMarks } from '../../../engine/contract.js'
import type { EngineScope, JsonObject } from '../../../engine/index.js'
import { invalidField } from '../http-error.js'
import type { HttpRequest } from './http-messages.js'

/** Names the group of the changes that a request makes. Its value is percent-encoded UTF-8. */
const groupHeader = 'forkspace-group'

/** The metadata of the events that a request causes. Its value is an object of JSON, as percent-encoded UTF-8. */
const metadataHeader = 'forkspace-metadata'

export const markHeaders = [groupHeader, metadataHeader] as const

/** The scope of a request. The events that it causes get the marks that its headers name. */
export function markedScope(httpRequest: HttpRequest, scope: EngineScope): EngineScope {
  const group = httpRequest.header(groupHeader)
  const metadata = httpRequest.header(metadataHeader)
  if (group === undefined && metadata === undefined) return scope
  return withMarks(scope, {
    ...(group !== undefined && { group: decoded(groupHeader, group, 'turn%207') }),
    ...(metadata !== undefined && { metadata: parsed(metadata) }),
  })
}

function parsed(encoded: string): JsonObject {
  const example = '%7B%22callId%22%3A%22call_7%22%7D'
  const text = decoded(metadataHeader, encoded, example)
  try {
    return JSON.parse(text) as JsonObject
  } catch {
    throw invalidField(metadataHeader, `the header must be percent-encoded JSON, such as ${example}`)
  }
}

function decoded(header: string, encoded: string, example: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    throw invalidField(header, `the header must be percent-encoded UTF-8, such as ${example}`)
  }
}
