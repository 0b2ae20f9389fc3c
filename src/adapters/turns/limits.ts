/** The bounds of the checkpoints of turns. */
export const limits = {
  /** User messages of a session whose checkpoints are kept. The oldest are deleted. */
  messages: 1000,
  /** UTF-16 units of the id of a user message. */
  messageIdLength: 200,
  /** Checkpoints of a session that one read of their listing takes. */
  checkpointsPerPage: 1000,
} as const
