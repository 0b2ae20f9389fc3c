/**
 * The files of Node's own fs tests that fail in a session; all others pass. Each reason is the first cell of a row in
 * the table of differences in docs/node-fs.md.
 */
export const differences: Readonly<Record<string, readonly string[]>> = {
  'relative paths': [
    'test-fs-cp-async-file-url.mjs',
    'test-fs-cp-sync-filename-too-long-error.mjs',
    'test-fs-error-messages.js',
    'test-fs-mkdir.js',
    'test-fs-mkdtempDisposableSync.js',
    'test-fs-promises-mkdtempDisposable.js',
    'test-fs-promises.js',
    'test-fs-readdir-stack-overflow.js',
    'test-fs-realpath-native.js',
    'test-fs-realpath.js',
    'test-fs-stat-bigint.js',
    'test-fs-symlink-dir.js',
    'test-fs-sync-fd-leak.js',
    'test-fs-utimes.js',
    'test-fs-whatwg-url.js',
  ],
  'files and processes of the host': [
    'test-fs-filehandle-use-after-close.js',
    'test-fs-promises-file-handle-readFile.js',
    'test-fs-promises-readfile.js',
    'test-fs-read-file-sync-hostname.js',
    'test-fs-readfile-eof.js',
    'test-fs-readfile-error.js',
    'test-fs-readfile-pipe-large.js',
    'test-fs-readfile-pipe.js',
    'test-fs-readfilesync-pipe-large.js',
    'test-fs-rm.js',
    'test-fs-syncwritestream.js',
    'test-fs-write-sigxfsz.js',
    'test-fs-write-stream-patch-open.js',
  ],
  'sockets, pipes and devices': [
    'test-fs-cp-async-socket.mjs',
    'test-fs-cp-sync-copy-socket-error.mjs',
    'test-fs-read-stream.js',
    'test-fs-readdir-recursive.js',
  ],
  'a signal that aborts after the call': [
    'test-fs-promises-file-handle-append-file.js',
    'test-fs-promises-file-handle-writeFile.js',
    'test-fs-promises-writefile.js',
    'test-fs-readfile.js',
    'test-fs-write-file.js',
  ],
  'internals of Node': [
    'test-fs-filehandle.js',
    'test-fs-promises-file-handle-aggregate-errors.js',
    'test-fs-promises-file-handle-close-errors.js',
    'test-fs-promises-file-handle-op-errors.js',
    'test-fs-readdir-types.js',
    'test-fs-utils-get-dirents.js',
    'test-fs-watchfile-bigint.js',
    'test-fs-write.js',
  ],
  'warnings of Node': [
    'test-fs-constants.js',
    'test-fs-exists.js',
    'test-fs-mkdtemp.js',
    'test-fs-read-stream-patch-open.js',
    'test-fs-rmdir-recursive-sync-warns-not-found.js',
    'test-fs-rmdir-recursive-sync-warns-on-file.js',
    'test-fs-rmdir-recursive-warns-not-found.js',
    'test-fs-rmdir-recursive-warns-on-file.js',
    'test-fs-rmdir-recursive.js',
  ],
  'a FileHandle that is dropped or sent to a worker': [
    'test-fs-promises-file-handle-close.js',
    'test-fs-promises-file-handle-read-worker.js',
  ],
  'option `flush`': ['test-fs-append-file-flush.js', 'test-fs-write-file-flush.js'],
  '`Stats` without `new`': ['test-fs-stat.js'],
  '`lchmod` of a symlink': ['test-fs-chmod.js'],
  glob: ['test-fs-glob.mjs'],
  atime: ['test-fs-stat-date.mjs'],
  'paths that are not UTF-8': ['test-fs-readdir-ucs2.js'],
  'checks that Node added after version 20': [
    'test-fs-cp-sync-copy-symlinks-to-existing-symlinks.mjs',
    'test-fs-opendir.js',
    'test-fs-read-position-validation.mjs',
    'test-fs-read-promises-position-validation.mjs',
    'test-fs-readSync-position-validation.mjs',
    'test-fs-symlink.js',
  ],
}

/** Files in a syntax that some supported versions of Node lack. They pass on the other versions. */
export const newerSyntax: ReadonlySet<string> = new Set([
  'test-fs-read-empty-buffer.js',
  'test-fs-read-offset-null.js',
])

/** Files that run in a separate process, because they change shared objects. */
export const alone: readonly string[] = ['test-fs-writesync-crash.js']

/** Files that are not run, with the reasons. */
export const notRun: Readonly<Record<string, string>> = {
  'test-fs-read-stream-pos.js': 'waits for a short read between two writes, or for 90 seconds',
}
