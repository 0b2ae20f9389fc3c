import { Buffer } from 'node:buffer'
import {
  EngineError,
  type ErrorReason,
  type FileWriteRequest,
  type ManifestNode,
  type Session,
} from '../../src/index.js'
import { contentOf, Refusal, type ModelTree, type TreeStep } from './model-tree.js'

/** 'ok', or the reason of the rejection. */
export type Outcome = 'ok' | ErrorReason

/** Makes the call for an operation before it returns. */
export function runStep(session: Session, step: TreeStep): Promise<void> {
  const { files } = session
  switch (step.op) {
    case 'write':
      return files.write(writeRequest(step))
    case 'append':
      return files.append({ path: step.path, content: contentOf(step.content), ...guard(step.guard) })
    case 'delete':
      return files.delete({ path: step.path, ...guard(step.guard) })
    case 'mkdir':
      return files.createDirectory({ path: step.path, ...mode(step.mode) })
    case 'rmdir':
      return files.removeDirectory({ path: step.path })
    case 'rename':
      return files.rename({ sourcePath: step.from, destinationPath: step.to })
    case 'chmod':
      return files.setMode({ path: step.path, mode: step.mode })
    case 'symlink':
      return files.createSymlink({ linkPath: step.path, target: step.target })
    case 'link':
      return files.link({ srcPath: step.from, dstPath: step.to })
    case 'rm':
      return session.fs.promises.rm(step.path, { recursive: true }).catch((error: unknown) => {
        throw error instanceof Error && error.cause instanceof EngineError ? error.cause : error
      })
    case 'unlink':
      return files.unlink({ path: step.path, ...guard(step.guard) })
    case 'setXattr':
      return files.setXattr({ path: step.path, name: step.name, value: step.value })
    case 'removeXattr':
      return files.removeXattr({ path: step.path, name: step.name })
    default:
      return files.batch(
        step.steps.map((part) =>
          part.op === 'write'
            ? { write: writeRequest(part) }
            : { delete: { path: part.path, ...guard(part.guard) } },
        ),
      )
  }
}

export function applyToModel(tree: ModelTree, step: TreeStep): Outcome {
  try {
    tree.apply(step)
    return 'ok'
  } catch (error) {
    if (error instanceof Refusal) return error.reason
    throw error
  }
}

export async function outcomeOf(promise: Promise<unknown>): Promise<Outcome> {
  try {
    await promise
    return 'ok'
  } catch (error) {
    if (error instanceof EngineError && error.reason !== 'INTERNAL' && error.reason !== 'DATA_LOSS')
      return error.reason
    throw error
  }
}

/** The tree of a session as lines, from its manifest and its list of symlinks, in their orders. */
export async function describeSession(session: Session, pageSize = 1000): Promise<string[]> {
  const lines: string[] = []
  for (let pageToken = ''; ;) {
    const page = await session.manifest({ pageSize, pageToken })
    for (const node of page.nodes) lines.push(describeNode(node))
    if (page.nextPageToken === '') break
    pageToken = page.nextPageToken
  }
  for (let pageToken = ''; ;) {
    const page = await session.files.listSymlinks({ pageSize, pageToken })
    for (const { path, target } of page.symlinks) lines.push(`symlink ${JSON.stringify(path)} ${target}`)
    if (page.nextPageToken === '') break
    pageToken = page.nextPageToken
  }
  const root = await session.fs.promises.stat('/')
  lines.push(`root ${(root.mode & 0o7777).toString(8)}`)
  return lines
}

/** The link count of a file or directory, and its extended attributes with their values. */
export async function describeFile(session: Session, path: string): Promise<unknown> {
  const { names } = await session.files.listXattrs({ path })
  const xattrs: [string, string][] = []
  for (const name of names)
    xattrs.push([name, Buffer.from((await session.files.getXattr({ path, name })).value).toString()])
  return { names: (await session.fs.promises.lstat(path)).nlink, xattrs }
}

/** The result of {@link describeFile} for a session that equals the model. */
export function describeModelFile(tree: ModelTree, path: string): unknown {
  const entry = tree.get(path)!
  const xattrs = entry.kind === 'symlink' ? [] : [...entry.xattrs]
  return { names: tree.namesOf(path).length, xattrs: xattrs.toSorted(([a], [b]) => (a < b ? -1 : 1)) }
}

/** The result of {@link describeSession} for a session that equals the model. */
export function describeModel(tree: ModelTree): string[] {
  const lines: string[] = []
  const symlinks: string[] = []
  for (const [path, entry] of tree.inOrder()) {
    const quoted = JSON.stringify(path)
    if (entry.kind === 'symlink') symlinks.push(`symlink ${quoted} ${entry.target}`)
    else if (entry.kind === 'directory') lines.push(`directory ${quoted} ${entry.mode.toString(8)} 0 `)
    else
      lines.push(
        `file ${quoted} ${entry.mode.toString(8)} ${entry.content.bytes.length} ${entry.content.hash}`,
      )
  }
  const root = tree.get('/')!
  return [...lines, ...symlinks, `root ${root.kind === 'directory' ? root.mode.toString(8) : ''}`]
}

function describeNode({ path, fileType, mode: bits, sizeBytes, contentHash }: ManifestNode): string {
  const kind = fileType === 'VFS_FILE_TYPE_FILE' ? 'file' : 'directory'
  return `${kind} ${JSON.stringify(path)} ${bits.toString(8)} ${sizeBytes} ${contentHash}`
}

function writeRequest(step: TreeStep & { op: 'write' }): FileWriteRequest {
  return { path: step.path, content: contentOf(step.content), ...mode(step.mode), ...guard(step.guard) }
}

function mode(bits: number | undefined): { mode?: number } {
  return bits === undefined ? {} : { mode: bits }
}

function guard(expectedHash: string | undefined): { expectedHash?: string } {
  return expectedHash === undefined ? {} : { expectedHash }
}
