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
 * is pending, the status of the session is PENDING_APPROVAL. This does not prevent writing or committing. Forks start
 * without any.
 */
export class SessionApprovals {
  readonly #access: SessionAccess
  readonly #service: Approvals

  /** @internal */
  constructor(access: SessionAccess, service: Approvals) {
    this.#access = access
    this.#service = service
  }

  /**
   * Asks for an approval. Several may be pending at once.
   *
   * @throws {EngineError} TOO_LARGE when the summary is over 65,536 bytes, or lists over 10,000 changed files.
   * @throws {EngineError} QUOTA when the session would have over 10,000 approvals, or over 64 MiB of texts and paths in them.
   *
   * @example
   * const { summary, changedFiles } = await session.generateCommitSummary()
   * const { approvalId } = await session.approvals.request({ details: { summary, changedFiles } })
   */
  async request(request: ApprovalRequest = {}): Promise<{
    /** The id of the new approval. */
    approvalId: string
  }> {
    const parsed = parseApprovalRequest(request)
    return this.#access.run('requestApproval', (live) =>
      this.#service.request(this.#access.core, live, parsed),
    )
  }

  /**
   * Grants a pending approval.
   *
   * @throws {EngineError} APPROVAL_NOT_FOUND when the session has no approval with this id.
   * @throws {EngineError} APPROVAL_NOT_PENDING when it was granted or denied before.
   * @throws {EngineError} PERMISSION_DENIED when the same principal requested it, with `approvals: { selfApproval:
   * false }`.
   * @throws {EngineError} QUOTA when the feedback exceeds the limit of texts of all approvals.
   *
   * @example
   * const { approvalId } = await session.approvals.request()
   * await session.approvals.grant({ approvalId })
   */
  async grant(request: ApprovalGrantRequest): Promise<void> {
    const decision = parseGrant(request)
    return this.#access.run('grantApproval', (live) =>
      this.#service.decide(this.#access.core, live, decision),
    )
  }

  /**
   * Denies a pending approval, as every principal may, also the one that requested it. The approval and its event
   * record the feedback.
   *
   * @throws {EngineError} APPROVAL_NOT_FOUND when the session has no approval with this id.
   * @throws {EngineError} APPROVAL_NOT_PENDING when it was granted or denied before.
   * @throws {EngineError} QUOTA when the feedback exceeds the limit of texts of all approvals.
   *
   * @example
   * const { approvalId } = await session.approvals.request()
   * await session.approvals.deny({ approvalId, feedback: 'The tests fail.' })
   */
  async deny(request: ApprovalDenyRequest): Promise<void> {
    const decision = parseDenial(request)
    return this.#access.run('denyApproval', (live) => this.#service.decide(this.#access.core, live, decision))
  }

  /**
   * All approvals of the session, pending and decided.
   *
   * @example
   * const { approvals } = await session.approvals.list()
   */
  async list(): Promise<{
    /** In order of creation. */
    approvals: Approval[]
  }> {
    return this.#access.look('listApprovals', (live) => this.#service.list(this.#access.core, live))
  }
}
