import type { SessionAnnotations, SessionApprovals, PublicOf } from '../../engine/index.js'
import type { SessionCalls } from './session-calls.js'

type Notes<Name extends keyof SessionAnnotations> = NonNullable<Parameters<SessionAnnotations[Name]>[0]>
type Asked<Name extends 'request' | 'grant' | 'deny'> = NonNullable<Parameters<SessionApprovals[Name]>[0]>

/** Notes on files, for review. As `session.annotations` in process. */
export class RemoteAnnotations implements PublicOf<SessionAnnotations> {
  readonly #session: SessionCalls

  constructor(session: SessionCalls) {
    this.#session = session
  }

  add(request: Notes<'add'>): ReturnType<SessionAnnotations['add']> {
    return this.#session.call('addAnnotation', request)
  }

  list(request: Notes<'list'> = {}): ReturnType<SessionAnnotations['list']> {
    return this.#session.call('listAnnotations', request)
  }

  setStatus(request: Notes<'setStatus'>): ReturnType<SessionAnnotations['setStatus']> {
    return this.#session.call('updateAnnotationStatus', request)
  }
}

/** Requests for a decision. As `session.approvals` in process. */
export class RemoteApprovals implements PublicOf<SessionApprovals> {
  readonly #session: SessionCalls

  constructor(session: SessionCalls) {
    this.#session = session
  }

  request(request: Asked<'request'> = {}): Promise<{ approvalId: string }> {
    return this.#session.call('requestApproval', request)
  }

  grant(request: Asked<'grant'>): Promise<void> {
    return this.#session.run('grantApproval', request)
  }

  deny(request: Asked<'deny'>): Promise<void> {
    return this.#session.run('denyApproval', request)
  }

  list(): ReturnType<SessionApprovals['list']> {
    return this.#session.call('listApprovals', {})
  }
}
