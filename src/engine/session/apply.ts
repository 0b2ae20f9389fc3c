import { assert } from '../base/errors.js'
import { parsePath } from '../base/path.js'
import { decodeBlob, type BlobRef, type EncodedBlob } from '../cas/blob.js'
import { normalize, splice, truncate, type LoadedBody } from '../cas/body.js'
import type { ContentIds } from '../tree/content-id.js'
import { Dir, FileNode, Symlink, type Attributes } from '../tree/node.js'
import type { Tree } from '../tree/tree.js'
import type { Redo } from './events.js'

/** What applying needs beside the tree: bodies of files that are not loaded. */
export interface ApplyContext {
  readonly contentIds: ContentIds
}

/**
 * The only mutator of a tree, for live operations and replay alike. Deterministic and without policy: it
 * follows no symlink, knows no default, guard or limit. Restores are the caller's, who has the old roots.
 */
export function apply(
  tree: Tree,
  redo: Exclude<Redo, readonly ['R', number]>,
  at: number,
  context: ApplyContext,
): void {
  const names = parsePath(redo[1])
  switch (redo[0]) {
    case 'w': {
      const blob = blobOf(redo[4])
      const attributes = { ino: redo[3], mode: redo[2], mtime: at, ctime: at, birthtime: at }
      return tree.put(names, new FileNode(attributes, blob?.length ?? 0, blob), at)
    }
    case 'o': {
      const file = fileAt(tree, redo[1])
      const blob = blobOf(redo[2])
      return tree.put(names, new FileNode(changed(file, at), blob?.length ?? 0, blob), at)
    }
    case 'p': {
      const file = fileAt(tree, redo[1])
      const size = redo[2]
      let body: LoadedBody = context.contentIds.body(file)
      if (size < file.size) body = truncate(body, size)
      for (const [offset, length, blob, casOffset] of redo[3]) {
        body = splice(body, { offset, length, blob: blobOf(blob), casOffset })
      }
      return tree.put(names, new FileNode(changed(file, at), size, normalize(body, size)), at)
    }
    case 'c': {
      const node = tree.find(names)
      if (node instanceof Dir) return tree.changeDir(names, { mode: redo[2], ctime: at })
      assert(node instanceof FileNode, 'a mode is set on a file or directory')
      const { ino, mtime, birthtime } = node
      const copy = new FileNode({ ino, mode: redo[2], mtime, ctime: at, birthtime }, node.size, node.body)
      copy.hash = node.hash
      copy.contentId = node.contentId
      return tree.put(names, copy, at)
    }
    case 'd':
      return tree.makeDir(names, { ino: redo[3], mode: redo[2], mtime: at, ctime: at, birthtime: at })
    case 's':
      return tree.put(names, new Symlink(redo[3], redo[2], at), at)
    case 'u':
      return void tree.remove(names, at)
    case 'm':
      return tree.move(names, parsePath(redo[2]), at)
  }
}

function blobOf(encoded: BlobRef | EncodedBlob | 0): BlobRef | undefined {
  return encoded === 0 ? undefined : decodeBlob(encoded)
}

function fileAt(tree: Tree, path: string): FileNode {
  const node = tree.find(parsePath(path))
  assert(node instanceof FileNode, 'an event changes the content of a file')
  return node
}

function changed(file: FileNode, at: number): Attributes {
  return { ino: file.ino, mode: file.mode, mtime: at, ctime: at, birthtime: file.birthtime }
}
