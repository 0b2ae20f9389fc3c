import type { Engine } from '../../engine/index.js'

/** The principals of listed events, which the HTTP interface does not send. */
interface EventList {
  readonly events: readonly { readonly eventId: string }[]
}

/**
 * A response of `listEvents` with the principal of each event. An engine of this process knows them.
 *
 * @param query The parameters of the request.
 */
export async function withPrincipals(
  response: Response,
  {
    engine,
    sessionId,
    query,
  }: { engine: ReturnType<Engine['as']>; sessionId: string; query: URLSearchParams },
): Promise<Response> {
  if (!response.ok) return response
  const list = (await response.json()) as EventList
  const principals = new Map<string, string>()
  if (list.events.length > 0) {
    const session = await engine.sessions.open(sessionId)
    const startTime = query.get('startTime') ?? ''
    const page = await session.events.list({
      pageSize: list.events.length,
      pageToken: query.get('pageToken') ?? '',
      ...(startTime !== '' && { startTime }),
    })
    for (const { eventId, principal } of page.events) principals.set(eventId, principal)
  }
  const events = list.events.map((event) => ({ ...event, principal: principals.get(event.eventId) }))
  const headers = new Headers(response.headers)
  headers.delete('content-length')
  return Response.json({ ...list, events }, { status: response.status, headers })
}
