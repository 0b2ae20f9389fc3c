import { defineOperations } from './operation.js'

const merging = [
  'SESSION_NOT_FOUND',
  'UNRESOLVED_CONFLICTS',
  'MERGE_CONFLICT',
  'MERGE_TARGET_MOVED',
  'LIMIT_EXCEEDED',
] as const

export const mergeOperations = defineOperations({
  mergeSession: {
    tag: 'Merges',
    summary: 'Merge a session',
    description:
      'Merges the changes of another session since the newest common ancestor of both, as one event. Files ' +
      'that only one side changed are taken whole, and text that both changed is merged by lines. A conflict ' +
      'keeps the content of this session and is listed until it is resolved, unless a policy decides it.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:merge',
    extension: true,
    capabilities: ['files.read', 'files.write'],
    when: { checkpoint: ['history'], otherSession: ['sessions'] },
    event: 'v1.PersistenceService.MergeSession',
    errors: [...merging, 'CHECKPOINT_NOT_FOUND', 'NO_COMMON_ANCESTOR', 'MERGE_BASE_GONE'],
  },
  rebaseSession: {
    tag: 'Merges',
    summary: 'Rebase a session',
    description:
      'Moves the session onto another revision of its source, by default the latest: merges the changes ' +
      'between its base and that revision, which becomes its base. The next commit builds on it. After ' +
      '`BRANCH_MOVED`, refresh the source, rebase, and commit again.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:rebase',
    extension: true,
    capabilities: ['files.read', 'files.write', 'sources'],
    event: 'v1.PersistenceService.RebaseSession',
    errors: [...merging, 'SOURCE_NOT_FOUND', 'REVISION_NOT_FOUND', 'SOURCE_WITHOUT_REVISION'],
  },
  listConflicts: {
    tag: 'Merges',
    summary: 'List conflicts',
    description: 'A page of the unresolved conflicts of the last merge or rebase, in order of their paths.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/conflicts',
    query: ['pageSize', 'pageToken'],
    extension: true,
    implementedBy: 'session.conflicts.list',
    capabilities: ['files.read'],
    errors: ['SESSION_NOT_FOUND'],
  },
  readConflict: {
    tag: 'Merges',
    summary: 'Read a conflict',
    description: 'The contents of the three sides of an unresolved conflict, and the lines that differ.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/conflicts:read',
    query: ['path'],
    extension: true,
    implementedBy: 'session.conflicts.read',
    capabilities: ['files.read'],
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'CONFLICT_NOT_FOUND'],
  },
  resolveConflict: {
    tag: 'Merges',
    summary: 'Resolve a conflict',
    description:
      'Takes exactly one of `use`, `content` and `deleted`. The file gets that content, and the conflict is ' +
      'no longer listed, as one event.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/conflicts:resolve',
    extension: true,
    implementedBy: 'session.conflicts.resolve',
    capabilities: ['files.read', 'files.write'],
    event: 'v1.PersistenceService.ResolveConflicts',
    errors: [
      'SESSION_NOT_FOUND',
      'NAME_TOO_LONG',
      'CONFLICT_NOT_FOUND',
      'NOT_A_DIRECTORY',
      'MERGE_TARGET_MOVED',
    ],
  },
  resolveConflicts: {
    tag: 'Merges',
    summary: 'Resolve all conflicts',
    description: 'Takes the files of one side at all unresolved conflicts, as one event.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:resolveConflicts',
    extension: true,
    implementedBy: 'session.conflicts.resolveAll',
    capabilities: ['files.read', 'files.write'],
    event: 'v1.PersistenceService.ResolveConflicts',
    errors: ['SESSION_NOT_FOUND', 'NOT_A_DIRECTORY', 'MERGE_TARGET_MOVED'],
  },
  abortMerge: {
    tag: 'Merges',
    summary: 'Abort a merge',
    description:
      'Restores the files from before a merge or rebase that has unresolved conflicts, as one event. Later ' +
      'changes of files are undone too.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:abortMerge',
    extension: true,
    implementedBy: 'session.conflicts.abort',
    capabilities: ['history', 'files.write'],
    event: 'v1.PersistenceService.AbortMerge',
    errors: ['SESSION_NOT_FOUND', 'CONFLICT_NOT_FOUND'],
  },
})
