/** The texts of system errors, as in Node. */
const texts = {
  EBUSY: 'resource busy or locked',
  EEXIST: 'file already exists',
  EINVAL: 'invalid argument',
  EISDIR: 'illegal operation on a directory',
  ELOOP: 'too many symbolic links encountered',
  ENOENT: 'no such file or directory',
  EROFS: 'read-only file system',
  EXDEV: 'cross-device link not permitted',
} as const

/** An error with a code, whose text is that of `node:fs`. Commands of just-bash look for the code in the text. */
export function fsError(code: keyof typeof texts, syscall: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${texts[code]}, ${syscall} '${path}'`), { code, syscall, path })
}

/** Whether a call failed because nothing is at its path. */
export function isMissing(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown }
  // The errors of InMemoryFs have no code.
  return (
    code === 'ENOENT' || code === 'ENOTDIR' || (code === undefined && String(message).startsWith('ENOENT'))
  )
}
