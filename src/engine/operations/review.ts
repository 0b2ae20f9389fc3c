import { defineOperations } from './operation.js'

export const reviewOperations = defineOperations({
  addAnnotation: {
    tag: 'Annotations',
    summary: 'Annotate a file',
    description:
      'A note on a line of a file, or on the whole file, that is refused when the file is no longer what ' +
      'the reviewer saw. Annotations outlive changes of the file and restores.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/annotations',
    implementedBy: 'session.annotations.add',
    capabilities: ['annotations', 'files.read'],
    event: 'v1.AnnotationService.AddAnnotation',
    errors: [
      'SESSION_NOT_FOUND',
      'NAME_TOO_LONG',
      'PATH_NOT_FOUND',
      'NOT_A_DIRECTORY',
      'IS_A_DIRECTORY',
      'SYMLINK_LOOP',
      'HASH_MISMATCH',
      'QUOTA',
    ],
  },
  listAnnotations: {
    tag: 'Annotations',
    summary: 'List annotations',
    description: 'Of one file, or of the whole session, in the order in which they were made.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/annotations',
    query: ['filePath'],
    implementedBy: 'session.annotations.list',
    capabilities: ['annotations', 'files.read'],
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG'],
  },
  updateAnnotationStatus: {
    tag: 'Annotations',
    summary: 'Resolve or reopen an annotation',
    description: 'Setting the status that it already has changes nothing and succeeds.',
    method: 'PATCH',
    path: '/v1/sessions/{sessionId}/annotations/{annotationId}',
    implementedBy: 'session.annotations.setStatus',
    capabilities: ['annotations', 'files.read'],
    event: 'v1.AnnotationService.UpdateAnnotationStatus',
    errors: ['SESSION_NOT_FOUND', 'ANNOTATION_NOT_FOUND'],
  },
  requestApproval: {
    tag: 'Approvals',
    summary: 'Request an approval',
    description:
      'Sets the status of the session to `SESSION_STATUS_PENDING_APPROVAL`, which keeps nobody from ' +
      'writing or committing. Several approvals may be pending at once. What `:generateCommitSummary` ' +
      'gives may be sent as `details`.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/request-approval',
    implementedBy: 'session.approvals.request',
    capabilities: ['approvals'],
    event: 'v1.OversightService.RequestApproval',
    errors: ['SESSION_NOT_FOUND', 'NAME_TOO_LONG', 'QUOTA'],
  },
  listApprovals: {
    tag: 'Approvals',
    summary: 'List approvals',
    description: 'All approvals of the session, decided or not, in the order in which they were requested.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/approvals',
    extension: true,
    implementedBy: 'session.approvals.list',
    capabilities: ['approvals'],
    errors: ['SESSION_NOT_FOUND'],
  },
  grantApproval: {
    tag: 'Approvals',
    summary: 'Grant an approval',
    description:
      'An approval is decided once: a second decision fails, also the same one. After the last pending ' +
      'one the session is active again.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/approvals/{approvalId}/grant',
    implementedBy: 'session.approvals.grant',
    capabilities: ['approvals.decide'],
    event: 'v1.OversightService.GrantApproval',
    errors: ['SESSION_NOT_FOUND', 'APPROVAL_NOT_FOUND', 'APPROVAL_NOT_PENDING'],
  },
  denyApproval: {
    tag: 'Approvals',
    summary: 'Deny an approval',
    description:
      'An approval is decided once: a second decision fails, also the same one. After the last pending ' +
      'one the session is active again.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/approvals/{approvalId}/deny',
    implementedBy: 'session.approvals.deny',
    capabilities: ['approvals.decide'],
    event: 'v1.OversightService.DenyApproval',
    errors: ['SESSION_NOT_FOUND', 'APPROVAL_NOT_FOUND', 'APPROVAL_NOT_PENDING'],
  },
  commit: {
    tag: 'Commits',
    summary: 'Commit the files of a session',
    description:
      'Writes the current state as a git commit and gives its id. Where the session is on a revision of a ' +
      'git remote and `gitBranch` names a branch, the commit is pushed to it: the branch must not exist, ' +
      'or its tip must be the commit that this one builds on. A branch that moved refuses the commit with ' +
      'nothing sent, and the status becomes `SESSION_STATUS_CONFLICT`. Elsewhere the commit is kept by ' +
      'the service alone. When the session’s last commit on the branch has the same files, that commit is ' +
      'given and nothing is made, unless `allowEmpty`.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/commit',
    implementedBy: 'session.commit',
    capabilities: ['commit', 'files.read'],
    event: 'v1.PersistenceService.Commit',
    errors: [
      'SESSION_NOT_FOUND',
      'BRANCH_MOVED',
      'NO_ADAPTER',
      'GIT_UNREACHABLE',
      'GIT_TIMEOUT',
      'GIT_REMOTE_ERROR',
      'GIT_REPO_NOT_FOUND',
      'GIT_NOT_A_REPOSITORY',
      'GIT_AUTH_REQUIRED',
      'GIT_AUTH_FAILED',
      'GIT_ADDRESS_REFUSED',
      'GIT_PUSH_REJECTED',
      'GIT_UNSAFE_PATH',
      'GIT_TOO_LARGE',
      'GIT_CORRUPT',
    ],
  },
  generateCommitSummary: {
    tag: 'Commits',
    summary: 'Summarize the changes of a session',
    description:
      'A description of what changed since the base of the session, made from the paths alone, and the ' +
      'changed paths.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/generateCommitSummary',
    implementedBy: 'session.generateCommitSummary',
    capabilities: ['files.read'],
    errors: ['SESSION_NOT_FOUND'],
  },
})
