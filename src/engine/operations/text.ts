import { defineOperations } from './operation.js'

const found = [
  'SESSION_NOT_FOUND',
  'NAME_TOO_LONG',
  'NOT_A_DIRECTORY',
  'SYMLINK_LOOP',
  'PATH_NOT_FOUND',
] as const

export const textOperations = defineOperations({
  readLines: {
    tag: 'Search and edit',
    summary: 'Read lines of a file',
    description:
      'Reads lines by their numbers, and returns facts about the whole file: its number of lines, its hash, its line ' +
      'ends. The first read of a large file goes through all of it.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:readLines',
    extension: true,
    implementedBy: 'session.text.readLines',
    capabilities: ['files.read'],
    errors: [...found, 'IS_A_DIRECTORY'],
  },
  editFile: {
    tag: 'Search and edit',
    summary: 'Replace text in a file',
    description:
      'Replaces text that is in the file exactly once, or with `all` every match. Several edits are one change: each ' +
      'sees the result of those before it. The new text is literal. Line ends and a byte order mark stay.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:edit',
    extension: true,
    implementedBy: 'session.text.edit',
    capabilities: ['files.read', 'files.write'],
    event: 'v1.FileSystemService.EditFile',
    errors: [...found, 'IS_A_DIRECTORY', 'HASH_MISMATCH', 'NO_MATCH', 'NOT_UNIQUE', 'FILE_TOO_LARGE'],
  },
  applyPatch: {
    tag: 'Search and edit',
    summary: 'Apply a patch',
    description:
      'Applies a patch to all of its files in one step. It is in the unified format of `git diff`, or in the format ' +
      'V4A, which begins with `*** Begin Patch`. If a part does not apply, nothing changes.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:applyPatch',
    extension: true,
    implementedBy: 'session.text.applyPatch',
    capabilities: ['files.read', 'files.write'],
    event: 'v1.FileSystemService.ApplyPatch',
    errors: [
      ...found,
      'IS_A_DIRECTORY',
      'ALREADY_EXISTS',
      'HASH_MISMATCH',
      'NO_MATCH',
      'INVALID_PATCH',
      'FILE_TOO_LARGE',
    ],
  },
  globPaths: {
    tag: 'Search and edit',
    summary: 'Find paths by globs',
    description: 'Lists the files, and on request the directories, whose paths match one of the globs.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:glob',
    extension: true,
    implementedBy: 'session.text.glob',
    capabilities: ['files.read'],
    errors: found,
  },
  grepFiles: {
    tag: 'Search and edit',
    summary: 'Search the text of files',
    description:
      'Searches files line by line for a text, or for a regular expression in the syntax of RE2. The time is in ' +
      'proportion to the text, whatever the expression. Binary files are skipped. A second search on a fork reads ' +
      'only the files that changed.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:grep',
    extension: true,
    implementedBy: 'session.text.grep',
    capabilities: ['files.read'],
    errors: found,
  },
})
