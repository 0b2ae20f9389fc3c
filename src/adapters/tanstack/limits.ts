/** The bounds of the sandboxes for TanStack AI. */
export const limits = {
  /** Entries of a directory that one read of its listing takes. */
  entriesPerPage: 1000,
  /** UTF-16 units of a path. */
  pathLength: 4096,
  /** Variables of a sandbox. */
  variables: 1000,
  /** UTF-16 units of the names and values of all variables of a sandbox. */
  variablesLength: 1_000_000,
  /** Sandboxes whose variables are remembered. The variables of the oldest are forgotten. */
  sandboxes: 10_000,
  /** Snapshots of a sandbox. The oldest are deleted. */
  snapshots: 100,
  /** UTF-16 units of the id of a sandbox or snapshot, and of a label. */
  idLength: 500,
  /** Repositories whose sources are used again. */
  repositories: 1000,
  /** UTF-16 units of the URL of a repository. */
  urlLength: 4096,
  /** Changed paths that `status` lists. */
  statusPaths: 10_000,
} as const
