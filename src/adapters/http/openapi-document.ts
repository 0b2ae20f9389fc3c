import { readFileSync } from 'node:fs'
import { EngineError } from '../../engine/index.js'

let text: string | undefined

/**
 * The machine-readable contract, as OpenAPI 3.1, of a handler that is mounted below a prefix: a fresh copy of
 * `forkspace/openapi.json` with its server.
 *
 * @throws INTERNAL in a bundle without the file; docs/bundling.md says where it has to be
 */
export function openApiDocument(prefix = ''): object {
  text ??= readContract()
  return { ...(JSON.parse(text) as object), servers: [{ url: prefix === '' ? '/' : prefix }] }
}

function readContract(): string {
  try {
    return readFileSync(new URL('openapi.json', import.meta.url), 'utf8')
  } catch (cause) {
    const message =
      'openapi.json is missing beside the program: copy forkspace/openapi.json next to the bundle'
    throw new EngineError('INTERNAL', message, {}, { cause })
  }
}
