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
    method: 'POST',
    path: '/v1/sessions/{sessionId}/dirs',
    capability: 'files.write',
    event: 'v1.FileSystemService.CreateDirectory',
    errors: [...found, 'ALREADY_EXISTS'],
  },
  removeDirectory: {
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}/dirs',
    query: ['path'],
    capability: 'files.write',
    event: 'v1.FileSystemService.RemoveDirectory',
    errors: [...found, 'DIRECTORY_NOT_EMPTY'],
  },
  rename: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:rename',
    aliases: ['/v1/sessions/{sessionId}/rename'],
    capability: 'files.write',
    event: 'v1.FileSystemService.Rename',
    errors: [...found, 'IS_A_DIRECTORY', 'DIRECTORY_NOT_EMPTY'],
  },
  deleteFile: {
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}/files',
    query: ['path', 'expectedHash'],
    capability: 'files.write',
    event: 'v1.FileSystemService.DeleteFile',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH'],
  },
  applyBatch: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/batch',
    capability: 'files.write',
    event: 'v1.FileSystemService.ApplyBatch',
    errors: [...written, 'PATH_NOT_FOUND'],
  },
  patchSegments: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/patchSegments',
    capability: 'files.write',
    event: 'v1.FileSystemService.PatchSegments',
    errors: written,
  },
  createSymlink: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/symlinks',
    capability: 'files.write',
    event: 'v1.FileSystemService.CreateSymlink',
    errors: [...found, 'ALREADY_EXISTS'],
  },
  listSymlinks: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/symlinks',
    query: ['pathPrefix', 'pageSize', 'pageToken'],
    capability: 'files.read',
    errors: ['SESSION_NOT_FOUND'],
  },
  readSymlink: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/readSymlink',
    query: ['path'],
    capability: 'files.read',
    errors: [...found, 'NOT_A_SYMLINK'],
  },
  createHardLink: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:link',
    capability: 'files.write',
    event: 'v1.FileSystemService.CreateHardLink',
    errors: [...found, 'ALREADY_EXISTS', 'NOT_PERMITTED'],
  },
  unlink: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:unlink',
    capability: 'files.write',
    event: 'v1.FileSystemService.Unlink',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH'],
  },
  getCasExtents: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:getCasExtents',
    capability: 'files.read',
    errors: [...found, 'IS_A_DIRECTORY'],
  },
  readFile: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:readFile',
    extension: true,
    capability: 'files.read',
    errors: [...found, 'IS_A_DIRECTORY'],
  },
  setXattr: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:setXattr',
    capability: 'files.write',
    event: 'v1.FileSystemService.SetXattr',
    errors: [...found, 'QUOTA'],
  },
  getXattr: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:getXattr',
    capability: 'files.read',
    errors: [...found, 'XATTR_NOT_FOUND'],
  },
  listXattrs: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:listXattrs',
    capability: 'files.read',
    errors: found,
  },
  removeXattr: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}:removeXattr',
    capability: 'files.write',
    event: 'v1.FileSystemService.RemoveXattr',
    errors: [...found, 'XATTR_NOT_FOUND'],
  },
})
