/** Limits of the adapter for `node:vfs`, in bytes. */
export const nodeVfsLimits = {
  /** The buffer that a read allocates itself, as in Node. */
  readBufferBytes: 16 * 1024,
} as const
