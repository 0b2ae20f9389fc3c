import { defineOperations } from './operation.js'

export const sessionOperations = defineOperations({
  createSession: {
    tag: 'Sessions',
    summary: 'Create a session',
    description:
      'Starts on a revision of a source, on the given files, or empty. A session on a revision costs the ' +
      'same whatever the size of the revision: nothing is copied.',
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
    description: 'Tags, status, times and fingerprint as of now.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}',
    capabilities: ['files.read'],
    errors: ['SESSION_NOT_FOUND'],
  },
  listSessions: {
    tag: 'Sessions',
    summary: 'List sessions',
    description: 'The sessions of the tenant, in the order in which they were created.',
    method: 'GET',
    path: '/v1/sessions',
    query: ['filter', 'pageSize', 'pageToken'],
    implementedBy: 'engine.sessions.list',
    capabilities: ['sessions'],
    errors: [],
  },
  deleteSession: {
    tag: 'Sessions',
    summary: 'Delete a session',
    description: 'Hides the session at once, with its locks, secrets and messages. Forks of it stay whole.',
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
      'A page of the tree: directories and files in path order, a directory before what is in it; within ' +
      'a directory by the bytes of the names. The root and symlinks are not listed. `manifestHash` names ' +
      'the state of the whole tree, symlinks and extended attributes included, and is the same on every ' +
      'page. A page may be shorter than asked for; only an empty `nextPageToken` is the end.',
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
      'Makes a session with the same files, links, attributes and tags, at once and whatever the size. ' +
      'Cache, secrets, locks, annotations, approvals, messages, events and counters are not carried over.',
    method: 'POST',
    path: '/v1/sessions/{sourceSessionId}/fork',
    capabilities: ['fork'],
    when: { checkpoint: ['history'] },
    event: 'v1.SessionService.ForkSession',
    errors: ['SESSION_NOT_FOUND', 'CHECKPOINT_NOT_FOUND'],
  },
  createCheckpoint: {
    tag: 'Checkpoints',
    summary: 'Create a checkpoint',
    description: 'Names the current state, at once and whatever the size.',
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
      'Exactly one of `checkpointId` and `checkpointLabel`. Files, links, modes and extended attributes ' +
      'become what they were; cache, secrets, annotations, approvals, locks, messages and events stay as ' +
      'they are. Later checkpoints stay usable.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/restore',
    implementedBy: 'session.restore',
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
    query: ['pageSize', 'pageToken'],
    extension: true,
    capabilities: ['history'],
    errors: ['SESSION_NOT_FOUND'],
  },
  deleteCheckpoint: {
    tag: 'Checkpoints',
    summary: 'Delete a checkpoint',
    description:
      'Exactly one of `checkpointId` and `checkpointLabel`. The state cannot be gone back to any more, and ' +
      'the label is free; files and events stay as they are, and so do forks of it. What only this ' +
      'checkpoint held is freed by the next collection.',
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
      'The paths on which two states differ, in the order of the manifest. A state is the newest one of a ' +
      'session, one of its checkpoints, or its base. Costs what differs: equal directories are not looked ' +
      'into.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:diff',
    extension: true,
    capabilities: ['files.read'],
    when: { checkpoint: ['history'], otherSession: ['sessions'] },
    errors: ['SESSION_NOT_FOUND', 'CHECKPOINT_NOT_FOUND'],
  },
  listEvents: {
    tag: 'Sessions',
    summary: 'List the events of a session',
    description:
      'The history of the session, oldest first. Events tell of changes that were made, are never ' +
      'rewritten, and go on over a restore.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/events',
    query: ['startTime', 'endTime', 'pageSize', 'pageToken'],
    capabilities: ['history'],
    errors: ['SESSION_NOT_FOUND'],
  },
})
