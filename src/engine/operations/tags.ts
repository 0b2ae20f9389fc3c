/** What groups the operations for readers, in their order, and says what the group is about. */
export const tags = {
  Sessions: 'Isolated workspaces with a file system of their own.',
  Checkpoints: 'Named states of a session, and what differs between states.',
  Files:
    'Changes and reads of a session’s files. Every change is one step: it is made as a whole or not at all, in the ' +
    'order of the requests, and lasts once it is answered.',
  'Extended attributes': 'Values by name on files and directories.',
  'POSIX locks': 'Advisory locks on ranges of files, in the manner of fcntl and flock.',
  'File locks': 'Locks on paths, with a time to live, by which those who work on a session agree.',
  Annotations: 'Notes of reviewers on files.',
  Approvals: 'Requests for a decision.',
  Commits: 'A session’s files as git commits.',
  Cache: 'Keys and values of a session beside its files, with a time to live.',
  Bus: 'Messages between those who work on a session.',
  Health: 'Reports of tests.',
  Usage: 'What sessions and tenants used.',
  Secrets: 'Encrypted values of a session, kept apart from its files.',
  Sources: 'Durable baselines that sessions start from, and the jobs that read them.',
} as const

export type Tag = keyof typeof tags
