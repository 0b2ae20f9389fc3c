/** The port that writes and reads the files of bundles. */

/** One block of a bundle: bytes, or JSON. */
export interface BundleBlock {
  readonly kind: 'raw' | 'json'
  /** The SHA-256 of the bytes, lower-case hex. */
  readonly hash: string
  readonly bytes: Uint8Array
}

/** Writes and reads files of blocks. Files can have any length; the memory is bounded. */
export interface BundleFiles {
  /**
   * Writes a file. The first block is the root, with the hash `rootHash`. The caller owns the resulting
   * bytes.
   */
  write(rootHash: string, blocks: AsyncIterable<BundleBlock>): AsyncIterable<Uint8Array>
  /**
   * Reads the blocks of a file, the root first. Each is checked against its hash. Errors of `content` are
   * passed on.
   *
   * @throws {EngineError} INVALID_BUNDLE when the file is damaged
   */
  read(content: AsyncIterable<Uint8Array>): AsyncIterable<BundleBlock>
}
