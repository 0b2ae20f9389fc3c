import { defineOperations } from './operation.js'

export const busOperations = defineOperations({
  publishMessage: {
    tag: 'Bus',
    summary: 'Publish a message',
    description:
      'Sends a message to those who subscribed to its topic, in the order of the publications, and keeps ' +
      'it for replay.',
    method: 'POST',
    path: '/v1/sessions/{sessionId}/bus:publish',
    capabilities: ['bus'],
    errors: ['SESSION_NOT_FOUND'],
  },
  subscribe: {
    tag: 'Bus',
    summary: 'Subscribe to messages',
    description:
      'A stream of JSON objects, one a line, that stays open: each is `{"result": message}`, or as the ' +
      'last one `{"error": status}`. Without a parameter for replay it starts with what is published from ' +
      'then on; with one, kept messages come first, without gap or repetition. The response starts at ' +
      'once, also while there is nothing to send. A reader that is too slow gets an error of code 8 ' +
      '(`SLOW_CONSUMER`) and the end of the stream, and can go on with `replayAfterMessageId`.',
    method: 'GET',
    path: '/v1/sessions/{sessionId}/bus',
    query: ['topics', 'topicPatterns', 'scope', 'replayLimit', 'replayAfterMessageId'],
    stream: true,
    capabilities: ['bus'],
    errors: ['SESSION_NOT_FOUND', 'QUOTA', 'SLOW_CONSUMER'],
  },
})
