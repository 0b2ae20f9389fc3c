import { formatTime } from '../base/environment.js'
import { EngineError, invalid } from '../base/errors.js'
import { whenLoaded } from '../base/fault.js'
import { parseTime } from '../base/time.js'
import { isId } from '../base/ids.js'
import { given, parseFlag, parseText, shown, readList, kindOf } from '../base/input.js'
import { Shape } from '../base/shape.js'
import { jsonBytes } from '../base/json-bytes.js'
import { limits } from '../base/limits.js'
import { parsePath } from '../base/path.js'
import type { Core } from '../session/core.js'
import { eventTypes, type EventType } from '../records/event.js'
import type { LiveSession } from '../session/table/live.js'
import type { RecordChanges } from '../session/journal/journal.js'
import { roughly, SessionIndex } from '../session/table/session-index.js'
import { settled } from '../session/status.js'
import { mutate, record } from '../session/mutation-queue.js'
import { keys } from '../storage/keys.js'
import { asObject, asText, checked, damaged } from './bundles/bundle-checks.js'
import { withoutSession, type BundleFacts } from './bundles/bundle-facts.js'
import { checkQuota } from './quota.js'
import { type Approval, approvalKind, ApprovalStatus } from '../records/approval.js'

/** Options of the engine that set which principals may decide on approvals. */
export interface ApprovalOptions {
  /**
   * Whether the principal that requested an approval may grant it. The default is true, so that a single
   * token can do both. If false, another principal must grant it. The requesting principal may still deny it,
   * which withdraws the request. Imports of bundles then leave out approvals, because a bundle can claim any.
   */
  readonly selfApproval?: boolean
}

/**
 * Reads the options: whether a principal may grant its own requests.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is invalid
 */
export function parseApprovalOptions(options: ApprovalOptions = {}): boolean {
  const { selfApproval } = optionsShape.readPart(options, 'approvals')
  return parseFlag('approvals.selfApproval', selfApproval, true)
}

/** The request of `session.approvals.request`. */
export interface ApprovalRequest {
  /**
   * The kind of decision: upper-case letters, digits and underscores, at most 1,024 bytes; `COMMIT_TO_MAIN` by
   * default.
   */
  readonly reason?: string
  /** Information for the principal that decides. `session.generateCommitSummary` makes it. */
  readonly details?: {
    /** A description of the changes, at most 65,536 bytes; '' by default. */
    readonly summary?: string
    /** Absolute paths in the session, at most 10,000; none by default. */
    readonly changedFiles?: readonly string[]
  }
}

type ParsedRequest = Pick<Approval, 'reason' | 'summary' | 'changedFiles'>

interface Decision {
  readonly approvalId: string
  readonly status: ApprovalStatus
  readonly feedback: string
}

interface ApprovalIndex {
  readonly byId: Map<string, Approval>
  /** The newest id. Ids sort in order of creation. */
  newest: string | undefined
  /** The texts and paths of all approvals. */
  bytes: number
}

function put(index: ApprovalIndex, approval: Approval): void {
  const before = index.byId.get(approval.approvalId)
  if (before === undefined) index.newest = approval.approvalId
  else index.bytes -= bytesOf(before)
  index.bytes += bytesOf(approval)
  index.byId.set(approval.approvalId, approval)
}

function bytesOf({
  reason,
  summary,
  changedFiles,
  feedback,
}: Pick<Approval, 'reason' | 'summary' | 'changedFiles' | 'feedback'>): number {
  let bytes = jsonBytes(reason) + jsonBytes(summary) + jsonBytes(feedback)
  for (const path of changedFiles) bytes += jsonBytes(path) + limits.approvalPathBytes
  return bytes
}

/**
 * Requests for approval. While one is pending, the session has the status `PENDING_APPROVAL`. This status is
 * advisory: it prevents neither writes nor commits. Each request is decided once.
 */
