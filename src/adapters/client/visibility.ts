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

export interface RemoteEventPage {
  /** Oldest first. */
  readonly events: RemoteEvent[]
  readonly nextPageToken: string
}

/** The event log of a session. Like `session.events` of a local engine, without `follow` and `verify`. */
export class RemoteEvents {
  readonly #session: SessionCalls

  constructor(session: SessionCalls) {
    this.#session = session
  }

  async list(request: Parameters<SessionEvents['list']>[0] = {}): Promise<RemoteEventPage> {
    return (await this.#session.call('listEvents', request)) as RemoteEventPage
  }

  /** All stored events. It requests one page after the other. */
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
