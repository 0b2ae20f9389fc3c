/** The bounds of the tools for the Agents SDK. */
export const limits = {
  /** The time that a command has, in milliseconds, if the model names none. */
  commandMs: 120_000,
  /** The longest time that a model can name for a command. */
  longestCommandMs: 600_000,
  /** UTF-16 units of each output of a command. Longer outputs are cut. */
  outputLength: 100_000,
  /** Entries of a manifest, with those inside directories. */
  manifestEntries: 10_000,
  /** Levels of directories in a manifest. */
  manifestDepth: 100,
  /** Bytes of an archive of a workspace that a sandbox reads or creates. */
  archiveBytes: 268_435_456,
  /** Bytes of an image that a model can look at. */
  imageBytes: 10_485_760,
  /** Characters for one token, when a model limits the tokens of an output. */
  charactersPerToken: 4,
  /** Entries of a directory that one read of its listing takes. */
  entriesPerPage: 1000,
} as const
