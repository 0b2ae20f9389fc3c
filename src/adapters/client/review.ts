import type { PublicOf, SessionAnnotations, SessionApprovals } from '../../engine/index.js'
import { remoteService } from './remote-service.js'

/** Notes on files, for review. As `session.annotations` in process. */
export class RemoteAnnotations
  extends remoteService('session.annotations')
  implements PublicOf<SessionAnnotations> {}

/** Requests for a decision. As `session.approvals` in process. */
export class RemoteApprovals
  extends remoteService('session.approvals')
  implements PublicOf<SessionApprovals> {}
