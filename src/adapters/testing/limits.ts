/** Bounds of the messages of failed tests. */
export const testingLimits = {
  /** Differences that a message lists. */
  shownDifferences: 20,
  /** Characters of a content that a message shows. */
  shownCharacters: 200,
} as const
