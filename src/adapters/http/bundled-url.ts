import { EngineError } from '../../engine/index.js'

/**
 * Returns the URL of a module that reads files next to it.
 *
 * @throws {EngineError} INTERNAL when the module is in a CommonJS bundle that does not define `import.meta.url`
 */
export function bundledUrl(url: string | undefined): string {
  if (url !== undefined) return url
  const message =
    'the bundle does not define import.meta.url, by which it finds its files: define it as "esbuild" in docs/bundling.md shows'
  throw new EngineError('INTERNAL', message)
}
