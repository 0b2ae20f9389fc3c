import { readFileSync } from 'node:fs'
import { EngineError } from '../../engine/index.js'
import { bundledUrl } from './bundled-url.js'

let text: string | undefined

/**
 * Returns the OpenAPI 3.1 document of a handler that is mounted below a prefix. It is a new copy of
 * `forkspace/openapi.json` whose `servers` has the prefix.
 *
 * @throws {EngineError} INTERNAL when a bundle lacks the file `openapi.json`; docs/bundling.md shows how to
 * add it
 *
 * @example
 * const { info } = openApiDocument('/api') as { info: { version: string } }
 */
export function openApiDocument(prefix = ''): object {
  text ??= readContract()
  return { ...(JSON.parse(text) as object), servers: [{ url: prefix === '' ? '/' : prefix }] }
}

function readContract(): string {
  try {
    return readFileSync(new URL('openapi.json', bundledUrl(import.meta.url)), 'utf8')
  } catch (cause) {
    if (cause instanceof EngineError) throw cause
    const message =
      'openapi.json is missing next to the program: copy forkspace/openapi.json next to the bundle'
    throw new EngineError('INTERNAL', message, {}, { cause })
  }
}
