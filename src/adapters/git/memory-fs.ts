import type { PromiseFsClient } from 'isomorphic-git'

/** The git directory inside {@link memoryFs}. */
export const memoryGitDir = '/git'
export const memoryPackDir = `${memoryGitDir}/objects/pack`

// One object for every miss: most reads are of loose objects that are not there.
const notFound = Object.assign(new Error('no such file'), { code: 'ENOENT' })

const directoryStat = { isDirectory: () => true, isFile: () => false, isSymbolicLink: () => false }

/** Just enough of a file system for isomorphic-git to read and index a pack that is in memory. */
export function memoryFs(files: Map<string, Uint8Array>): PromiseFsClient {
  const missing = (): Promise<never> => Promise.reject(notFound)
  const stat = (path: string): Promise<object> => {
    const file = files.get(path)
    if (file === undefined) return path.startsWith(memoryGitDir) ? Promise.resolve(directoryStat) : missing()
    return Promise.resolve({ isDirectory: () => false, isFile: () => true, isSymbolicLink: () => false })
  }
  return {
    promises: {
      readFile(path: string): Promise<Uint8Array> {
        const file = files.get(path)
        return file === undefined ? missing() : Promise.resolve(file)
      },
      writeFile(path: string, content: Uint8Array): Promise<void> {
        files.set(path, content)
        return Promise.resolve()
      },
      readdir(path: string): Promise<string[]> {
        const start = `${path}/`
        const names = [...files.keys()].filter((name) => name.startsWith(start))
        return Promise.resolve(names.map((name) => name.slice(start.length)))
      },
      stat,
      lstat: stat,
      mkdir: () => Promise.resolve(),
      rmdir: missing,
      unlink: missing,
      readlink: missing,
      symlink: missing,
    },
  }
}
