import type * as nodeFs from 'node:fs'

/** The part of node:fs that the provider calls. `session.fs` has all of it. */
export type NodeFs = Pick<
  typeof nodeFs,
  | 'accessSync'
  | 'appendFileSync'
  | 'chmodSync'
  | 'chownSync'
  | 'close'
  | 'closeSync'
  | 'copyFileSync'
  | 'existsSync'
  | 'fchmod'
  | 'fchmodSync'
  | 'fchown'
  | 'fdatasync'
  | 'fstat'
  | 'fstatSync'
  | 'fsync'
  | 'ftruncate'
  | 'ftruncateSync'
  | 'futimes'
  | 'futimesSync'
  | 'lchownSync'
  | 'linkSync'
  | 'lstatSync'
  | 'lutimesSync'
  | 'mkdirSync'
  | 'open'
  | 'openSync'
  | 'read'
  | 'readFileSync'
  | 'readSync'
  | 'readdirSync'
  | 'readlinkSync'
  | 'realpathSync'
  | 'renameSync'
  | 'rmdirSync'
  | 'statSync'
  | 'symlinkSync'
  | 'unlinkSync'
  | 'unwatchFile'
  | 'utimesSync'
  | 'watch'
  | 'watchFile'
  | 'write'
  | 'writeFileSync'
  | 'writeSync'
> & {
  readonly promises: Pick<
    typeof nodeFs.promises,
    | 'access'
    | 'appendFile'
    | 'chmod'
    | 'chown'
    | 'copyFile'
    | 'lchown'
    | 'link'
    | 'lstat'
    | 'lutimes'
    | 'mkdir'
    | 'readFile'
    | 'readdir'
    | 'readlink'
    | 'realpath'
    | 'rename'
    | 'rmdir'
    | 'stat'
    | 'symlink'
    | 'unlink'
    | 'utimes'
    | 'writeFile'
  > & { watch(filename: string, options?: object): unknown }
}

/** Calls a function that takes a callback, and returns the result of the callback as a promise. */
export function promised<T>(start: (done: (error: Error | null, value?: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    start((error, value) => {
      if (error === null || error === undefined) resolve(value as T)
      else reject(error)
    })
  })
}
