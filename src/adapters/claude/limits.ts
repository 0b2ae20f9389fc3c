/** The bounds of the adapter for the Claude Agent SDK. */
export const limits = {
  /** Lines of one read, as in the other tools. */
  readLines: 2000,
  /** Bytes of an image that a model can look at. */
  imageBytes: 3_750_000,
  /** The time of one command in milliseconds, if the model names none. */
  commandMs: 120_000,
  /** The longest time that a model can name for a command. */
  longestCommandMs: 600_000,
  /** UTF-16 units of each output of a command. Longer outputs are cut. */
  outputLength: 30_000,
  /** User messages that the list of turns has. The oldest are left out. */
  turns: 1000,
  /** Worktrees that exist at the same time. */
  worktrees: 100,
  /** Characters of the name of a worktree. */
  worktreeNameLength: 128,
  /** Syncs of a removal until one finds no change. */
  removalSyncs: 10,
  /** The longest step of the clock of file times in milliseconds, and a reserve. */
  clockTickMs: 20,
} as const
