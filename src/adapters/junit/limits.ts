/** Limits of a report. A report over one of them is refused. */
export const junitLimits = {
  /** Nesting depth of elements. */
  depth: 256,
  elements: 1_000_000,
  /** Attributes of one element. */
  attributes: 1000,
  /** Ampersands. Each may start a reference, which takes longer to parse than other text. */
  references: 2_000_000,
  /** Characters before the first element: the XML declaration, comments, processing instructions. */
  prolog: 64 * 1024,
  /** Characters in the name of a reference. */
  referenceName: 1024,
  /** Bytes parsed in one step. */
  chunkBytes: 64 * 1024,
  /** Characters of the parser's message that an error repeats. */
  message: 200,
} as const
