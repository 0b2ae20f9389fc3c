import type { ErrorReason } from '../base/errors.js'
import { defineOperations } from './operation.js'

const path = ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'NOT_A_DIRECTORY', 'SYMLINK_LOOP'] as const
const found = [...path, 'PATH_NOT_FOUND'] as const
const written: readonly ErrorReason[] = [
  ...path,
  'IS_A_DIRECTORY',
  'HASH_MISMATCH',
  'BLOB_NOT_FOUND',
  'FILE_TOO_LARGE',
]

export const fileOperations = defineOperations({
  createDirectory: {
    tag: 'Files',
    summary: 'Create a directory',
    description: 'The parent must exist, unless `recursive` is true.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/dirs',
    implementedBy: 'session.files.createDirectory',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.CreateDirectory',
    errors: [...found, 'ALREADY_EXISTS'],
  },
  removeDirectory: {
    tag: 'Files',
    summary: 'Remove a directory',
    description: 'The directory must be empty, unless `recursive` is true.',
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}/dirs',
    query: ['path', 'recursive'],
    implementedBy: 'session.files.removeDirectory',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.RemoveDirectory',
    errors: [...found, 'DIRECTORY_NOT_EMPTY'],
  },
  rename: {
    tag: 'Files',
    summary: 'Rename a file or directory',
    description:
      'Follows POSIX: a file replaces an existing file, and a directory replaces an existing empty ' +
      'directory. The cost does not depend on the size of the file or directory. Renaming a path to ' +
      'itself changes nothing. A directory cannot be moved into itself.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:rename',
    aliases: ['/v1/sessions/{sessionId}/rename'],
    implementedBy: 'session.files.rename',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.Rename',
    errors: [...found, 'ALREADY_EXISTS', 'IS_A_DIRECTORY', 'DIRECTORY_NOT_EMPTY'],
  },
  deleteFile: {
    tag: 'Files',
    summary: 'Delete a file or symlink',
    description:
      'Removes one name. A file with other hard links keeps its content under those names. A symlink at ' +
      'the path is not followed.',
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}/files',
    query: ['path', 'expectedHash'],
    implementedBy: 'session.files.delete',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.DeleteFile',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH'],
  },
  applyBatch: {
    tag: 'Files',
    summary: 'Apply operations in one step',
    description:
      'Applies writes, deletes and segment writes in order; each sees the effects of those before it. If ' +
      'one fails, none takes effect. Readers see all of the batch or none of it. Missing parent ' +
      'directories are created. An empty list succeeds.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/batch',
    capabilities: ['files.write'],
    when: { borrowed: ['files.read'] },
    event: 'v1.FileSystemService.ApplyBatch',
    errors: [...written, 'PATH_NOT_FOUND'],
  },
  patchSegments: {
    tag: 'Files',
    summary: 'Change ranges of files',
    description:
      'Changes ranges of files in one step. Bytes outside the given chunks stay unchanged. The cost ' +
      'depends on the size of the change, not of the file. Missing files and parent directories are ' +
      'created. With `SEGMENT_CONFLICT_POLICY_SKIP_ON_CONFLICT`, files that do not match their ' +
      '`expectedHash` are skipped and listed in `skippedPaths`; any other error rejects the whole ' +
      'request. The next request for the hash of a large changed file reads the whole file.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/patchSegments',
    implementedBy: 'session.files.patchSegments',
    capabilities: ['files.write'],
    when: { borrowed: ['files.read'] },
    event: 'v1.FileSystemService.PatchSegments',
    errors: written,
  },
  createSymlink: {
    tag: 'Files',
    summary: 'Create a symlink',
    description: 'The target need not exist. Symlinks are resolved inside the session.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/symlinks',
    implementedBy: 'session.files.createSymlink',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.CreateSymlink',
    errors: [...found, 'ALREADY_EXISTS'],
  },
  listSymlinks: {
    tag: 'Files',
    summary: 'List symlinks',
    description: 'A page of the symlinks, in path order. The manifest does not list them.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/symlinks',
    query: ['pathPrefix', 'pageSize', 'pageToken'],
    implementedBy: 'session.files.listSymlinks',
    capabilities: ['files.read'],
    errors: ['SESSION_NOT_FOUND'],
  },
  readSymlink: {
    tag: 'Files',
    summary: 'Read a symlink',
    description: 'Returns the target exactly as it was set.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/readSymlink',
    query: ['path'],
    capabilities: ['files.read'],
    errors: [...found, 'NOT_A_SYMLINK'],
  },
  createHardLink: {
    tag: 'Files',
    summary: 'Create a hard link',
    description:
      'Adds a name for an existing file. All names share content, mode, attributes and locks. A directory ' +
      'cannot have hard links.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:link',
    implementedBy: 'session.files.link',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.CreateHardLink',
    errors: [...found, 'ALREADY_EXISTS', 'NOT_PERMITTED'],
  },
  unlink: {
    tag: 'Files',
    summary: 'Remove a name of a file',
    description: 'The file is deleted with its last name. A symlink at the path is not followed.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:unlink',
    implementedBy: 'session.files.unlink',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.Unlink',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH'],
  },
  getCasExtents: {
    tag: 'Files',
    summary: 'List the extents of a file',
    description:
      'Lists where the bytes of a file are stored, ordered by offset. A range that no extent covers is a ' +
      'hole and reads as zeros.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:getCasExtents',
    implementedBy: 'session.files.getCasExtents',
    capabilities: ['files.read'],
    errors: [...found, 'IS_A_DIRECTORY'],
  },
  readFile: {
    tag: 'Files',
    summary: 'Read a file',
    description: 'Reads a range of a file. The response also has the hash and size of the whole content.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:readFile',
    extension: true,
    implementedBy: 'session.files.readWithHash',
    capabilities: ['files.read'],
    errors: [...found, 'IS_A_DIRECTORY'],
  },
  writeFile: {
    tag: 'Files',
    summary: 'Write a file',
    description:
      'Replaces the content of a file, or creates the file. Missing parent directories are created, ' +
      'unless `createParents` is false.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:writeFile',
    extension: true,
    implementedBy: 'session.files.write',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.WriteFile',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH', 'ALREADY_EXISTS'],
  },
  appendFile: {
    tag: 'Files',
    summary: 'Append to a file',
    description:
      'Adds bytes to the end of a file, and creates the file if it does not exist. The cost depends on ' +
      'the added bytes alone.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:appendFile',
    extension: true,
    implementedBy: 'session.files.append',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.WriteFile',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH'],
  },
  copyFile: {
    tag: 'Files',
    summary: 'Copy a file',
    description:
      'Copies the content and mode of a file to another path, and creates or replaces the file there. ' +
      'Both files share stored bytes until one changes, so the cost does not depend on the size.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:copyFile',
    extension: true,
    implementedBy: 'session.files.copy',
    capabilities: ['files.read', 'files.write'],
    event: 'v1.FileSystemService.WriteFile',
    errors: [...found, 'IS_A_DIRECTORY', 'ALREADY_EXISTS'],
  },
  setAttributes: {
    tag: 'Files',
    summary: 'Set mode or time of a path',
    description: 'Absent fields stay unchanged.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:setAttributes',
    extension: true,
    implementedBy: 'session.files.setAttributes',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.SetAttributes',
    errors: found,
  },
  statPath: {
    tag: 'Files',
    summary: 'Get the metadata of a path',
    description: 'Kind, size, mode, times and number of names of a file, directory or symlink.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:stat',
    extension: true,
    implementedBy: 'session.files.stat',
    capabilities: ['files.read'],
    errors: found,
  },
  listDirectory: {
    tag: 'Files',
    summary: 'List a directory',
    description:
      'A page of the entries of a directory, ordered by the bytes of their names. With `recursive`, lists ' +
      'everything below the directory, with each directory before its contents. Symlinks in the directory ' +
      'are not followed.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:listDirectory',
    extension: true,
    implementedBy: 'session.files.list',
    capabilities: ['files.read'],
    errors: found,
  },
  setXattr: {
    tag: 'Extended attributes',
    summary: 'Set an extended attribute',
    description:
      'Sets an attribute of a file or directory. A symlink at the path is followed. Attributes survive ' +
      'writes to the file and are deleted with it.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:setXattr',
    implementedBy: 'session.files.setXattr',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.SetXattr',
    errors: [...found, 'QUOTA'],
  },
  getXattr: {
    tag: 'Extended attributes',
    summary: 'Get an extended attribute',
    description: 'The value of one attribute.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:getXattr',
    implementedBy: 'session.files.getXattr',
    capabilities: ['files.read'],
    errors: [...found, 'XATTR_NOT_FOUND'],
  },
  listXattrs: {
    tag: 'Extended attributes',
    summary: 'List extended attributes',
    description: 'The names of the attributes of a file or directory, sorted.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:listXattrs',
    implementedBy: 'session.files.listXattrs',
    capabilities: ['files.read'],
    errors: found,
  },
  removeXattr: {
    tag: 'Extended attributes',
    summary: 'Remove an extended attribute',
    description: 'Fails if the path has no attribute of this name.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:removeXattr',
    implementedBy: 'session.files.removeXattr',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.RemoveXattr',
    errors: [...found, 'XATTR_NOT_FOUND'],
  },
})
