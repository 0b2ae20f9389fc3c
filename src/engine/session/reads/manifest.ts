import { formatHash } from '../../base/hash.js'
import { whenLoaded } from '../../base/fault.js'
import { parseFlag } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { encodePageToken, pageNames, type PageRequest } from '../../base/paging.js'
import { Shape } from '../../base/shape.js'
import { runInSlices, TimeSlice } from '../../base/slices.js'
import { parsePrefix, visitPaths } from '../../tree/cursor.js'
import { hashTree } from '../../tree/hash.js'
import { Dir, FileNode, Symlink } from '../../tree/node.js'
import { reading, type Core } from '../core.js'
import { listCasExtents, type CasExtent } from './extents.js'
import { listNodes } from './listing.js'

export const FileType = {
  DIRECTORY: 'VFS_FILE_TYPE_DIRECTORY',
  FILE: 'VFS_FILE_TYPE_FILE',
} as const
export type FileType = (typeof FileType)[keyof typeof FileType]

export interface ManifestNode {
  readonly path: string
  readonly fileType: FileType
  /** 0 for a directory. */
  readonly sizeBytes: number
  /** `sha256:<hex>` of the content; '' for a directory. */
  readonly contentHash: string
  readonly mode: number
  /** Empty unless asked for; holes are not in it. */
  readonly casExtents: CasExtent[]
}

export interface ManifestRequest extends PageRequest {
  /** A literal prefix of the path: `/src` also matches `/srcfoo`, `/src/` is the subtree. */
  readonly pathPrefix?: string
  readonly includeCasExtents?: boolean
}

export interface ManifestPage {
  /** May end early, with a token, where large contents have to be hashed first. Depth first; names by their UTF-8 bytes; a directory before its children; neither the root nor symlinks. */
  readonly nodes: ManifestNode[]
  readonly nextPageToken: string
  /** `sha256:<hex>` over paths, kinds, modes, contents, symlink targets and extended attributes of the whole tree. */
  readonly manifestHash: string
}

export const manifestShape = new Shape<ManifestRequest>({
  pathPrefix: true,
  includeCasExtents: true,
  ...pageNames,
})

/** A page of a tree; the request is a copy by {@link manifestShape}. */
export async function readManifest(core: Core, root: Dir, request: ManifestRequest): Promise<ManifestPage> {
  return reading(core, [root], () => readPage(core, root, request))
}

async function readPage(core: Core, root: Dir, request: ManifestRequest): Promise<ManifestPage> {
  const { pathPrefix = '' } = request
  const includeCasExtents = parseFlag('includeCasExtents', request.includeCasExtents, false)
  const listing = `manifest ${parsePrefix(pathPrefix)}`
  const found = await listNodes(core, request, listing, {
    visit: (after, visit) => visitPaths(root, { prefix: pathPrefix, after }, core.loader, visit),
    wanted: (node) => !(node instanceof Symlink),
  })
  // First: it hashes contents in slices, and the code below reuses the hashes.
  const hash = formatHash(await manifestHash(core, root))
  const nodes: ManifestNode[] = []
  const slice = new TimeSlice(core.environment)
  let hashedBytes = 0
  let nextPageToken = found.nextPageToken
  for (const [path, node] of found.entries) {
    if (node instanceof Dir) {
      nodes.push({
        path,
        fileType: FileType.DIRECTORY,
        sizeBytes: 0,
        contentHash: '',
        mode: node.mode,
        casExtents: [],
      })
    } else if (node instanceof FileNode) {
      const known = core.contentIds.knownHash(node)
      if (known === undefined) {
        hashedBytes += node.size
        if (hashedBytes > limits.manifestHashBytes && nodes.length > 0) {
          nextPageToken = encodePageToken(listing, nodes.at(-1)!.path)
          break
        }
      }
      const contentHash = formatHash(known ?? (await whenLoaded(() => core.contentIds.contentHash(node))))
      const casExtents = includeCasExtents ? await listCasExtents(core, node, slice) : []
      nodes.push({
        path,
        fileType: FileType.FILE,
        sizeBytes: node.size,
        contentHash,
        mode: node.mode,
        casExtents,
      })
    }
  }
  return { nodes, nextPageToken, manifestHash: hash }
}

/** Hex. */
export function manifestHash(core: Core, root: Dir): Promise<string> {
  return root.hash === undefined
    ? runInSlices(hashTree(root, core.contentIds, core.loader), core.environment)
    : Promise.resolve(root.hash)
}

export interface SymlinkPage {
  readonly symlinks: { readonly path: string; readonly target: string }[]
  readonly nextPageToken: string
}

export type SymlinkListRequest = PageRequest & { readonly pathPrefix?: string }

export const symlinkListShape = new Shape<SymlinkListRequest>({ pathPrefix: true, ...pageNames })

/** A page of symlinks; the request is a copy by {@link symlinkListShape}. */
export async function listSymlinks(core: Core, root: Dir, request: SymlinkListRequest): Promise<SymlinkPage> {
  const { pathPrefix = '' } = request
  const listing = `symlinks ${parsePrefix(pathPrefix)}`
  const found = await reading(core, [root], () =>
    listNodes(core, request, listing, {
      visit: (after, visit) => visitPaths(root, { prefix: pathPrefix, after }, core.loader, visit),
      wanted: (node) => node instanceof Symlink,
    }),
  )
  const symlinks = found.entries.map(([path, node]) => ({ path, target: (node as Symlink).target }))
  return { symlinks, nextPageToken: found.nextPageToken }
}
