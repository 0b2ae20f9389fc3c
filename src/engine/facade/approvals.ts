import {
  parseApprovalRequest,
  parseDenial,
  parseGrant,
  type ApprovalDenyRequest,
  type ApprovalGrantRequest,
  type ApprovalRequest,
  type Approvals,
} from '../services/approvals.js'
import type { Approval } from '../records/approval.js'
import type { SessionAccess } from '../session/access/session-access.js'

/**
 * Requests for a decision, by another principal where the engine has `approvals: { selfApproval: false }`. While one
 * is pending, the session's status is PENDING_APPROVAL. This does not prevent writing or committing. Forks have none
 * of them.
 */
export class SessionApprovals {
  readonly #access: SessionAccess
  readonly #service: Approvals

  constructor(access: SessionAccess, service: Approvals) {
    this.#access = access
    this.#service = service
  }

  /**
   * Asks for an approval. Several may be pending at once. QUOTA for over 10,000 in a session.
   *
   * @example
   * const { summary, changedFiles } = await session.generateCommitSummary()
   * const { approvalId } = await session.approvals.request({ details: { summary, changedFiles } })
   */
  async request(request: ApprovalRequest = {}): Promise<{ approvalId: string }> {
    const parsed = parseApprovalRequest(request)
    return this.#access.run('requestApproval', (live) =>
      this.#service.request(this.#access.core, live, parsed),
    )
  }

  /**
   * APPROVAL_NOT_FOUND; APPROVAL_NOT_PENDING when it was granted or denied before; PERMISSION_DENIED, with
   * `approvals: { selfApproval: false }`, for the principal that requested it.
   */
  async grant(request: ApprovalGrantRequest): Promise<void> {
    const decision = parseGrant(request)
    return this.#access.run('grantApproval', (live) =>
      this.#service.decide(this.#access.core, live, decision),
    )
  }

  /** As {@link grant}, also by the principal that requested it; the feedback is in the approval and its event. */
  async deny(request: ApprovalDenyRequest): Promise<void> {
    const decision = parseDenial(request)
    return this.#access.run('denyApproval', (live) => this.#service.decide(this.#access.core, live, decision))
  }

  /** All of the session, in order of creation. */
  async list(): Promise<{ approvals: Approval[] }> {
    return this.#access.look('listApprovals', (live) => this.#service.list(this.#access.core, live))
  }
}
