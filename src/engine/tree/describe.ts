import { FileNode, kindOf, LinkedFile, Symlink, type Node, type NodeKind } from './node.js'

/** A node without its content. Times are milliseconds since the epoch, with fractions. */
export interface NodeDescription {
  readonly kind: NodeKind
  /** Of a symlink the bytes of its target; 0 for a directory. */
  readonly sizeBytes: number
  /** Permission bits. */
  readonly mode: number
  /** Stable through renames, forks and restores. */
  readonly inode: number
  /** How many names a file has; 1 for everything else. */
  readonly nlink: number
  readonly mtimeMs: number
  readonly ctimeMs: number
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
