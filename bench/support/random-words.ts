/**
 * The generator of `forkspace/testing`. This copy lets a process create the same data without loading the library, which
 * is one of the contenders.
 */
export function randomWords(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let word = Math.imul(state ^ (state >>> 15), state | 1)
    word = (word + Math.imul(word ^ (word >>> 7), word | 61)) ^ word
    return (word ^ (word >>> 14)) >>> 0
  }
}
