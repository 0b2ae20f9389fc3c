/** Reads a tree without keeping the nodes that this loads in the tree. */
import { present } from '../base/present.js'
import { whenLoaded } from '../base/fault.js'
import { UnloadedBody, type LoadedBody } from '../cas/body.js'
import { Dir, FileNode, Page } from './node.js'
import type { NodeLoader } from './node-loader.js'

/** The pages of a directory; their names may be unloaded. */
export async function peekPages(dir: Dir, loader: NodeLoader): Promise<readonly Page[]> {
  if (dir.pages !== null) return dir.pages
  const copy = new Dir(undefined, dir, null)
  copy.address = dir.address
  return whenLoaded(() => copy.pages ?? loader.loadDir(copy))
}

/** A page with loaded names. */
export async function peekPage(page: Page, loader: NodeLoader): Promise<Page> {
  if (page.names !== null) return page
  const copy = new Page(undefined, null, [], page.last)
  copy.address = page.address
  copy.hash = page.hash
  await whenLoaded(() => copy.names ?? loader.loadPage(copy))
  return copy
}

export async function peekBody(file: FileNode, loader: NodeLoader): Promise<LoadedBody> {
  if (!(file.body instanceof UnloadedBody)) return file.body
  if (file.body.body !== null) return file.body.body
  const body = new UnloadedBody(file.body.address)
  const copy = new FileNode(file, file.size, body)
  return whenLoaded(() => {
    loader.loadBody(copy)
    return present(body.body, 'a loaded body')
  })
}
