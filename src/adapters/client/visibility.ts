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

/** An event as it is told to clients: who did it is not. */
export type RemoteEvent = Omit<SessionEvent, 'principal'>

export interface RemoteEventPage {
  /** Oldest first. */
  readonly events: RemoteEvent[]
  readonly nextPageToken: string
}

/** What happened in a session. As `session.events` in process, without following and verifying. */
export class RemoteEvents {
  readonly #session: SessionCalls

  constructor(session: SessionCalls) {
    this.#session = session
  }

  async list(request: Parameters<SessionEvents['list']>[0] = {}): Promise<RemoteEventPage> {
    return (await this.#session.call('listEvents', request)) as RemoteEventPage
  }

  /** Every event that is stored, page by page. */
  [Symbol.asyncIterator](): AsyncGenerator<RemoteEvent, void, undefined> {
    return pages(async (page) => {
      const { events, nextPageToken } = await this.list(page)
      return [events, nextPageToken]
    })
  }
}

type Report = Parameters<SessionHealth['report']>[0]

const reportShape = new Shape<Report>({ reportFormat: true, reportContent: true })

/** What tests say of a session. As `session.health` in process. */
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

/** Values that are kept apart from files. As `session.secrets` in process. */
export class RemoteSecrets
  extends remoteService('session.secrets', 'get')
  implements PublicOf<SessionSecrets>
{
  async get(request: { readonly secretName: string }): ReturnType<SessionSecrets['get']> {
    const { secretName, secretValue } = await callsOf(this).call('getSecret', request)
    return { secretName, secretValue: new Secret(secretValue.reveal()) }
  }
}
