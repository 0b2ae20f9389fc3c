import * as z from 'zod'
import { bytes, extension, integer, nothing, text, time } from './kinds.js'
import { defineSchemas } from './operation-schemas.js'
import { statusSchema } from './status.js'

const message = z.object({
  messageId: text,
  sessionId: text,
  topic: text,
  payload: bytes,
  senderId: text,
  publishedAt: time,
})

export const busSchemas = defineSchemas({
  publishMessage: {
    request: z.object({ sessionId: text, topic: text, payload: bytes.prefault('') }),
    response: nothing,
  },
  subscribe: {
    request: z.object({
      sessionId: text,
      topics: z.array(text).exactOptional(),
      /** Globs. */
      topicPatterns: extension(z.array(text).exactOptional()),
      scope: z.enum(['SESSION_ONLY']).exactOptional(),
      replayLimit: integer.exactOptional(),
      replayAfterMessageId: text.exactOptional(),
    }),
    /** An item of the stream: a message, or the error that ends it. */
    response: z.union([z.object({ result: message }), z.object({ error: statusSchema })]),
  },
})
