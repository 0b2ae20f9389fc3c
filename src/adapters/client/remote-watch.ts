import type { ChangeBatch, ChangeWatch, ChangeWatchOptions } from '../../engine/index.js'
import { ResumedStream, type StreamSource } from './resumed-stream.js'
import type { Transport } from './transport.js'

type Query = Omit<ChangeWatchOptions, 'signal'>

/** The changes of a session's files, across lost connections. */
export class RemoteWatch extends ResumedStream<Query, ChangeBatch> implements ChangeWatch {
  constructor(transport: Transport, sessionId: string, options: ChangeWatchOptions) {
    super(transport, changesOf(sessionId), options)
  }
}

function changesOf(sessionId: string): StreamSource<Query, ChangeBatch> {
  return {
    open: (transport, query, signal) => transport.open('watchChanges', { ...query, sessionId }, signal),
    idOf: ({ eventId }) => eventId,
    after: (query, eventId) => (eventId === undefined ? query : { ...query, afterEventId: eventId }),
  }
}
