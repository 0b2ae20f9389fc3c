import { Buffer } from 'node:buffer'
import { EngineError } from '../../base/errors.js'
import type { HostTree, RepositoryFile } from '../sources/host-ports.js'
import { modified } from './checkout-disk.js'

/** A repository with the commit that a session builds on. */
export interface CheckoutRepository {
  readonly commitId: string
  /** The files of `.git`. The last one makes it a repository. */
  files(exclude: readonly string[]): Promise<readonly RepositoryFile[]>
}

const directory = '/.git'
/** Has the commit that a checkout wrote, or {@link unfinished}. Without it, the repository belongs to others. */
const marker = '/.git/forkspace-checkout'
const unfinished = 'unfinished'

/**
 * Whether `.git` must be written, because it is missing, unfinished, or of another commit.
 *
 * @throws {EngineError} CHECKOUT_MODIFIED when it is not of a checkout, or, without `force`, when its HEAD has moved
 */
export async function mustWriteRepository(
  tree: HostTree,
  { commitId }: CheckoutRepository,
  force: boolean,
): Promise<boolean> {
  if ((await tree.stat(directory)) === undefined) return true
  const written = await readText(tree, marker)
  if (written === undefined)
    throw modified(directory, 'is not of a checkout; remove it, or leave out the option git')
  if (written === commitId) return false
  if (written === unfinished || force || (await readText(tree, '/.git/HEAD')) === written) return true
  throw modified(
    directory,
    'has a HEAD that was moved, and the session now builds on another commit; save your commits, then use { force: true }',
  )
}

export async function writeRepository(
  tree: HostTree,
  repository: CheckoutRepository,
  { exclude, mtimeMs }: { readonly exclude: readonly string[]; readonly mtimeMs: number },
): Promise<void> {
  const files = await repository.files(exclude)
  const write = async (path: string, parts: readonly Uint8Array[]): Promise<void> => {
    await tree.writeFile(path, piecesOf(parts), { mode: 0o644, mtimeMs })
  }
  await tree.makeDirectory(directory)
  await write(marker, [Buffer.from(unfinished)])
  for (const { path, parts } of files) {
    const names = path.split('/')
    for (let depth = 1; depth < names.length; depth++)
      await tree.makeDirectory(`${directory}/${names.slice(0, depth).join('/')}`)
    if (!path.endsWith('/')) await write(`${directory}/${path}`, parts)
  }
  await write(marker, [Buffer.from(repository.commitId)])
}

async function* piecesOf(parts: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts
}

const textBytes = 128

async function readText(tree: HostTree, path: string): Promise<string | undefined> {
  const read = await tree.read(path, async (content) => {
    let text = ''
    for await (const piece of content) {
      text += Buffer.from(piece).toString()
      if (text.length > textBytes) throw new EngineError('CHECKOUT_MODIFIED', `${path} is too long`, { path })
    }
    return text.trim()
  })
  return read?.value
}
