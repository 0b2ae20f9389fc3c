import * as z from 'zod'
import { limits } from '../../base/limits.js'
import { bytes, extension, inBytes, integer, named, nothing, sessionId, text, time } from './wire-types.js'
import { defineSchemas } from './operation-schemas.js'
import { statusSchema } from './status.js'

const topicText = `1 to ${limits.busTopicBytes} bytes.`

const message = named(
  'Message',
  z.object({
    messageId: text.describe('Later messages of a session have greater ids.'),
    sessionId: text,
    topic: text,
    payload: bytes,
    senderId: text.describe('The principal that published it.'),
    publishedAt: time,
  }),
)

export const busSchemas = defineSchemas({
  publishMessage: {
    request: z.object({
      sessionId,
      topic: text.describe(topicText),
      payload: bytes.describe(`At most ${inBytes(limits.busPayloadBytes)}.`).prefault(''),
    }),
    response: nothing,
  },
  subscribe: {
    request: z.object({
      sessionId,
      topics: z
        .array(text)
        .describe(
          `Exact topics; at most ${limits.busTopics}. Without topics and \`topicPatterns\`: all topics.`,
        )
        .exactOptional(),
      topicPatterns: extension(
        z.array(text).describe(`Globs that match whole topics; at most ${limits.busTopics}.`).exactOptional(),
      ),
      scope: z.enum(['SESSION_ONLY']).exactOptional(),
      replayLimit: integer
        .meta({
          minimum: 0,
          description:
            'Replays at most this many kept messages, the newest ones. 0 or absent: all messages after ' +
            '`replayAfterMessageId`, or none without it.',
        })
        .exactOptional(),
      replayAfterMessageId: text
        .describe(
          `Replays kept messages after this one. A session keeps its last ${limits.busKeptMessages} messages, up to ` +
            `${inBytes(limits.busKeptBytes)}.`,
        )
        .exactOptional(),
    }),
    /** An item of the stream: a message, or the error that ends it. */
    response: named(
      'BusItem',
      z
        .union([z.object({ result: message }), z.object({ error: statusSchema })])
        .describe('A message, or the error that ends the stream.'),
    ),
  },
})
