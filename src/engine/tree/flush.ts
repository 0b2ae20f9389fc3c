import { present } from '../base/present.js'
import { sha256 } from '../base/hash.js'
import type { Steps } from '../base/cooperative.js'
import { encodeContent, encodePage, type Put } from './codec.js'
import type { Body } from '../cas/body.js'
import { Dir, type FileNode, type Page } from './node.js'

/** Hex digits of a node's address: 160 bits of the SHA-256 of its JSON. */
const addressLength = 40

/** Receives the flushed nodes. */
export interface FlushSink {
  readonly write: (address: string, json: string) => void
  /** Nodes that got an address. */
  readonly addressed: Flushed[]
  /** Files whose blocks got an address. */
  readonly files: FlushedFile[]
}

/** A node that got an address, and the length of its JSON. */
export interface Flushed {
  readonly node: Dir | Page
  readonly length: number
}

/** A file whose blocks got an address, and the length of their JSON. */
export interface FlushedFile {
  readonly file: FileNode
  readonly body: Body
  readonly address: string
  readonly length: number
}

/**
 * Gives every node of a frozen tree an address, children first, and passes the JSON of the new nodes to
 * `write`. It skips nodes that already have an address, so the cost is that of the changes since the last
 * flush.
 */
export function* flushTree(root: Dir, sink: FlushSink): Steps<void> {
  if (root.address !== undefined) return
  let complete = false
  try {
    if (root.links !== undefined && root.links.address === undefined) yield* addressNodes(root.links, sink)
    yield* addressNodes(root, sink)
    complete = true
  } finally {
    // An address means that the node has been handed over. A flush that stops halfway hands over nothing.
    if (!complete) for (const { node } of sink.addressed) node.address = undefined
  }
}

function* addressNodes(root: Dir, { write, addressed, files }: FlushSink): Steps<void> {
  const put: Put = (json, file) => {
    const address = sha256(json).slice(0, addressLength)
    write(address, json)
    if (file !== undefined) files.push({ file, body: file.body, address, length: json.length })
    return address
  }
  // Not recursive, because a tree may be as deep as paths allow.
  const stack: { dir: Dir; dirty: Dir[] }[] = [{ dir: root, dirty: dirtyChildren(root) }]
  for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
    const child = top.dirty.pop()
    if (child !== undefined) {
      if (child.address === undefined) stack.push({ dir: child, dirty: dirtyChildren(child) })
      continue
    }
    const pages = present(top.dir.pages, 'a changed directory')
    if (pages.length > 1) {
      for (const page of pages) {
        if (page.address !== undefined) continue
        const json = JSON.stringify(encodePage(page, put))
        page.address = put(json)
        addressed.push({ node: page, length: json.length })
        yield undefined
      }
    }
    const json = encodeContent(top.dir, put)
    top.dir.address = put(json)
    addressed.push({ node: top.dir, length: json.length })
    stack.pop()
    yield undefined
  }
}

function dirtyChildren(dir: Dir): Dir[] {
  const dirty: Dir[] = []
  for (const page of dir.pages ?? []) {
    if (page.names === null || page.address !== undefined) continue
    for (const node of page.nodes) if (node instanceof Dir && node.address === undefined) dirty.push(node)
  }
  return dirty
}
