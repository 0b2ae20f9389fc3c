import { itemAt } from '../../base/present.js'
import { formatHash } from '../../base/hash.js'
import { whenLoaded } from '../../base/fault.js'
import { parseFlag } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { encodePageToken, pageNames, type PageRequest } from '../../base/paging.js'
import { Shape } from '../../base/shape.js'
import { runInSlices, TimeSlice } from '../../base/cooperative.js'
import { parsePrefix, visitPaths } from '../../tree/cursor.js'
import { hashTree } from '../../tree/hash.js'
import { Dir, FileNode, Symlink } from '../../tree/node.js'
import { reading, type Core } from '../core.js'
import { listCasExtents, type CasExtent } from './extents.js'
import { listNodes } from './listing.js'

/** The kinds of nodes in a manifest. */
export const FileType = {
  /** A directory. */
  DIRECTORY: 'VFS_FILE_TYPE_DIRECTORY',
  /** A file. */
  FILE: 'VFS_FILE_TYPE_FILE',
} as const
/** One of the values of {@link FileType}. */
export type FileType = (typeof FileType)[keyof typeof FileType]

/** A file or directory in a manifest. */
export interface ManifestNode {
  /** Absolute path in the session, such as `/src/a.ts`. */
  readonly path: string
  /** A file or a directory. Symlinks are not in a manifest: see `session.files.listSymlinks`. */
  readonly fileType: FileType
  /** The size of the file, in bytes; 0 for a directory. */
  readonly sizeBytes: number
  /** `sha256:<hex>` of the content; '' for a directory. */
  readonly contentHash: string
  /** Permission bits, 0 to 0o7777. */
  readonly mode: number
  /**
   * The blobs that hold the bytes of the file, in order; gaps between them are holes. Empty without
   * `includeCasExtents`.
   */
  readonly casExtents: CasExtent[]
}

/** A page of the tree of a session. */
export interface ManifestRequest extends PageRequest {
  /**
   * A literal prefix of the paths: `/src` also matches `/srcfoo`, and `/src/` only the entries below the
   * directory. Absent or '' matches all.
   */
  readonly pathPrefix?: string
  /** true: each file has its `casExtents`; false by default. */
  readonly includeCasExtents?: boolean
}

/** A page of the tree of a session. */
export interface ManifestPage {
  /**
   * Files and directories, depth first, in the order of the UTF-8 bytes of their names, with a directory
   * before its children. Neither the root nor symlinks are included. A page may end early if large contents
   * must be hashed first, or if there are many extents.
   */
  readonly nodes: ManifestNode[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
  /**
   * `sha256:<hex>` over paths, kinds, modes, contents, symlink targets and extended attributes of the whole
   * tree.
   */
  readonly manifestHash: string
}

export const manifestShape = new Shape<ManifestRequest>({
  pathPrefix: true,
  includeCasExtents: true,
  ...pageNames,
})

/** A page of a tree. The request is a copy made by {@link manifestShape}. */
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
  // This comes first, because it hashes contents in slices, and the code below reuses the hashes.
  const hash = formatHash(await manifestHash(core, root))
  const nodes: ManifestNode[] = []
  const slice = new TimeSlice(core.environment)
  let hashedBytes = 0
  let extents = 0
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
          nextPageToken = encodePageToken(listing, itemAt(nodes, -1).path)
          break
        }
      }
      const contentHash = formatHash(known ?? (await whenLoaded(() => core.contentIds.contentHash(node))))
      const casExtents = includeCasExtents ? await listCasExtents(core, { file: node, path }, slice) : []
      extents += casExtents.length
      if (extents > limits.casExtents && nodes.length > 0) {
        nextPageToken = encodePageToken(listing, itemAt(nodes, -1).path)
        break
      }
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

/** The hash of a tree, in hex. */
export function manifestHash(core: Core, root: Dir): Promise<string> {
  return root.hash === undefined
    ? runInSlices(hashTree(root, core.contentIds, core.loader), core.environment)
    : Promise.resolve(root.hash)
}

/** A page of symlinks. */
export interface SymlinkPage {
  /** In the order of the manifest. */
  readonly symlinks: {
    /** Absolute path of the symlink, such as `/bin/tool`. */
    readonly path: string
    /** The path that the symlink points to, as `createSymlink` received it. */
    readonly target: string
  }[]
  /** Pass it as `pageToken` for the next page. Empty when there is no further page. */
  readonly nextPageToken: string
}

/** A page of the symlinks of a session. */
export type SymlinkListRequest = PageRequest & {
  /**
   * A literal prefix of the paths: `/src` also matches `/srcfoo`, and `/src/` only the entries below the
   * directory. Absent or '' matches all.
   */
  readonly pathPrefix?: string
}

export const symlinkListShape = new Shape<SymlinkListRequest>({ pathPrefix: true, ...pageNames })

/** A page of symlinks. The request is a copy made by {@link symlinkListShape}. */
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
