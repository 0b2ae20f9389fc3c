import type {
  PublicOf,
  SessionAnnotations,
  SessionApprovals,
  SessionCommits,
  SessionConflicts,
} from '../../engine/index.js'
import { remoteService } from './remote-service.js'

/** Review notes on files. Like `session.annotations` of a local engine. */
export class RemoteAnnotations
  extends remoteService('session.annotations')
  implements PublicOf<SessionAnnotations> {}

/** Requests for approval. Like `session.approvals` of a local engine. */
export class RemoteApprovals
  extends remoteService('session.approvals')
  implements PublicOf<SessionApprovals> {}

/** The git commits of a session. Like `session.commits` of a local engine, without `exportBundle`. */
export class RemoteCommits
  extends remoteService('session.commits', 'exportBundle')
  implements Omit<PublicOf<SessionCommits>, 'exportBundle'> {}

/** Unresolved conflicts of a merge or rebase. Like `session.conflicts` of a local engine. */
export class RemoteConflicts
  extends remoteService('session.conflicts')
  implements PublicOf<SessionConflicts> {}
