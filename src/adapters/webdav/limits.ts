/** Bounds of the WebDAV server. Sizes are in bytes. */
export const webdavLimits = {
  /** An XML body. Contents of files have the limits of the engine instead. */
  xmlBytes: 64 * 1024,
  /** Nesting depth of the elements in an XML body. */
  xmlDepth: 16,
  /** Elements in an XML body. */
  xmlElements: 1000,
  /** Attributes of one element in an XML body. */
  xmlAttributes: 100,
  /** Properties that one request names. A response repeats unknown names for each entry. */
  properties: 100,
  /** Characters of the names of properties in a response, with the namespace of each. */
  nameChars: 16 * 1024,
  /** Locks of one handler at once. */
  locks: 1000,
  /** The longest time until a lock expires, and the time if the client asks for none. Clients refresh locks. */
  lockSeconds: 3600,
  /** Characters that describe the owner of a lock. */
  ownerLength: 1024,
  /** Conditions in the header `If`. */
  conditions: 100,
  /** A file up to this size has the hash of its content as its ETag. A larger one would be read for it. */
  hashedBytes: 2 ** 20,
  /** Files, directories and symlinks that one COPY copies. */
  copyEntries: 10_000,
  /** Entries of a directory that are read from the session at once. */
  pageEntries: 256,
  /** Entries of a directory whose attributes are requested at once. */
  statsAtOnce: 32,
  /** Bytes of a response that are gathered into one piece. */
  pieceBytes: 64 * 1024,
} as const
