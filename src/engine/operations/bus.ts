import { defineOperations } from './operation.js'

export const busOperations = defineOperations({
  publishMessage: {
    tag: 'Bus',
    summary: 'Publish a message',
    description:
      'Sends a message to the subscribers of its topic and keeps it for replay. Subscribers receive ' +
      'messages in the order in which they were published.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/bus:publish',
    capabilities: ['bus'],
    errors: ['SESSION_NOT_FOUND'],
  },
  subscribe: {
    tag: 'Bus',
    summary: 'Subscribe to messages',
    description:
      'Opens a stream of JSON objects, one per line. Each is `{"result": message}`; `{"error": status}` ' +
      'ends the stream. Without a replay parameter, the stream starts with messages published after the ' +
      'request. With one, kept messages come first, without gap or repetition. The response begins ' +
      'immediately, even when there are no messages. A reader that is too slow gets an error with code 8 ' +
      '(`SLOW_CONSUMER`), and the stream ends. It can resume with `replayAfterMessageId`.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/bus',
    query: ['topics', 'topicPatterns', 'scope', 'replayLimit', 'replayAfterMessageId'],
    stream: true,
    capabilities: ['bus'],
    errors: ['SESSION_NOT_FOUND', 'QUOTA', 'SLOW_CONSUMER'],
  },
})
