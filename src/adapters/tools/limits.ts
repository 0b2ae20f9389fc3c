/** The bounds of the tools for agents. */
export const limits = {
  /** UTF-16 units of the text of one result. Longer texts are cut, and say so. */
  resultLength: 100_000,
  /** Files whose last read hash a set of tools remembers. */
  seenFiles: 10_000,
  /** Forks that one set of tools creates and can switch to. */
  forks: 100,
  /** Lines of one read. */
  readLines: 2000,
  /** Lines around a change that the result of an edit shows. */
  contextLines: 4,
  /** Changed ranges that the result of an edit shows. */
  shownHunks: 20,
  /** Lines of one changed range that the result of an edit shows. */
  shownHunkLines: 60,
  /** Paths of one glob. */
  globPaths: 100,
  /** Lines, or files, of one grep, if the model names no number. */
  grepResults: 250,
  /** The most lines, or files, that a model can name for one grep. */
  grepMostResults: 10_000,
  /** Entries of a listing of a directory. */
  listedEntries: 1000,
  /** Changed paths in the result of an undo, a merge or a restore. */
  shownChanges: 100,
  /** Versions of a file in one history. */
  historyEntries: 50,
  /** Bytes of a file that `insert` changes. */
  insertFileBytes: 16 * 1024 * 1024,
} as const
