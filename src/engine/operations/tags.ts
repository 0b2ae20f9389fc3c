/** The groups of operations in the documentation, in order, with a description of each. */
export const tags = {
  Sessions: 'Isolated workspaces with a file system of their own.',
  Checkpoints: 'Saved states of a session, and the differences between states.',
  History: 'Earlier states of a session: reading them, undo and redo, and the changes of a file.',
  Merges: 'The changes of one session merged into another, and conflicts.',
  Files:
    'Reads and changes of a session’s files. Each change is atomic. Changes take effect in the order of the requests, ' +
    'and are durable once the response is sent.',
  'Search and edit': 'Files as text: lines, edits, patches, globs and searches.',
  'Extended attributes': 'Named values on files and directories.',
  'POSIX locks': 'Advisory locks on ranges of files, as with fcntl and flock.',
  'File locks': 'Locks on paths with a time to live, for coordination between the users of a session.',
  Annotations: 'Reviewers’ notes on files.',
  Approvals: 'Requests for a decision.',
  Commits: 'A session’s files as git commits.',
  Cache: 'Key-value entries of a session with a time to live, separate from its files.',
  Bus: 'Messages between the users of a session.',
  Health: 'Test reports.',
  Usage: 'Usage figures of sessions and tenants.',
  Secrets: 'Encrypted values of a session, kept apart from its files.',
  Sources: 'Durable baselines that sessions start from, and the jobs that import them.',
} as const

export type Tag = keyof typeof tags
