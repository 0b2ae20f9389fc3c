import type { ErrorReason } from '../base/errors.js'
import { defineOperations } from './operation.js'

const atState = [
  'SESSION_NOT_FOUND',
  'CHECKPOINT_NOT_FOUND',
  'EVENT_NOT_FOUND',
  'STATE_NOT_KEPT',
] as const satisfies readonly ErrorReason[]

const found = [
  'PATH_NOT_FOUND',
  'NOT_A_DIRECTORY',
  'SYMLINK_LOOP',
  'NAME_TOO_LONG',
] as const satisfies readonly ErrorReason[]

export const historyOperations = defineOperations({
  resolveState: {
    tag: 'History',
    summary: 'Identify a state',
    description:
      'The event that a state follows: that of an event, a time or a checkpoint; without any, the newest. The ' +
      'id is empty for the base.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/state',
    query: ['checkpointId', 'checkpointLabel', 'eventId', 'time', 'base'],
    extension: true,
    capabilities: ['files.read'],
    when: { checkpoint: ['history'] },
    errors: atState,
  },
  restoreState: {
    tag: 'History',
    summary: 'Restore a state, or some of its paths',
    description:
      'Changes the files back to an earlier state, with one event. With `paths`, only these files and directories ' +
      'are restored, and removed if the earlier state does not have them. `dryRun` changes nothing and lists the ' +
      'paths that would change.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:restoreState',
    extension: true,
    capabilities: ['history', 'files.write', 'files.read'],
    event: 'v1.PersistenceService.RestoreState',
    errors: [...atState, 'PATH_NOT_FOUND', 'NOT_A_DIRECTORY', 'NAME_TOO_LONG'],
  },
  readFileAt: {
    tag: 'History',
    summary: 'Read a file of an earlier state',
    description: 'Like readFile, on the state `at`.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:readFileAt',
    extension: true,
    capabilities: ['files.read'],
    when: { checkpoint: ['history'] },
    errors: [...atState, ...found, 'IS_A_DIRECTORY'],
  },
  statPathAt: {
    tag: 'History',
    summary: 'Get the metadata of a path in an earlier state',
    description: 'Like statPath, on the state `at`.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:statAt',
    extension: true,
    capabilities: ['files.read'],
    when: { checkpoint: ['history'] },
    errors: [...atState, ...found],
  },
  listDirectoryAt: {
    tag: 'History',
    summary: 'List a directory of an earlier state',
    description: 'Like listDirectory, on the state `at`.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:listDirectoryAt',
    extension: true,
    capabilities: ['files.read'],
    when: { checkpoint: ['history'] },
    errors: [...atState, ...found],
  },
  getManifestAt: {
    tag: 'History',
    summary: 'List the files of an earlier state',
    description: 'Like getManifest, on the state `at`.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:manifestAt',
    extension: true,
    capabilities: ['files.read'],
    when: { checkpoint: ['history'] },
    errors: atState,
  },
  listPathHistory: {
    tag: 'History',
    summary: 'List the changes of a path',
    description:
      'The events that changed the content, mode, attributes or existence of a path, newest first. Renames are ' +
      'followed. A page may have fewer changes than requested; only an empty `nextPageToken` marks the end.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/history',
    query: ['path', 'pageSize', 'pageToken'],
    extension: true,
    implementedBy: 'session.history',
    capabilities: ['history', 'files.read'],
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG'],
  },
  blame: {
    tag: 'History',
    summary: 'Find the events that changed the lines of a file',
    description:
      'The event, time and principal that last changed each line of a text file of up to 16 MiB. Lines that an ' +
      'undo or restore brought back keep their original event.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:blame',
    extension: true,
    implementedBy: 'session.blame',
    capabilities: ['history', 'files.read'],
    errors: [...atState, ...found, 'IS_A_DIRECTORY'],
  },
  getLineage: {
    tag: 'History',
    summary: 'Get the relatives of a session',
    description:
      'The parent of a fork, a page of the forks of the session, and with `with` the newest common ancestors with ' +
      'another session. A page may have fewer forks than requested; only an empty `nextPageToken` marks the end.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/lineage',
    query: ['with', 'pageSize', 'pageToken'],
    extension: true,
    implementedBy: 'session.lineage',
    capabilities: ['history', 'sessions', 'files.read'],
    errors: ['SESSION_NOT_FOUND'],
  },
  watchChanges: {
    tag: 'History',
    summary: 'Watch the changes of files',
    description:
      'Opens a stream of JSON objects, one per line. Each is `{"result": batch}`; `{"error": status}` ends the ' +
      'stream. A batch has the differences between two states. It is sent when no change has followed for ' +
      '`debounceMs`. Without `afterEventId`, the stream starts at the newest event. The response begins ' +
      'immediately, even when there are no changes. No change is missed: a slow reader gets fewer batches, with ' +
      'more changes. After a lost connection, pass the `eventId` of the last batch as `afterEventId`.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/watch',
    query: ['globs', 'debounceMs', 'afterEventId'],
    stream: true,
    extension: true,
    capabilities: ['files.read', 'history'],
    errors: ['SESSION_NOT_FOUND', 'EVENT_NOT_FOUND', 'STATE_NOT_KEPT'],
  },
  undo: {
    tag: 'History',
    summary: 'Undo changes of files',
    description:
      'Undoes the newest changes of files, with one event. Events without changes of files are skipped. By group, ' +
      'the newest changes of one group count as one. `dryRun` changes nothing and lists the paths that would change.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:undo',
    extension: true,
    implementedBy: 'session.undo',
    capabilities: ['history', 'files.write', 'files.read'],
    event: 'v1.PersistenceService.Undo',
    errors: ['SESSION_NOT_FOUND', 'STATE_NOT_KEPT', 'UNRESOLVED_CONFLICTS'],
  },
  redo: {
    tag: 'History',
    summary: 'Redo undone changes',
    description:
      'Repeats the changes that were undone last, with one event. A new change of files after an undo ends this. ' +
      '`dryRun` changes nothing and lists the paths that would change.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}:redo',
    extension: true,
    implementedBy: 'session.redo',
    capabilities: ['history', 'files.write', 'files.read'],
    event: 'v1.PersistenceService.Redo',
    errors: ['SESSION_NOT_FOUND', 'STATE_NOT_KEPT', 'UNRESOLVED_CONFLICTS'],
  },
})
