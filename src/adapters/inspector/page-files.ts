import { readFile } from 'node:fs/promises'
import { EngineError } from '../../engine/index.js'
import { bundledUrl } from '../http/parts.js'

/** A file of the page. */
export interface PageFile {
  readonly type: string
  readonly content: Uint8Array
}

/** The names of the files of the page, by their paths, with their types. */
const files: Readonly<Record<string, { readonly name: string; readonly type: string }>> = {
  '/': { name: 'index.html', type: 'text/html; charset=utf-8' },
  '/icon.svg': { name: 'icon.svg', type: 'image/svg+xml' },
  '/page.js': { name: 'page.js', type: 'text/javascript; charset=utf-8' },
  '/page.css': { name: 'page.css', type: 'text/css; charset=utf-8' },
}

const read = new Map<string, Promise<Uint8Array>>()

/**
 * A file of the page. `npm run build` writes them into `page/`, next to this module.
 *
 * @throws EngineError `INTERNAL` if a bundle lacks the files; docs/bundling.md shows how to add them.
 */
export async function pageFile(path: string): Promise<PageFile | undefined> {
  const file = Object.hasOwn(files, path) ? files[path] : undefined
  if (file === undefined) return undefined
  const { name, type } = file
  let content = read.get(name)
  if (content === undefined) {
    content = readFile(new URL(`page/${name}`, bundledUrl(import.meta.url)))
    read.set(name, content)
  }
  try {
    return { type, content: await content }
  } catch (cause) {
    read.delete(name)
    const message = `the page of the inspector is missing next to the program: copy dist/adapters/inspector/page`
    throw new EngineError('INTERNAL', message, {}, { cause })
  }
}