export class Approvals {
  readonly #selfApproval: boolean
  readonly #indexes = new SessionIndex<ApprovalIndex>(
    keys.approvals,
    () => ({ byId: new Map(), newest: undefined, bytes: 0 }),
    (index, json, _core, key) => put(index, approvalKind.parse(json, key)),
    { weigh: ({ byId, bytes }) => byId.size * roughly.record + bytes },
  )

  /** A bundle includes only decided requests, because the others could never be decided elsewhere. */
  readonly facts: BundleFacts

  constructor(selfApproval: boolean) {
    this.#selfApproval = selfApproval
    this.facts = {
      name: 'approvals',
      action: 'listApprovals',
      importAction: 'grantApproval',
      maxCount: limits.approvals,
      maxBytes: limits.approvalBytes,
      bytesOf: (record) => bytesOf(record as Approval),
      // Otherwise a principal could grant its own request in a bundle, in the name of another one.
      isImported: selfApproval,
      list: async (core, live) => {
        const { approvals } = await this.list(core, live)
        const decided = approvals.filter(({ status }) => status !== ApprovalStatus.PENDING)
        return decided.map(withoutSession)
      },
      revive: (value, sessionId) => {
        const record = reviveApproval(value, sessionId)
        return { id: record.approvalId, key: keys.approval(sessionId, record.approvalId), record }
      },
      adopt: (core, live, facts) => {
        const index = this.#indexes.get(core, live)
        for (const { record: one } of facts) put(index, one as Approval)
      },
    }
  }

  request(core: Core, live: LiveSession, request: ParsedRequest): Promise<{ approvalId: string }> {
    return mutate(core, live, () => {
      const index = this.#indexes.get(core, live)
      checkQuota('approvals', index.byId.size + 1, limits.approvals)
      const bytes = index.bytes + bytesOf({ ...request, feedback: '' })
      checkQuota('bytes of approvals', bytes, limits.approvalBytes)
      const approvalId = core.ids.newId(index.newest)
      const approval: Approval = {
        approvalId,
        sessionId: live.id,
        ...request,
        status: ApprovalStatus.PENDING,
        requestedBy: core.principal,
        createdAt: formatTime(core.environment.wallClockMs()),
        decidedBy: '',
        decidedAt: '',
        feedback: '',
      }
      put(index, approval)
      const stored = this.#store(core, live, approval, {
        type: eventTypes.requestApproval,
        details: { approvalId, ...request },
      })
      return stored.then(() => ({ approvalId }))
    })
  }

  /**
   * @throws {EngineError} APPROVAL_NOT_FOUND when the session has no approval with this id
   * @throws {EngineError} APPROVAL_NOT_PENDING when it was granted or denied before
   * @throws {EngineError} PERMISSION_DENIED when the principal that requested it grants it, unless that is allowed
   */
  decide(core: Core, live: LiveSession, { approvalId, status, feedback }: Decision): Promise<void> {
    return mutate(core, live, () => {
      const index = this.#indexes.get(core, live)
      const approval = index.byId.get(approvalId)
      if (approval === undefined)
        throw new EngineError('APPROVAL_NOT_FOUND', `the session has no approval ${given(approvalId)}`, {
          approvalId: shown(approvalId),
        })
      if (approval.status !== ApprovalStatus.PENDING)
        throw new EngineError(
          'APPROVAL_NOT_PENDING',
          `the approval ${given(approvalId)} was already ${approval.status === ApprovalStatus.GRANTED ? 'granted' : 'denied'}`,
          { approvalId },
        )
      const granted = status === ApprovalStatus.GRANTED
      const { requestedBy } = approval
      if (granted && !this.#selfApproval && requestedBy === core.principal) {
        const message = `${requestedBy} requested this approval, so another principal must grant it`
        throw new EngineError('PERMISSION_DENIED', message, { approvalId, requestedBy })
      }
      const decided: Approval = {
        ...approval,
        status,
        feedback,
        decidedBy: core.principal,
        decidedAt: formatTime(core.environment.wallClockMs()),
      }
      // A decision without feedback is always possible.
      if (feedback !== '')
        checkQuota('bytes of approvals', index.bytes + jsonBytes(feedback), limits.approvalBytes)
      put(index, decided)
      return this.#store(core, live, decided, {
        type: granted ? eventTypes.grantApproval : eventTypes.denyApproval,
        details: granted ? { approvalId } : { approvalId, feedback },
      })
    })
  }

  /** Lists the approvals in order of creation. */
  async list(core: Core, live: LiveSession): Promise<{ approvals: Approval[] }> {
    const { byId } = await whenLoaded(() => this.#indexes.get(core, live))
    return {
      approvals: Array.from(byId.values(), (one) => ({ ...one, changedFiles: [...one.changedFiles] })),
    }
  }

  #store(
    core: Core,
    live: LiveSession,
    approval: Approval,
    event: { type: EventType; details: object },
  ): Promise<void> {
    const session = settled(live, approval.status === ApprovalStatus.PENDING ? 1 : -1)
    const records = core.journal.kept((): RecordChanges => ({
      put: [[keys.approval(live.id, approval.approvalId), approval]],
    }))
    return record(core, live, { ...event, redo: [], ...records, session })
  }
}

