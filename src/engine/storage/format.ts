/**
 * On-disk formats, each with the reason it exists. A directory states its format in its marker file; a
 * newer one than `currentFormat` is refused.
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
