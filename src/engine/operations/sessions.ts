import { limits } from '../base/limits.js'
import { defineOperations } from './operation.js'

export const sessionOperations = defineOperations({
  createSession: {
    tag: 'Sessions',
    summary: 'Create a session',
    description:
      'The session starts from a revision of a source, from the given files, or empty. A revision is not ' +
      'copied, so the cost does not depend on its size.',
    method: 'POST',
    path: '/v1/sessions',
    capabilities: ['sessions'],
    when: { source: ['sources'] },
    event: 'v1.SessionService.CreateSession',
    errors: ['SOURCE_NOT_FOUND', 'REVISION_NOT_FOUND', 'SOURCE_WITHOUT_REVISION', 'NAME_TOO_LONG'],
  },
  getSession: {
    tag: 'Sessions',
    summary: 'Get a session',
    description: 'The current tags, status, times and fingerprint of the session.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}',
    capabilities: ['files.read'],
    errors: ['SESSION_NOT_FOUND'],
  },
  listSessions: {
    tag: 'Sessions',
    summary: 'List sessions',
    description:
      'A page of the sessions of the tenant, in the order in which they were created. A page ends early after about ' +
      `${limits.pageBytes / 2 ** 20} MiB; only an empty \`nextPageToken\` marks the end.`,
    method: 'GET',
    path: '/v1/sessions',
    query: ['filter', 'metadata', 'pageSize', 'pageToken'],
    implementedBy: 'engine.sessions.list',
    capabilities: ['sessions'],
    errors: [],
  },
  deleteSession: {
    tag: 'Sessions',
    summary: 'Delete a session',
    description:
      'Hides the session immediately, with its locks, secrets and messages. Forks of it are not affected.',
    method: 'DELETE',
    path: '/v1/sessions/{sessionId}',
    extension: true,
    capabilities: ['delete'],
    event: 'v1.SessionService.DeleteSession',
    errors: ['SESSION_NOT_FOUND'],
  },
  getManifest: {
    tag: 'Sessions',
    summary: 'List the files of a session',
    description:
      'A page of the directories and files of the session, in path order. A directory comes before its ' +
      'contents, which are ordered by the bytes of their names. The root and symlinks are not listed. ' +
      '`manifestHash` identifies the state of the whole tree, including symlinks and extended attributes, ' +
      'and is the same on every page. A page may be shorter than requested; only an empty `nextPageToken` ' +
      'marks the end.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/manifest',
    query: ['pathPrefix', 'pageSize', 'pageToken', 'includeCasExtents'],
    implementedBy: 'session.manifest',
    capabilities: ['files.read'],
    errors: ['SESSION_NOT_FOUND'],
  },
  forkSession: {
    tag: 'Sessions',
    summary: 'Fork a session',
    description:
      'Creates a session with the same files, links, attributes and tags. Nothing is copied, so the cost ' +
      'does not depend on their size. The fork starts without cache, secrets, locks, annotations, ' +
      'approvals, messages and events, and its counters start at zero.',
    method: 'POST',
    path: '/v1/sessions/{sourceSessionId}/fork',
    capabilities: ['fork'],
    when: { checkpoint: ['history'] },
    event: 'v1.SessionService.ForkSession',
    errors: ['SESSION_NOT_FOUND', 'CHECKPOINT_NOT_FOUND', 'EVENT_NOT_FOUND', 'STATE_NOT_KEPT'],
  },
  createCheckpoint: {
    tag: 'Checkpoints',
    summary: 'Create a checkpoint',
    description: 'Names the current state. The cost does not depend on the size of the session.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/checkpoints',
    capabilities: ['history'],
    event: 'v1.PersistenceService.CreateCheckpoint',
    errors: ['SESSION_NOT_FOUND', 'ALREADY_EXISTS'],
  },
  restoreCheckpoint: {
    tag: 'Checkpoints',
    summary: 'Restore a checkpoint',
    description:
      'Takes exactly one of `checkpointId` and `checkpointLabel`. Files, links, modes and extended ' +
      'attributes are restored. Cache, secrets, annotations, approvals, locks, messages and events stay ' +
      'unchanged. Later checkpoints stay usable.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/restore',
    capabilities: ['history', 'files.write'],
    event: 'v1.PersistenceService.RestoreCheckpoint',
    errors: ['SESSION_NOT_FOUND', 'CHECKPOINT_NOT_FOUND'],
  },
  listCheckpoints: {
    tag: 'Checkpoints',
    summary: 'List checkpoints',
    description: 'A page of the checkpoints of the session, oldest first.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/checkpoints',
    query: ['metadata', 'pageSize', 'pageToken'],
    extension: true,
    capabilities: ['history'],
    errors: ['SESSION_NOT_FOUND'],
  },
  deleteCheckpoint: {
    tag: 'Checkpoints',
    summary: 'Delete a checkpoint',
    description:
      'Takes exactly one of `checkpointId` and `checkpointLabel`. The state can no longer be restored, ' +
      'and its label becomes free. Files, events and forks of the checkpoint stay unchanged. The next ' +
      'collection frees the data that only this checkpoint used.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/checkpoints:delete',
    extension: true,
    implementedBy: 'session.deleteCheckpoint',
    capabilities: ['history'],
    event: 'v1.PersistenceService.DeleteCheckpoint',
    errors: ['SESSION_NOT_FOUND', 'CHECKPOINT_NOT_FOUND'],
  },
  diff: {
    tag: 'Checkpoints',
    summary: 'Compare two states',
    description:
      'Lists the paths that differ between two states, in the order of the manifest. A state is the ' +
      'current state of a session, that of a checkpoint, event or time, or its base. The cost depends on the ' +
      'differences: equal directories are not read.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:diff',
    extension: true,
    capabilities: ['files.read'],
    when: { checkpoint: ['history'], otherSession: ['sessions'] },
    errors: ['SESSION_NOT_FOUND', 'CHECKPOINT_NOT_FOUND', 'EVENT_NOT_FOUND', 'STATE_NOT_KEPT'],
  },
  diffFiles: {
    tag: 'Checkpoints',
    summary: 'Compare the files of two states',
    description:
      'Lists the changed files and symlinks between two states, in the order of the manifest, with the ' +
      'numbers of changed lines. With `hunks`, each file has its changed lines; with `patch`, the patch that ' +
      '`git apply` accepts. A page ends early after about ' +
      `${limits.diffPageBytes / 2 ** 20} MiB of compared contents.`,
    method: 'POST',
    path: '/v1/sessions/{sessionId}:diffFiles',
    extension: true,
    capabilities: ['files.read'],
    when: { checkpoint: ['history'], otherSession: ['sessions'] },
    errors: ['SESSION_NOT_FOUND', 'CHECKPOINT_NOT_FOUND', 'TOO_LARGE'],
  },
  listEvents: {
    tag: 'Sessions',
    summary: 'List the events of a session',
    description:
      'The history of the session, oldest first. Each event records a change. Events are never rewritten, ' +
      'and a restore removes none. A page ends early after about ' +
      `${limits.pageBytes / 2 ** 20} MiB; only an empty \`nextPageToken\` marks the end.`,
    method: 'GET',
    path: '/v1/sessions/{sessionId}/events',
    query: ['startTime', 'endTime', 'pageSize', 'pageToken'],
    capabilities: ['history'],
    errors: ['SESSION_NOT_FOUND'],
  },
})
