/** Bounds of the requests and lists of the page. Sizes are in bytes, times in milliseconds. */
export const pageLimits = {
  /** Requests at once. A browser opens six connections to a host, and a stream takes one of them. */
  requests: 4,
  /** Entries in one page of a listing. */
  pageEntries: 1000,
  /** Entries of a directory in one page of its listing. */
  directoryEntries: 10_000,
  /** Sessions that the graph loads. */
  sessions: 100_000,
  /** Sessions whose events the graph shows without being asked. */
  expandedSessions: 40,
  /** Events of one session that the page loads. */
  events: 100_000,
  /** Forks of a session that are compared at once. */
  comparedForks: 12,
  /** Conflicts of a merge that are listed. */
  conflicts: 10,
  /** Keys of the cache that are shown, the first in their order. */
  cacheKeys: 200,
  /** Sources that are shown at once, with their imports. */
  sources: 200,
  /** Jobs of each source that are shown, the newest first. */
  jobsOfSource: 10,
  /** Looks for new sources until the page asks again for the jobs of all sources, also of those without a running job. */
  idleRounds: 4,
  /** Messages of the bus that are shown. */
  messages: 100,
  /** Characters of the payload of a message that are shown. */
  payloadCharacters: 200,
  /** Days whose usage is shown. */
  usageDays: 7,
  /** Lanes of the graph that are drawn. */
  lanes: 24,
  /** Bytes of a file that one request reads. */
  pieceBytes: 2 ** 20,
  /** Bytes of a file that are shown as text, and of an image. */
  textBytes: 8 * 2 ** 20,
  /** Bytes of a file that one page of hex shows. */
  hexBytes: 64 * 2 ** 10,
  /** Bytes in a row of hex. */
  hexRowBytes: 16,
  /** Characters of a line that are shown. */
  lineCharacters: 4000,
  /** Changed paths that are marked in the tree. */
  marks: 50_000,
  /** Lines of the hunks of one file. */
  hunkLines: 20_000,
  /** Characters of two lines whose words are compared. */
  comparedCharacters: 2000,
  /** Time between two looks for new sessions and events. */
  pollMs: 1500,
  /** Time before a lost stream is opened again. */
  reconnectMs: 2000,
}
