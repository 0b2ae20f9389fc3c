/** Bounds of what is read of a report. A report over one of them is refused. */
export const junitLimits = {
  /** Elements inside each other. */
  depth: 256,
  elements: 1_000_000,
  /** Of one element. */
  attributes: 1000,
  /** Ampersands: each may be a reference, which takes longer to read than other text. */
  references: 2_000_000,
  /** Characters before the first element: the XML declaration, comments, processing instructions. */
  prolog: 64 * 1024,
  /** Characters of the name of a reference. */
  referenceName: 1024,
  /** Bytes that are read in one step. */
  chunkBytes: 64 * 1024,
  /** Characters of what the parser says in an error. */
  message: 200,
} as const
