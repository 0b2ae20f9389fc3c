import { createHash } from 'node:crypto'
import {
  EngineError,
  TimeSlice,
  type GitObject,
  type GitObjects,
  type RepositoryFile,
  type WorkTreeRequest,
} from '../../engine/ports.js'
import { emptyTreeId, formatOf, type ObjectFormat } from './objects/object-id.js'
import { describeCommit } from './objects/raw-commit.js'
import { entryKind, parseTree } from './objects/raw-tree.js'
import { PackBuilder } from './pack/build-pack.js'
import { formatPackIndex } from './pack/pack-index.js'

/**
 * The files of a directory `.git` with one commit, which HEAD and the index have. Git knows the directory as a repository
 * once it has the last file, HEAD. The parents of the commit are missing, as in a clone of depth 1.
 */
export async function formatWorkTree(request: WorkTreeRequest): Promise<RepositoryFile[]> {
  const { commitId, objects, exclude, signal } = request
  const format = formatOf(commitId)
  const slice = new TimeSlice(performance, signal)
  const pack = new PackBuilder(format)
  const commit = await must(commitId, 'commit', objects)
  await pack.add(commit)
  const { treeId, parentIds } = describeCommit(commit)
  const entries: IndexEntry[] = []
  const pending: [treeId: string, path: string][] = [[treeId, '']]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const [id, path] = next
    const tree: GitObject =
      id === emptyTreeId(format)
        ? { oid: id, type: 'tree', body: new Uint8Array() }
        : await must(id, 'tree', objects)
    await pack.add(tree)
    for (const { mode, name, oid } of parseTree(tree.body, format)) {
      const kind = entryKind(mode)
      if (kind === 'tree') pending.push([oid, `${path}${name}/`])
      else entries.push({ mode, name: path + name, oid })
      if (kind === 'file' || kind === 'symlink') await pack.add(await must(oid, 'blob', objects))
      if (slice.over) await slice.next()
    }
  }
  const { parts, objects: packed, checksum } = await pack.finish(slice)
  const packName = `objects/pack/pack-${checksum.toString('hex')}`
  return [
    { path: 'config', parts: [Buffer.from(formatConfig(format))] },
    { path: 'info/exclude', parts: [Buffer.from(exclude.map((line) => `${line}\n`).join(''))] },
    { path: `${packName}.pack`, parts },
    { path: `${packName}.idx`, parts: [withHash(formatPackIndex(packed, checksum), format)] },
    ...(parentIds.length > 0 ? [{ path: 'shallow', parts: [Buffer.from(`${commitId}\n`)] }] : []),
    { path: 'index', parts: [withHash(formatIndex(entries), format)] },
    { path: 'refs/', parts: [] },
    { path: 'HEAD', parts: [Buffer.from(`${commitId}\n`)] },
  ]
}

interface IndexEntry {
  readonly mode: string
  /** The bytes of the path as latin-1. */
  readonly name: string
  readonly oid: string
}

function formatConfig(format: ObjectFormat): string {
  const core = `[core]\n\trepositoryformatversion = ${format === 'sha1' ? 0 : 1}\n\tfilemode = true\n\tbare = false\n`
  return format === 'sha1' ? core : `${core}[extensions]\n\tobjectformat = sha256\n`
}

/** An index of version 2 without stats of the files, so git compares their contents the first time. */
function formatIndex(entries: readonly IndexEntry[]): Buffer {
  const header = Buffer.from('DIRC\0\0\0\x02\0\0\0\0', 'latin1')
  header.writeUInt32BE(entries.length, 8)
  const sorted = entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  return Buffer.concat([header, ...sorted.map(formatEntry)])
}

const statBytes = 40
const modeOffset = 24
const longestName = 0xfff

function formatEntry({ mode, name, oid }: IndexEntry): Buffer {
  const id = Buffer.from(oid, 'hex')
  const nameStart = statBytes + id.length + 2
  // At least one NUL follows the name.
  const entry = Buffer.alloc((nameStart + name.length + 8) & ~7)
  entry.writeUInt32BE(modeOf(mode), modeOffset)
  id.copy(entry, statBytes)
  entry.writeUInt16BE(Math.min(name.length, longestName), statBytes + id.length)
  entry.write(name, nameStart, 'latin1')
  return entry
}

/** An index has fewer modes than old trees. */
function modeOf(mode: string): number {
  switch (entryKind(mode)) {
    case 'symlink':
      return 0o120000
    case 'gitlink':
      return 0o160000
    default:
      return (Number.parseInt(mode, 8) & 0o100) === 0 ? 0o100644 : 0o100755
  }
}

function withHash(bytes: Buffer, format: ObjectFormat): Buffer {
  return Buffer.concat([bytes, createHash(format).update(bytes).digest()])
}

async function must(oid: string, type: GitObject['type'], objects: GitObjects): Promise<GitObject> {
  const object = await objects.get(oid)
  if (object?.type === type) return object
  throw new EngineError('GIT_CORRUPT', `the ${type} ${oid}, which a commit of the session needs, is missing`)
}
