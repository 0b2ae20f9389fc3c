/** Limits of large contents in S3. Sizes are in bytes unless the name has another unit. */
export const s3Limits = {
  /** Default of `minBytes`. A request costs time and money, however small its object is. */
  objectBytes: 64 * 2 ** 10,
  /** The largest `minBytes`. No content is larger. */
  objectBytesMax: 2 ** 20,
  /** How long a request may take with all its repetitions, in milliseconds. */
  requestMs: 60_000,
  /** How often a read is tried whose answer breaks off or is damaged on the way. */
  readAttempts: 3,
  /** Objects that one request deletes. S3 accepts no more. */
  deletedAtOnce: 1000,
  /** The prefix of the keys. S3 accepts keys of 1,024 bytes. */
  prefixBytes: 512,
} as const
