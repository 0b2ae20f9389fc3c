import type { BusMessage, BusSubscribeRequest, BusSubscription } from '../../engine/index.js'
import { ResumedStream, type StreamSource } from './resumed-stream.js'
import type { Transport } from './transport.js'

type Query = Omit<BusSubscribeRequest, 'signal'>

/** A subscription to the bus that survives lost connections. */
export class RemoteSubscription extends ResumedStream<Query, BusMessage> implements BusSubscription {
  constructor(transport: Transport, sessionId: string, request: BusSubscribeRequest) {
    super(transport, messagesOf(sessionId), request)
  }
}

function messagesOf(sessionId: string): StreamSource<Query, BusMessage> {
  return {
    open: (transport, query, signal) => transport.open('subscribe', { ...query, sessionId }, signal),
    idOf: ({ messageId }) => messageId,
    after: (query, messageId) => {
      if (messageId === undefined) return query
      const { replayLimit: _, ...rest } = query
      return { ...rest, replayAfterMessageId: messageId }
    },
  }
}
