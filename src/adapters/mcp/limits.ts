/** The bounds of the MCP server. */
export const limits = {
  /** Lines of a read with `head` or `tail`. */
  readLines: 10_000,
  /** UTF-16 units of a line of such a read. */
  lineLength: 100_000,
  /** Bytes of a text file that a read without `head` and `tail` returns. */
  textBytes: 400_000,
  /** Files of one `read_multiple_files`. */
  filesAtOnce: 100,
  /** Bytes of a media file or a resource. */
  contentBytes: 4 * 1024 * 1024,
  /** Bytes of all media files and resources that one request over HTTP returns. A request can have many calls. */
  requestContentBytes: 16 * 1024 * 1024,
  /** Edits of one call. */
  edits: 1000,
  /** Entries of a listing, a tree or a search. */
  entries: 1000,
  /** Directories of a tree, one in another. */
  treeDepth: 64,
  /** Patterns of paths to leave out. */
  patterns: 50,
  /** Resources of one page of the list. */
  resources: 1000,
  /** Seconds of a lock whose caller names none. */
  lockSeconds: 300,
  /** Milliseconds between notes about the progress of a call. */
  progressMs: 2000,
  /** UTF-16 units of the structured content of a result, as JSON. Longer lists are left out. */
  structuredLength: 200_000,
} as const
