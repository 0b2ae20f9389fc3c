import { defineOperations } from './operation.js'

export const busOperations = defineOperations({
  publishMessage: {
    method: 'POST',
    path: '/v1/sessions/{sessionId}/bus:publish',
    capability: 'bus',
    errors: ['SESSION_NOT_FOUND'],
  },
  subscribe: {
    method: 'GET',
    path: '/v1/sessions/{sessionId}/bus',
    query: ['topics', 'topicPatterns', 'scope', 'replayLimit', 'replayAfterMessageId'],
    stream: true,
    capability: 'bus',
    errors: ['SESSION_NOT_FOUND', 'QUOTA', 'SLOW_CONSUMER'],
  },
})
