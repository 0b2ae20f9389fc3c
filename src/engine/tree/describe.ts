import { FileNode, kindOf, LinkedFile, Symlink, type Node, type NodeKind } from './node.js'

/** A node without its content. Times are milliseconds since the epoch, with fractions. */
export interface NodeDescription {
  /** `'file'`, `'directory'` or `'symlink'`. */
  readonly kind: NodeKind
  /** The size of a file, or of the target of a symlink, in bytes. It is 0 for a directory. */
  readonly sizeBytes: number
  /** Permission bits, 0 to 0o7777. A symlink always has 0o777. */
  readonly mode: number
  /** Stable through renames, forks and restores. */
  readonly inode: number
  /** The number of names of a file; 1 for everything else. */
  readonly nlink: number
  /** The last change of the content, in milliseconds since 1970, with fractions. */
  readonly mtimeMs: number
  /** The last change of the content or the attributes, in milliseconds since 1970, with fractions. */
  readonly ctimeMs: number
  /** The creation, in milliseconds since 1970, with fractions. */
  readonly birthtimeMs: number
}

export function describeNode(node: Node): NodeDescription {
  const { ino: inode, mtime: mtimeMs } = node
  const kind = kindOf(node)
  if (node instanceof Symlink) {
    const sizeBytes = new TextEncoder().encode(node.target).length
    return { kind, sizeBytes, mode: 0o777, inode, nlink: 1, mtimeMs, ctimeMs: mtimeMs, birthtimeMs: mtimeMs }
  }
  return {
    kind,
    sizeBytes: node instanceof FileNode ? node.size : 0,
    mode: node.mode,
    inode,
    nlink: node instanceof LinkedFile ? node.nlink : 1,
    mtimeMs,
    ctimeMs: node.ctime,
    birthtimeMs: node.birthtime,
  }
}
