/** The bounds of the tools for the Agents SDK. */
export const limits = {
  /** The time that a command has, in milliseconds, if the model names none. */
  commandMs: 120_000,
  /** The longest time that a model can name for a command. */
  longestCommandMs: 600_000,
  /** UTF-16 units of each output of a command. Longer outputs are cut. */
  outputLength: 100_000,
} as const
