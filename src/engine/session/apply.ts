import { assert } from '../base/errors.js'
import { parsePath, type PathNames } from '../base/path.js'
import { decodeBlob, type BlobRef, type EncodedBlob } from '../cas/blob.js'
import { layOver, normalize, truncate, type Piece } from '../cas/body-edit.js'
import type { ContentIds } from '../tree/content-id.js'
import { attributesOf, Dir, FileNode, Symlink, type Attributes } from '../tree/node.js'
import type { Tree } from '../tree/tree.js'
import { withXattr } from '../tree/xattrs.js'
import type { FileTarget, Redo, RedoPiece } from '../records/event.js'

/** The inputs of `apply` in addition to the tree. They load the bodies of files. */
export interface ApplyContext {
  readonly contentIds: ContentIds
}

/**
 * Applies one effect to the tree of a session. It is the only code that edits such a tree, both in live
 * operations and in replay. It is deterministic and makes no decisions: it follows no symlinks and has no
 * defaults, guards or limits. The caller handles restores, because it has the earlier roots.
 */
export function apply(
  tree: Tree,
  redo: Exclude<Redo, readonly ['R', number]>,
  at: number,
  context: ApplyContext,
): void {
  switch (redo[0]) {
    case 'w': {
      const blob = blobOf(redo[4])
      const attributes = { ino: redo[3], mode: redo[2], mtime: at, ctime: at, birthtime: at }
      return tree.put(parsePath(redo[1]), new FileNode(attributes, blob?.length ?? 0, blob), at)
    }
    case 'o': {
      const blob = blobOf(redo[2])
      const file = fileAt(tree, redo[1])
      return replace(tree, redo[1], new FileNode(changed(file, at), blob?.length ?? 0, blob), at)
    }
    case 'p':
      return replace(tree, redo[1], patched(fileAt(tree, redo[1]), redo, at, context), at)
    case 'k': {
      const [from, to] = [fileAt(tree, redo[1]), fileAt(tree, redo[2])]
      return replace(tree, redo[2], from.with(changed(to, at)), at)
    }
    case 'c':
      return change(tree, redo[1], { mode: redo[2], ctime: at }, at)
    case 't':
      return change(tree, redo[1], { mtime: redo[2], ctime: at }, at)
    case 'x': {
      const names = parsePath(redo[1])
      const node = tree.find(names)
      assert(node instanceof FileNode || node instanceof Dir, 'an attribute is set on a file or directory')
      const value = redo[3] === 0 ? undefined : blobOf(redo[3])
      return change(tree, redo[1], { xattrs: withXattr(node.xattrs, redo[2], value), ctime: at }, at)
    }
    case 'd': {
      const attributes = { ino: redo[3], mode: redo[2], mtime: at, ctime: at, birthtime: at }
      return tree.makeDir(parsePath(redo[1]), attributes)
    }
    case 's':
      return tree.put(parsePath(redo[1]), new Symlink(redo[3], redo[2], at), at)
    case 'h':
      return tree.link(parsePath(redo[1]), parsePath(redo[2]), at)
    case 'u':
      return tree.remove(parsePath(redo[1]), at)
    case 'm':
      return tree.move(parsePath(redo[1]), parsePath(redo[2]), at)
  }
}

/** The file after pieces were written over its content. */
export function patched(
  file: FileNode,
  [, , size, pieces]: readonly ['p', FileTarget, number, readonly RedoPiece[]],
  at: number,
  context: ApplyContext,
): FileNode {
  const before = context.contentIds.body(file)
  const cut = size < file.size ? truncate(before, size) : before
  const body = layOver(cut, pieces.map(pieceOf))
  return new FileNode(changed(file, at), size, normalize(body, size))
}

function change(
  tree: Tree,
  target: FileTarget,
  attributes: Partial<Omit<Attributes, 'ino' | 'birthtime'>>,
  at: number,
): void {
  const names = namesOf(target)
  const node = names === undefined ? fileAt(tree, target) : tree.find(names)
  if (names !== undefined && node instanceof Dir) return tree.changeDir(names, attributes)
  if (node instanceof FileNode)
    return replace(tree, target, node.with({ ...attributesOf(node), ...attributes }), at)
  assert(
    names !== undefined && node instanceof Symlink && attributes.mtime !== undefined,
    'a symbolic link has no attribute other than its time',
  )
  return tree.put(names, new Symlink(node.ino, node.target, attributes.mtime), at)
}

function replace(tree: Tree, target: FileTarget, file: FileNode, at: number): void {
  tree.replace(namesOf(target) ?? [], file, at)
}

function fileAt(tree: Tree, target: FileTarget): FileNode {
  const names = namesOf(target)
  const node = names === undefined ? tree.findLinked(target as number) : tree.find(names)
  assert(node instanceof FileNode, 'an event changes the content of a file')
  return node
}

function namesOf(target: FileTarget): PathNames | undefined {
  return typeof target === 'number' ? undefined : parsePath(target)
}

/** The piece of a file that an effect describes. */
export function pieceOf([offset, length, blob, casOffset]: RedoPiece): Piece {
  return { offset, length, blob: blobOf(blob), casOffset }
}

function blobOf(encoded: BlobRef | EncodedBlob | 0): BlobRef | undefined {
  return encoded === 0 ? undefined : decodeBlob(encoded)
}

function changed(file: FileNode, at: number): Attributes {
  const { ino, mode, birthtime, xattrs } = file
  return { ino, mode, mtime: at, ctime: at, birthtime, xattrs }
}