function reviveApproval(value: unknown, sessionId: string): Approval {
  const { approvalId, reason, summary, changedFiles, status, requestedBy, decidedBy, ...rest } =
    asObject(value)
  if (!isId(approvalId)) throw damaged('an approval has no id')
  if (status !== ApprovalStatus.GRANTED && status !== ApprovalStatus.DENIED)
    throw damaged('an approval has no status')
  const time = (field: 'createdAt' | 'decidedAt'): string => formatTime(parseTime(field, rest[field]))
  return checked(() => ({
    approvalId,
    sessionId,
    ...parseApprovalRequest({
      reason: reason as string,
      details: { summary: summary as string, changedFiles: changedFiles as string[] },
    }),
    status,
    requestedBy: asText(requestedBy, limits.labelBytes),
    createdAt: time('createdAt'),
    decidedBy: asText(decidedBy, limits.labelBytes),
    decidedAt: time('decidedAt'),
    feedback: asText(rest['feedback'], limits.messageBytes),
  }))
}

const optionsShape = new Shape<ApprovalOptions>({ selfApproval: true })

const requestShape = new Shape<ApprovalRequest>({ reason: true, details: true })

const detailsShape = new Shape<NonNullable<ApprovalRequest['details']>>({ summary: true, changedFiles: true })

/** The request of `session.approvals.grant`. */
export interface ApprovalGrantRequest {
  /** The id of the approval, which must be pending. */
  readonly approvalId: string
}

/** The request of `session.approvals.deny`. */
export interface ApprovalDenyRequest extends ApprovalGrantRequest {
  /** The reason of the denial, at most 65,536 bytes; '' by default. */
  readonly feedback?: string
}

const grantShape = new Shape<ApprovalGrantRequest>({ approvalId: true })

const denyShape = new Shape<ApprovalDenyRequest>({ approvalId: true, feedback: true })

export function parseApprovalRequest(request: ApprovalRequest): ParsedRequest {
  const { reason = 'COMMIT_TO_MAIN', details = {} } = requestShape.read(request)
  parseText('reason', reason, limits.labelBytes)
  if (!/^[A-Z][A-Z0-9_]*$/.test(reason))
    throw invalid(
      'reason',
      `must be upper case with underscores, such as COMMIT_TO_MAIN; it is ${given(reason)}`,
    )
  const { summary = '', changedFiles = [] } = detailsShape.readPart(details, 'details')
  const paths = readList('details.changedFiles', changedFiles, limits.changedFiles, 'paths') as string[]
  for (const [index, path] of paths.entries()) parsePath(path, `details.changedFiles[${index}]`)
  return {
    reason,
    summary: parseText('details.summary', summary, limits.messageBytes),
    changedFiles: paths,
  }
}

export function parseGrant(request: ApprovalGrantRequest): Decision {
  return decisionOf(grantShape.read(request), ApprovalStatus.GRANTED)
}

export function parseDenial(request: ApprovalDenyRequest): Decision {
  return decisionOf(denyShape.read(request), ApprovalStatus.DENIED)
}

function decisionOf({ approvalId, feedback = '' }: ApprovalDenyRequest, status: ApprovalStatus): Decision {
  if (typeof approvalId !== 'string')
    throw invalid('approvalId', `must be a string; it is ${kindOf(approvalId)}`)
  return { approvalId, status, feedback: parseText('feedback', feedback, limits.messageBytes) }
}
