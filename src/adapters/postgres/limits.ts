/** Limits of the store on PostgreSQL. Sizes are in bytes unless the name has another unit. */
export const postgresLimits = {
  /** Commits that one statement stores together. */
  groupCommits: 1000,
  /** A statement takes no further commit above this, approximately. */
  groupBytes: 8 * 2 ** 20,
  /** A commit above this is stored by several statements in one transaction. */
  statementBytes: 16 * 2 ** 20,
  /** One record, event or blob. A read gets its bytes as hex in one string, whose length Node limits. */
  valueBytes: 128 * 2 ** 20,
  /** Nodes of a tree that a read returns together with the node that refers to them. */
  nodesAtOnce: 32,
  /** A larger node is read only when it is needed. */
  nearNodeBytes: 16 * 2 ** 10,
  /** How much of a node a read searches for references to others. */
  searchedNodeBytes: 64 * 2 ** 10,
  /** Default of `readConnections`. */
  readConnections: 4,
  /** The largest `readConnections`. */
  readConnectionsMax: 100,
  /** Default of `leaseSeconds`, in seconds. */
  leaseSeconds: 30,
  /** The smallest `leaseSeconds`, in seconds. */
  leaseSecondsMin: 1,
  /** The largest `leaseSeconds`, in seconds. */
  leaseSecondsMax: 3600,
  /** The lease of a killed engine on a shared schema is removed this long after its end, in seconds. */
  killedLeaseSeconds: 3600,
  /** A lease is renewed this often in its time. */
  renewalsPerLease: 3,
  /** How long a connection may take to open, in milliseconds. */
  connectMs: 10_000,
  /** How long a commit may take, in milliseconds. */
  commitMs: 120_000,
  /** How long a read may take, in milliseconds. */
  readMs: 60_000,
  /** How long a statement waits for a lock of another one, in milliseconds. */
  lockMs: 10_000,
  /** How often a statement is tried that waits for another engine while that engine waits for it. */
  deadlockAttempts: 5,
  /** Default of `freshnessMillis`, in milliseconds. */
  freshnessMs: 100,
  /** The smallest `freshnessMillis`. */
  freshnessMsMin: 1,
  /** The largest `freshnessMillis`. */
  freshnessMsMax: 60_000,
  /** Pins of engines that a collection reads at once. */
  pinsPerRead: 64,
  /** How long a transaction may wait for its next statement, in milliseconds. The server then ends the connection. */
  idleInTransactionMs: 30_000,
  /** How often a read is tried whose connection is lost. */
  readAttempts: 2,
  /** A read is tried again only if its connection was lost within this time, in milliseconds. */
  readAgainMs: 5000,
  /** How long to wait for a connection of a pool that has none free, in milliseconds. */
  poolMs: 60_000,
  /** How often the opening looks whether a pooler gives a statement another connection of the server. */
  poolerChecks: 3,
  /** Requests to a bucket at the same time. */
  objectRequests: 32,
  /** Contents of objects that are kept in memory, for reads of further parts of them. */
  objectCacheBytes: 16 * 2 ** 20,
  /** Objects that are remembered after their commits were overtaken. The next commits of the same contents use them. */
  objectsKept: 1000,
  /** An object without a row is deleted after this time, in milliseconds. */
  unusedObjectMs: 86_400_000,
  /** The object that names the store which uses a bucket. */
  bucketMarkBytes: 1024,
  /** The name of a schema. PostgreSQL cuts longer names. */
  schemaBytes: 63,
  /** The oldest supported version of PostgreSQL, as `server_version_num`. */
  serverVersionMin: 120_000,
} as const
