import { Buffer } from 'node:buffer'
import { whenLoaded } from '../../base/fault.js'
import { Symlink, type FileNode } from '../../tree/node.js'
import type { Core } from '../core.js'

/** All bytes of a file, or the target of a symlink. The caller has checked the size. */
export async function readWhole(core: Core, node: FileNode | Symlink): Promise<Uint8Array> {
  if (node instanceof Symlink) return Buffer.from(node.target)
  const body = await whenLoaded(() => core.contentIds.body(node))
  return core.content.read(body, 0, node.size)
}
