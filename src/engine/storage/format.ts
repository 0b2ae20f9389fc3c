/**
 * On-disk formats, each with the reason it exists. A directory states its format in its marker file; a
 * newer one than `currentFormat` is refused.
 */
export const formats = {
  /** Everything in one ordered key space: records, events, nodes and blobs as values under prefixed keys. */
  orderedKeys: 1,
} as const

export const currentFormat: number = formats.orderedKeys
