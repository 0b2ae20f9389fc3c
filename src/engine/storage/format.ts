/**
 * The on-disk formats, with the reason for each. The marker file of a directory contains its format. A
 * directory with a newer format than `currentFormat` is rejected.
 */
export const formats = {
  /** Everything in one ordered key space: records, events, nodes and blobs as values under prefixed keys. */
  orderedKeys: 1,
  /**
   * Commits are frames with checksums in append-only segments, and everything else can be rebuilt from them:
   * acknowledged commits survive failed writes, and damage is detected.
   */
  segments: 2,
} as const

export const currentFormat: number = formats.segments
