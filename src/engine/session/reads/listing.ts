import { limits } from '../../base/limits.js'
import { itemAt } from '../../base/present.js'
import { whenLoaded } from '../../base/fault.js'
import { encodePageToken, parsePageSize, parsePageToken, type PageRequest } from '../../base/paging.js'
import { TimeSlice } from '../../base/cooperative.js'
import type { Node } from '../../tree/node.js'
import type { Core } from '../core.js'

/** Nodes with their keys, in the same order at each call. */
export interface NodeListing {
  /** Calls `visit` for the nodes after a key, until it returns false. */
  readonly visit: (after: string | undefined, visit: (key: string, node: Node) => boolean) => void
  /** Selects the nodes to list; all nodes by default. */
  readonly wanted?: (node: Node) => boolean
}

/** A page of nodes; the token is one of the listing of this name alone. */
export async function listNodes(
  core: Core,
  request: PageRequest,
  name: string,
  { visit, wanted }: NodeListing,
): Promise<{ entries: [key: string, node: Node][]; nextPageToken: string }> {
  const pageSize = parsePageSize(request.pageSize)
  let after = parsePageToken(name, request.pageToken)
  const entries: [string, Node][] = []
  let more = false
  const slice = new TimeSlice(core.environment)
  let visited = 0
  for (let paused = true; paused;) {
    if (slice.over) await slice.next()
    paused = false
    // Nodes visited before a fault are not visited again.
    await whenLoaded(() =>
      visit(after, (key, node) => {
        if (wanted?.(node) !== false) {
          more = entries.length === pageSize
          if (more) return false
          entries.push([key, node])
        }
        after = key
        paused = ++visited % limits.visitsPerLook === 0 && slice.over
        return !paused
      }),
    )
  }
  return { entries, nextPageToken: more ? encodePageToken(name, itemAt(entries, -1)[0]) : '' }
}
