import { limits } from '../base/limits.js'
import { defineOperations } from './operation.js'

export const reviewOperations = defineOperations({
  addAnnotation: {
    tag: 'Annotations',
    summary: 'Annotate a file',
    description:
      'Adds a note to a line of a file, or to the whole file. Fails if the file no longer has the content ' +
      'that the reviewer saw. Annotations survive changes of the file and restores.',
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
    description:
      'The annotations of one file, or of the whole session, in the order in which they were made.',
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
    description: 'Setting the status that the annotation already has succeeds and changes nothing.',
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
      'Sets the status of the session to `SESSION_STATUS_PENDING_APPROVAL`. This does not prevent writes ' +
      'or commits. Several approvals may be pending at once. The response of `:generateCommitSummary` may ' +
      'be sent as `details`.',
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
    description:
      'All approvals of the session, pending and decided, in the order in which they were requested.',
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
      'An approval is decided once: a second decision fails, even an identical one. The session becomes ' +
      'active again once no approval is pending.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/approvals/{approvalId}/grant',
    implementedBy: 'session.approvals.grant',
    capabilities: ['approvals.decide'],
    event: 'v1.OversightService.GrantApproval',
    errors: ['SESSION_NOT_FOUND', 'APPROVAL_NOT_FOUND', 'APPROVAL_NOT_PENDING', 'QUOTA'],
  },
  denyApproval: {
    tag: 'Approvals',
    summary: 'Deny an approval',
    description:
      'An approval is decided once: a second decision fails, even an identical one. The session becomes ' +
      'active again once no approval is pending.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/approvals/{approvalId}/deny',
    implementedBy: 'session.approvals.deny',
    capabilities: ['approvals.decide'],
    event: 'v1.OversightService.DenyApproval',
    errors: ['SESSION_NOT_FOUND', 'APPROVAL_NOT_FOUND', 'APPROVAL_NOT_PENDING', 'QUOTA'],
  },
  commit: {
    tag: 'Commits',
    summary: 'Commit the files of a session',
    description:
      'Writes the current state as a git commit and returns its id. If the session starts from a revision ' +
      'of a git remote and `gitBranch` names a branch, the commit is pushed to that branch. The branch ' +
      'must not exist, or its tip must be the parent of the new commit. If the branch has moved, the ' +
      'request fails with nothing sent, and the status becomes `SESSION_STATUS_CONFLICT`. In all other ' +
      'cases, only the service keeps the commit. If the session’s last commit on the branch has the same ' +
      'files, that commit is returned and none is made, unless `allowEmpty` is true.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/commit',
    implementedBy: 'session.commit',
    capabilities: ['commit', 'files.read'],
    event: 'v1.PersistenceService.Commit',
    errors: [
      'SESSION_NOT_FOUND',
      'BRANCH_MOVED',
      'UNRESOLVED_CONFLICTS',
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
  listCommits: {
    tag: 'Commits',
    summary: 'List the commits of a session',
    description:
      'The commits that the session has made, by branch, and newest first within a branch. The imported commit ' +
      'is not one of them. A page ends early after about ' +
      `${limits.pageBytes / 2 ** 20} MiB of messages; only an empty \`nextPageToken\` marks the end.`,
    method: 'GET',
    path: '/v1/sessions/{sessionId}/commits',
    query: ['branchName', 'pageSize', 'pageToken'],
    extension: true,
    implementedBy: 'session.commits.list',
    capabilities: ['files.read', 'history'],
    errors: ['SESSION_NOT_FOUND', 'NO_ADAPTER'],
  },
  getCommit: {
    tag: 'Commits',
    summary: 'Get a commit of a session',
    description: 'One commit that the session has made.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/commits/{commitId}',
    extension: true,
    implementedBy: 'session.commits.get',
    capabilities: ['files.read', 'history'],
    errors: ['SESSION_NOT_FOUND', 'COMMIT_NOT_FOUND', 'NO_ADAPTER'],
  },
  readCommitFile: {
    tag: 'Commits',
    summary: 'Read a file of a commit',
    description: 'The content that a file has in a commit of the session.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/commits/{commitId}/file',
    query: ['path'],
    extension: true,
    implementedBy: 'session.commits.readFile',
    capabilities: ['files.read', 'history'],
    errors: ['SESSION_NOT_FOUND', 'COMMIT_NOT_FOUND', 'PATH_NOT_FOUND', 'NAME_TOO_LONG', 'NO_ADAPTER'],
  },
  generateCommitSummary: {
    tag: 'Commits',
    summary: 'Summarize the changes of a session',
    description:
      'Returns the paths that changed since the base of the session, and a description made from these ' +
      'paths alone.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/generateCommitSummary',
    implementedBy: 'session.generateCommitSummary',
    capabilities: ['files.read'],
    errors: ['SESSION_NOT_FOUND'],
  },
})
