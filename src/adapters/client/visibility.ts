import type {
  SessionEvent,
  SessionEvents,
  SessionHealth,
  SessionSecrets,
  PublicOf,
} from '../../engine/index.js'
import { Secret, Shape } from '../../engine/client-contract.js'
import { toBytes } from './bytes.js'
import { pages } from './pages.js'
import { callsOf, remoteService } from './remote-service.js'
import type { SessionCalls } from './session-calls.js'

/** An event without its principal, which servers do not send. */
export type RemoteEvent = Omit<SessionEvent, 'principal'>

/** One page of the events of a session. */
export interface RemoteEventPage {
  /** The events of this page, oldest first. */
  readonly events: RemoteEvent[]
  /** Pass it as `pageToken` to get the next page. Empty on the last page. */
  readonly nextPageToken: string
}

/**
 * The event log of a session. Like `session.events` of a local engine, without `follow` and `verify`. Each
 * method also throws the errors of {@link connect}.
 */
export class RemoteEvents {
  readonly #session: SessionCalls

  /** @internal */
  constructor(session: SessionCalls) {
    this.#session = session
  }

  /**
   * A page of the events, oldest first.
   *
   * @throws {EngineError} INVALID_ARGUMENT when a time or the page token is malformed
   * @throws {EngineError} SESSION_NOT_FOUND when the session was deleted
   *
   * @example
   * const { events } = await session.events.list({ startTime: '2026-01-31T00:00:00Z', pageSize: 100 })
   */
  async list(request: Parameters<SessionEvents['list']>[0] = {}): Promise<RemoteEventPage> {
    return (await this.#session.call('listEvents', request)) as RemoteEventPage
  }

  /**
   * All stored events, oldest first. It requests one page after the other.
   *
   * @throws {EngineError} SESSION_NOT_FOUND when the session was deleted
   *
   * @example
   * for await (const { eventType, details } of session.events) console.log(eventType, details)
   */
  [Symbol.asyncIterator](): AsyncGenerator<RemoteEvent, void, undefined> {
    return pages(async (page) => {
      const { events, nextPageToken } = await this.list(page)
      return [events, nextPageToken]
    })
  }
}

type Report = Parameters<SessionHealth['report']>[0]

const reportShape = new Shape<Report>({ reportFormat: true, reportContent: true })

/** The test results of a session. Like `session.health` of a local engine. */
export class RemoteHealth
  extends remoteService('session.health', 'report')
  implements PublicOf<SessionHealth>
{
  async report(request: Report): ReturnType<SessionHealth['report']> {
    const { reportFormat, reportContent } = reportShape.read(request)
    const content = toBytes(reportContent, 'reportContent')
    return callsOf(this).call('reportHealth', { reportFormat, reportContent: content })
  }

  testResults(request: Report): ReturnType<SessionHealth['report']> {
    return this.report(request)
  }
}

/** Secret values of a session. Like `session.secrets` of a local engine. */
export class RemoteSecrets
  extends remoteService('session.secrets', 'get')
  implements PublicOf<SessionSecrets>
{
  async get(request: { readonly secretName: string }): ReturnType<SessionSecrets['get']> {
    const { secretName, secretValue } = await callsOf(this).call('getSecret', request)
    return { secretName, secretValue: new Secret(secretValue.reveal()) }
  }
}
