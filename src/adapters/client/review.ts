import type { PublicOf, SessionAnnotations, SessionApprovals } from '../../engine/index.js'
import { remoteService } from './remote-service.js'

/** Review notes on files. Like `session.annotations` of a local engine. */
export class RemoteAnnotations
  extends remoteService('session.annotations')
  implements PublicOf<SessionAnnotations> {}

/** Requests for approval. Like `session.approvals` of a local engine. */
export class RemoteApprovals
  extends remoteService('session.approvals')
  implements PublicOf<SessionApprovals> {}
