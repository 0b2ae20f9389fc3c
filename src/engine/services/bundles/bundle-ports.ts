/** The port of the files that bundles are. */

/** One block of a bundle: bytes, or JSON. */
export interface BundleBlock {
  readonly kind: 'raw' | 'json'
  /** The SHA-256 of the bytes, lower-case hex. */
  readonly hash: string
  readonly bytes: Uint8Array
}

/** Writes and reads files of blocks, of any length in bounded memory. */
export interface BundleFiles {
  /** The first block is the root, and has this hash. The caller owns the resulting bytes. */
  write(rootHash: string, blocks: AsyncIterable<BundleBlock>): AsyncIterable<Uint8Array>
  /**
   * The blocks of a file, the root first, each checked against its hash. Errors of the content itself are passed on.
   *
   * @throws {EngineError} INVALID_BUNDLE when the file is damaged
   */
  read(content: AsyncIterable<Uint8Array>): AsyncIterable<BundleBlock>
}
