import nodeFs from 'node:fs'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { openEngine } from '../../src/index.js'

/** The parts of node:fs that the tested libraries use. */
export type Fs = typeof nodeFs

/** A separate directory for a library to work in. */
export interface Place {
  readonly fs: Fs
  readonly root: string
  remove(): Promise<void>
}

/** A temporary directory of the host, where Node itself responds. */
export async function hostPlace(): Promise<Place> {
  const directory = await nodeFs.promises.mkdtemp(join(tmpdir(), 'compat-'))
  const root = await nodeFs.promises.realpath(directory)
  return { fs: nodeFs, root, remove: () => nodeFs.promises.rm(root, { recursive: true }) }
}

/** A directory of a session. The path does not exist on the host, so nothing is found there by mistake. */
export async function sessionPlace(): Promise<Place> {
  const engine = await openEngine()
  const root = '/session-only/repo'
  const session = await engine.sessions.create()
  await session.fs.promises.mkdir(root, { recursive: true })
  return { fs: session.fs as unknown as Fs, root, remove: () => engine.close() }
}

/** Runs a function in both places and returns both results. */
export async function inBoth<T>(run: (place: Place) => Promise<T>): Promise<{ session: T; host: T }> {
  return { host: await inPlace(hostPlace, run), session: await inPlace(sessionPlace, run) }
}

async function inPlace<T>(make: () => Promise<Place>, run: (place: Place) => Promise<T>): Promise<T> {
  const place = await make()
  try {
    return await run(place)
  } finally {
    await place.remove()
  }
}

/** Writes files with their parents; `-> target` makes a symlink, and null a directory. */
export async function writeTree(
  { fs, root }: Place,
  tree: Readonly<Record<string, string | null>>,
): Promise<void> {
  for (const [name, content] of Object.entries(tree)) {
    const path = posix.join(root, name)
    await fs.promises.mkdir(content === null ? path : posix.dirname(path), { recursive: true })
    if (content?.startsWith('-> ') === true) await fs.promises.symlink(content.slice(3), path)
    else if (content !== null) await fs.promises.writeFile(path, content)
  }
}

/** Copies a directory of a place to the host, with symlinks and modes. */
export async function copyOut({ fs }: Place, from: string, to: string): Promise<void> {
  await nodeFs.promises.mkdir(to, { recursive: true })
  for (const entry of await fs.promises.readdir(from, { withFileTypes: true })) {
    const [source, target] = [posix.join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) await copyOut({ fs } as Place, source, target)
    else if (entry.isSymbolicLink()) {
      await nodeFs.promises.symlink(await fs.promises.readlink(source), target)
    } else {
      await nodeFs.promises.writeFile(target, await fs.promises.readFile(source))
      await nodeFs.promises.chmod(target, (await fs.promises.stat(source)).mode & 0o777)
    }
  }
}
