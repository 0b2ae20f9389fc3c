/** Limits of the inspector. Sizes are in bytes, times in milliseconds. */
export const inspectorLimits = {
  /** The body of a request that is passed on to a server. The requests of the page are small. */
  bodyBytes: 2 ** 20,
  /** Findings of a check that are sent to the page. */
  checkFindings: 200,
  /** How long a server may take to begin its answer. */
  serverMs: 60_000,
}
