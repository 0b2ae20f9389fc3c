/** The bounds of the sandbox for the AI SDK. */
export const limits = {
  /** Entries of a directory that one read of its listing takes. */
  entriesPerPage: 1000,
} as const
