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
    description: 'The parent has to exist, unless `recursive` is true.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/dirs',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.CreateDirectory',
    errors: [...found, 'ALREADY_EXISTS'],
  },
  removeDirectory: {
    tag: 'Files',
    summary: 'Remove a directory',
    description: 'The directory has to be empty, unless `recursive` is true.',
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}/dirs',
    query: ['path', 'recursive'],
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.RemoveDirectory',
    errors: [...found, 'DIRECTORY_NOT_EMPTY'],
  },
  rename: {
    tag: 'Files',
    summary: 'Rename a file or directory',
    description:
      'As POSIX has it: replaces a file, or an empty directory by a directory. The cost is the same ' +
      'whatever the size of what is moved. Renaming onto itself changes nothing; a directory cannot be ' +
      'moved into itself.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:rename',
    aliases: ['/v1/sessions/{sessionId}/rename'],
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.Rename',
    errors: [...found, 'IS_A_DIRECTORY', 'DIRECTORY_NOT_EMPTY'],
  },
  deleteFile: {
    tag: 'Files',
    summary: 'Delete a file or symlink',
    description: 'Takes one name away; a symlink at the path is not followed.',
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}/files',
    query: ['path', 'expectedHash'],
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.DeleteFile',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH'],
  },
  applyBatch: {
    tag: 'Files',
    summary: 'Apply operations as one step',
    description:
      'Carries out writes, deletes and segment writes in order, later ones seeing earlier ones: all of ' +
      'them, or with an error none. Readers see either nothing or all of it. Missing parents are made. An ' +
      'empty list succeeds.',
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
      'Changes ranges of files as one step; bytes that no chunk names stay as they are. Costs what is ' +
      'changed, whatever the size of the file. Missing files and parents are made. With ' +
      '`SEGMENT_CONFLICT_POLICY_SKIP_ON_CONFLICT` files whose `expectedHash` does not hold are left out ' +
      'and named in `skippedPaths`; any other error refuses all of it. The hash of a large file takes one ' +
      'pass over it when it is next asked for.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/patchSegments',
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
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.CreateSymlink',
    errors: [...found, 'ALREADY_EXISTS'],
  },
  listSymlinks: {
    tag: 'Files',
    summary: 'List symlinks',
    description: 'A page of the symlinks in path order. The manifest does not list them.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/symlinks',
    query: ['pathPrefix', 'pageSize', 'pageToken'],
    capabilities: ['files.read'],
    errors: ['SESSION_NOT_FOUND'],
  },
  readSymlink: {
    tag: 'Files',
    summary: 'Read a symlink',
    description: 'The target as it was given.',
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
      'A further name for a file: content, mode, attributes and locks are the same under each of its ' +
      'names. A directory cannot have one.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:link',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.CreateHardLink',
    errors: [...found, 'ALREADY_EXISTS', 'NOT_PERMITTED'],
  },
  unlink: {
    tag: 'Files',
    summary: 'Take away a name of a file',
    description: 'The file goes with its last name; a symlink at the path is not followed.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:unlink',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.Unlink',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH'],
  },
  getCasExtents: {
    tag: 'Files',
    summary: 'List the extents of a file',
    description:
      'Where the bytes of a file are, in order of their offsets; a range that no extent covers is a hole ' +
      'and reads as zeros.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:getCasExtents',
    capabilities: ['files.read'],
    errors: [...found, 'IS_A_DIRECTORY'],
  },
  readFile: {
    tag: 'Files',
    summary: 'Read a file',
    description: 'A part of a file, with hash and size of the whole content that it is of.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:readFile',
    extension: true,
    capabilities: ['files.read'],
    errors: [...found, 'IS_A_DIRECTORY'],
  },
  writeFile: {
    tag: 'Files',
    summary: 'Write a file',
    description:
      'Replaces the content of a file, or makes the file. Missing parents are made, unless ' +
      '`createParents` is false.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:writeFile',
    extension: true,
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.WriteFile',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH', 'ALREADY_EXISTS'],
  },
  appendFile: {
    tag: 'Files',
    summary: 'Append to a file',
    description: 'Adds to the end of a file, which is made when it does not exist. Costs what is added.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:appendFile',
    extension: true,
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.WriteFile',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH'],
  },
  copyFile: {
    tag: 'Files',
    summary: 'Copy a file',
    description:
      'Content and mode of a file for another, which is made or replaced. Both share what they hold until ' +
      'one is changed, so that the cost is the same whatever the size.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:copyFile',
    extension: true,
    capabilities: ['files.read', 'files.write'],
    event: 'v1.FileSystemService.WriteFile',
    errors: [...found, 'IS_A_DIRECTORY', 'ALREADY_EXISTS'],
  },
  setAttributes: {
    tag: 'Files',
    summary: 'Set mode or time of a path',
    description: 'What is absent stays as it is.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:setAttributes',
    extension: true,
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.SetAttributes',
    errors: found,
  },
  statPath: {
    tag: 'Files',
    summary: 'Describe what is at a path',
    description: 'Kind, size, mode, times and names of a file, directory or symlink.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:stat',
    extension: true,
    capabilities: ['files.read'],
    errors: found,
  },
  listDirectory: {
    tag: 'Files',
    summary: 'List a directory',
    description:
      'A page of what is in a directory, by the bytes of the names; with `recursive` of all that is below ' +
      'it, a directory before what is in it. Symlinks in it are not followed.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:listDirectory',
    extension: true,
    capabilities: ['files.read'],
    errors: found,
  },
  setXattr: {
    tag: 'Extended attributes',
    summary: 'Set an extended attribute',
    description:
      'Of a file or directory; a symlink is followed. Kept when the file is written, gone with the file.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:setXattr',
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
    capabilities: ['files.read'],
    errors: [...found, 'XATTR_NOT_FOUND'],
  },
  listXattrs: {
    tag: 'Extended attributes',
    summary: 'List extended attributes',
    description: 'The names of the attributes of a file or directory, sorted.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:listXattrs',
    capabilities: ['files.read'],
    errors: found,
  },
  removeXattr: {
    tag: 'Extended attributes',
    summary: 'Remove an extended attribute',
    description: 'Fails where there is no attribute of this name.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:removeXattr',
    capabilities: ['files.write'],
    event: 'v1.FileSystemService.RemoveXattr',
    errors: [...found, 'XATTR_NOT_FOUND'],
  },
})
